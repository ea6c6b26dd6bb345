//! The simulated job: 4,096 nodes of a five-dimensional torus, an I/O node for each 64 of them, and ranks scattered over the
//! nodes by chance.

use anyhow::Context;
use forebay_aggregate::{
    Case, CaseDescription, IoNode, RanksAlike, RanksDescription, Serves, Strategy, TopologyDescription, plan,
};
use forebay_testkit::results::Samples;
use forebay_testkit::stop;

/// Lengths of the torus; 4,096 nodes.
const TORUS: [usize; 5] = [8, 8, 8, 4, 2];

/// Nodes of the job.
pub const NODES: usize = 4096;

/// Nodes that an I/O node serves.
const NODES_OF_IO_NODE: usize = 64;

/// Of a link, and of an I/O node: those of Blue Gene/Q.
const BYTES_PER_S: f64 = 1.8e9;

/// Nodes that stay together when a scheduler scatters a job.
const BLOCK: usize = 4;

/// The bytes that the job writes, and the pinned numbers.
#[derive(Clone, Copy)]
pub struct Work {
    /// Ranks of a node.
    pub per_node: usize,
    /// Bytes of a rank.
    pub bytes: u64,
    /// Aggregators, if pinned.
    pub aggregators: Option<usize>,
    /// Rounds, if pinned.
    pub rounds: Option<usize>,
    /// Bytes of a stripe.
    pub stripe_bytes: u64,
}

/// 1 MiB a node to 256 aggregators in one round.
pub const MEBIBYTE: Work =
    Work { per_node: 1, bytes: 1 << 20, aggregators: Some(256), rounds: Some(1), stripe_bytes: 1 << 20 };

/// The job with its ranks in the order of the nodes, or, with a seed, in blocks of nodes in an order that is chance's.
pub fn case(work: Work, seed: Option<u64>) -> anyhow::Result<Case> {
    let io_node = |index: usize| {
        let first = index * NODES_OF_IO_NODE;
        IoNode { node: first, bytes_per_s: BYTES_PER_S, serves: Serves::Range(first, first + NODES_OF_IO_NODE - 1) }
    };
    let description = CaseDescription {
        topology: TopologyDescription::Torus(TORUS.to_vec()),
        link_bytes_per_s: BYTES_PER_S,
        link_latency_s: 1e-6,
        nodes: NODES,
        io_nodes: (0..NODES / NODES_OF_IO_NODE).map(io_node).collect(),
        ranks: RanksDescription::Alike(RanksAlike {
            per_node: work.per_node,
            bytes: work.bytes,
            map: seed.map(scattered),
        }),
        aggregators: work.aggregators,
        rounds: work.rounds,
        aggregator_memory_bytes: 32 << 20,
        buffer_bytes: 16 << 20,
        buffers: 2,
        stripe_bytes: work.stripe_bytes,
        nvme: None,
    };
    Case::new(description).context("the case is refused")
}

/// The nodes in blocks that lie in any order (Fisher and Yates, with a xorshift generator).
fn scattered(seed: u64) -> Vec<usize> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed + 1);
    let mut blocks: Vec<usize> = (0..NODES / BLOCK).collect();
    for last in (1..blocks.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        blocks.swap(last, (state % (last as u64 + 1)) as usize);
    }
    blocks.into_iter().flat_map(|block| block * BLOCK..(block + 1) * BLOCK).collect()
}

/// Seconds by the flow model, of each strategy, run by run; and the least that any could take.
pub struct Totals {
    strategies: Vec<(Strategy, Samples)>,
    /// All bytes over the rates of all I/O nodes.
    pub floor: Samples,
}

impl Totals {
    /// Simulates these strategies with every seed.
    pub fn of(work: Work, strategies: &[Strategy], seeds: impl Iterator<Item = Option<u64>>) -> anyhow::Result<Self> {
        let mut totals = Self {
            strategies: strategies.iter().map(|each| (*each, Samples::default())).collect(),
            floor: Samples::default(),
        };
        for seed in seeds {
            stop::check()?;
            let case = case(work, seed)?;
            totals.floor.add(case.io_floor_s());
            for (strategy, samples) in &mut totals.strategies {
                samples.add(plan(&case, *strategy)?.predicted.total_s);
            }
        }
        Ok(totals)
    }

    /// Those of a strategy; of one that was not asked for there are none.
    pub fn strategy(&self, wanted: Strategy) -> Samples {
        self.strategies
            .iter()
            .find(|(strategy, _)| *strategy == wanted)
            .map(|(_, each)| each.clone())
            .unwrap_or_default()
    }

    /// By name.
    pub fn by_name(&self) -> std::collections::BTreeMap<&'static str, Samples> {
        let of_floor = std::iter::once(("floor", self.floor.clone()));
        self.strategies.iter().map(|(strategy, samples)| (strategy.name(), samples.clone())).chain(of_floor).collect()
    }
}
