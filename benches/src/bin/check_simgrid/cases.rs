//! Random cases: tori, dragonflies and fat trees of up to 512 nodes, uneven ranks in any order, any strategy.

use anyhow::Context;
use forebay_aggregate::{
    Case, CaseDescription, FatTreeLevel, IoNode, RankDescription, RanksDescription, Serves, Strategy,
    TopologyDescription,
};

/// A case and how it is planned.
pub struct RandomCase {
    /// The case.
    pub case: Case,
    /// The strategy.
    pub strategy: Strategy,
    /// Buffers of an aggregator.
    pub buffers: usize,
    /// The kind of its network.
    pub topology: &'static str,
}

/// A xorshift generator.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }

    fn one_of<T: Clone>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())].clone()
    }
}

/// The case of a number.
pub fn random(number: u64) -> anyhow::Result<RandomCase> {
    let mut chance = Chance(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(number));
    let (name, topology, nodes) = topology(&mut chance, number);
    let of_io_node = chance.one_of(&[nodes, nodes / 2, nodes / 4]);
    let io_rate = chance.one_of(&[1e9, 1.8e9, 4e9]);
    let io_node = |first: usize| {
        let serves = Serves::Range(first, (first + of_io_node - 1).min(nodes - 1));
        IoNode { node: first, bytes_per_s: io_rate, serves }
    };
    let buffers = 1 + chance.below(3);
    let description = CaseDescription {
        topology,
        link_bytes_per_s: 1.8e9,
        link_latency_s: 1e-6,
        nodes,
        io_nodes: (0..nodes).step_by(of_io_node).map(io_node).collect(),
        ranks: RanksDescription::Each(ranks(&mut chance, nodes)),
        aggregators: Some(1 + chance.below((nodes / 8).max(2))),
        rounds: Some(1 + chance.below(4)),
        aggregator_memory_bytes: 32 << 20,
        buffer_bytes: 16 << 20,
        buffers,
        stripe_bytes: 64 << 10,
        nvme: None,
    };
    let case = Case::new(description).context("a random case is refused")?;
    Ok(RandomCase { case, strategy: chance.one_of(&Strategy::ALL), buffers, topology: name })
}

fn topology(chance: &mut Chance, number: u64) -> (&'static str, TopologyDescription, usize) {
    match number % 3 {
        0 => {
            let shapes: [&[usize]; 6] = [&[8], &[4, 4], &[5, 3, 4], &[8, 8, 4], &[4, 4, 4, 4], &[4, 4, 4, 4, 2]];
            let dimensions = chance.one_of(&shapes).to_vec();
            let nodes = dimensions.iter().product();
            ("torus", TopologyDescription::Torus(dimensions), nodes)
        }
        1 => {
            let (groups, routers, nodes) = chance.one_of(&[(3, 2, 2), (5, 4, 4), (9, 4, 4), (9, 8, 4), (16, 8, 4)]);
            ("dragonfly", TopologyDescription::Dragonfly { groups, routers, nodes }, groups * routers * nodes)
        }
        _ => {
            let level = |(down, up)| FatTreeLevel { down, up };
            let shapes: [&[(usize, usize)]; 4] =
                [&[(16, 1)], &[(8, 4), (8, 1)], &[(16, 8), (16, 1)], &[(8, 4), (8, 4), (8, 1)]];
            let shape = chance.one_of(&shapes);
            let nodes = shape.iter().map(|(down, _)| down).product();
            ("fat tree", TopologyDescription::FatTree { levels: shape.iter().copied().map(level).collect() }, nodes)
        }
    }
}

/// One or two ranks a node, in any order: of 4 KiB, where latency counts, of 1 MiB, or uneven, of 0 to 2 MiB.
fn ranks(chance: &mut Chance, nodes: usize) -> Vec<RankDescription> {
    let per_node = 1 + chance.below(2);
    let alike = chance.one_of(&[Some(4 << 10), Some(1 << 20), None]);
    let mut order: Vec<usize> = (0..nodes * per_node).map(|rank| rank / per_node).collect();
    for last in (1..order.len()).rev() {
        order.swap(last, chance.below(last + 1));
    }
    let mut rank = |node| {
        let bytes = alike.unwrap_or_else(|| chance.below(2 << 20) as u64);
        RankDescription { node, bytes, extents: None }
    };
    order.into_iter().map(&mut rank).collect()
}
