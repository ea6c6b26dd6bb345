//! Where a checkpoint's writes are gathered: the planner's strategies by its flow model, on two machines of the literature.
//!
//! The planner and the model are the product's (`forebay_aggregate`); here are only the machines and the jobs. No published
//! curve stands beside the figures: what was published was measured against an MPI library on a file system that nobody models
//! here, so only the strategies are compared with each other.

use forebay_aggregate::{
    Case, CaseDescription, IoNode, RanksAlike, RanksDescription, Serves, Strategy, TopologyDescription, plan,
};

use super::stated::{Stated, stated};
use super::table::Outcome;

/// Particles of a rank: from 1 KiB, as small as the messages for which the poster reports its largest gain, to its 4 MB.
const PARTICLES: [u64; 5] = [27, 108, 1_725, 27_594, 110_376];

/// Those that are compared: ROMIO's default, the poster's greedy controls, the poster, controls of ours, and the last.
const STRATEGIES: [Strategy; 8] = [
    Strategy::Romio,
    Strategy::Largest,
    Strategy::Smallest,
    Strategy::Poster,
    Strategy::First,
    Strategy::Nearest,
    Strategy::Balanced,
    Strategy::Joint,
];

const POSTER: &str = "the poster on topology-aware aggregation on Mira";
const ALCF_MIRA: &str = "ALCF, Machine Overview for Mira/Cetus/Vesta, and the poster";
const ALCF_THETA: &str = "ALCF, Theta Machine Overview: 30 LNET nodes, 4,392 compute nodes";
const ASSUMED: &str = "assumed";

const PARTICLE: Stated = stated("a particle: 9 variables", 38.0, "B", "HACC-IO, array of structs");
const RANKS_OF_NODE: Stated = stated("ranks of a node", 16.0, "", POSTER);
const LATENCY: Stated = stated("latency of a link", 1e-6, "s", ASSUMED);
const AGGREGATORS: Stated = stated("aggregators for each I/O node", 4.0, "", ASSUMED);
const ONE_AGGREGATOR: Stated = AGGREGATORS.but(1.0, "assumed: then C1 + C2 is that aggregator's");
const BLOCK: Stated = stated("nodes that stay together when ranks are scattered", 4.0, "", ASSUMED);

const MIRA_LINK: Stated = stated("rate of a link", 1.8e9, "B/s", POSTER);
const MIRA_NODES_OF_IO: Stated = stated("nodes for each I/O node", 128.0, "", ALCF_MIRA);
const MIRA_IO: Stated = stated("rate of an I/O node", 3.6e9, "B/s", "assumed: its two links of 1.8 GB/s");

const THETA_LINK: Stated = stated("rate of a link", 10e9, "B/s", "assumed: an Aries router's, rounded");
const THETA_ROUTERS: Stated = stated("routers of a group", 96.0, "", "Cray XC40: two cabinets");
const THETA_NODES: Stated = stated("nodes of a router", 4.0, "", "Cray XC40");
const THETA_NODES_OF_IO: Stated = stated("nodes for each way to Lustre", 146.0, "", ALCF_THETA);
const THETA_IO: Stated = stated(
    "rate of a way to Lustre",
    7e9,
    "B/s",
    "ALCF, Data and Networking: 210 GB/s of theta-fs0, over 30 LNET nodes",
);

/// A machine, as a case needs it.
struct Machine {
    title: &'static str,
    topology: TopologyDescription,
    link: Stated,
    nodes_of_io: Stated,
    io: Stated,
    aggregators: Stated,
    more: Vec<Stated>,
}

impl Machine {
    fn list(&self) -> Vec<Stated> {
        let all = [PARTICLE, RANKS_OF_NODE, self.link, LATENCY, self.nodes_of_io, self.io, self.aggregators, BLOCK];
        [all.to_vec(), self.more.clone()].concat()
    }
}

fn of_mira(nodes: usize) -> Machine {
    Machine {
        title: "Mira: a torus of five dimensions",
        topology: TopologyDescription::Torus(torus(nodes)),
        link: MIRA_LINK,
        nodes_of_io: MIRA_NODES_OF_IO,
        io: MIRA_IO,
        aggregators: AGGREGATORS,
        more: vec![],
    }
}

/// A torus of five dimensions with an I/O node for each 128 nodes.
pub(super) fn mira(nodes: &[usize], seed: u64) -> Outcome {
    compared(&of_mira(nodes[0]), nodes[0], seed)
}

/// C1 and C2 of the aggregators that strategies choose, on nodes of such a torus that share I/O nodes.
pub(super) fn formula(nodes: &[usize], seed: u64) -> Outcome {
    let nodes = nodes[0];
    let machine = Machine { aggregators: ONE_AGGREGATOR, ..of_mira(nodes) };
    let head =
        ["particles a rank", "strategy", "hops to the I/O node", "C1, s", "C2, s", "C1 + C2, s", "total (model), s"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for particles in PARTICLES {
        let Some(case) = case(&machine, nodes, particles, Some(scattered(nodes, seed))) else { continue };
        let plans = STRATEGIES.iter().filter_map(|strategy| plan(&case, *strategy).ok());
        rows.extend(plans.map(|plan| {
            let hops = plan
                .aggregators
                .iter()
                .map(|each| case.network().hop_count(each.node, case.io_nodes()[each.io_node].node));
            let cost = plan.predicted;
            let seconds = [cost.c1_s, cost.c2_s, cost.c1_s + cost.c2_s, cost.total_s].map(|each| format!("{each:.6}"));
            let name = plan.strategy.name().to_owned();
            [vec![particles.to_string(), name, hops.max().unwrap_or(0).to_string()], seconds.to_vec()].concat()
        }));
    }
    Outcome {
        title: format!("The poster's cost, C1 + C2, and the flow model: {nodes} nodes of {}", machine.title),
        parameters: machine.list(),
        rows,
        notes: vec![
            "C1 and C2 are the largest of any aggregator, each as if it had the network for itself; the total has all \
             flows of all aggregators in it."
                .to_owned(),
        ],
        ..outcome()
    }
}

fn outcome() -> Outcome {
    Outcome {
        title: String::new(),
        source: "nothing: the strategies stand beside each other (docs/aggregation.md)",
        parameters: vec![],
        rows: vec![],
        curves: vec![],
        bars: vec![],
        notes: vec![],
    }
}

/// A dragonfly with ways to Lustre spread over it.
pub(super) fn theta(nodes: &[usize], seed: u64) -> Outcome {
    let (routers, of_router) = (THETA_ROUTERS.count(), THETA_NODES.count());
    let groups = nodes[0].div_ceil(routers * of_router).max(2);
    let machine = Machine {
        title: "As Theta: a dragonfly with Lustre",
        topology: TopologyDescription::Dragonfly { groups, routers, nodes: of_router },
        link: THETA_LINK,
        nodes_of_io: THETA_NODES_OF_IO,
        io: THETA_IO,
        aggregators: AGGREGATORS,
        more: vec![THETA_ROUTERS, THETA_NODES],
    };
    compared(&machine, nodes[0], seed)
}

/// Five lengths, as alike as powers of two allow, the last one two where it can be: as Blue Gene/Q has them.
fn torus(nodes: usize) -> Vec<usize> {
    let mut lengths = vec![1; 5];
    let powers = nodes.next_power_of_two().trailing_zeros() as usize;
    lengths[4] <<= powers.min(1);
    (0..powers.saturating_sub(1)).for_each(|power| lengths[power % 4] *= 2);
    lengths
}

fn compared(machine: &Machine, nodes: usize, seed: u64) -> Outcome {
    let head = ["particles a rank", "bytes a rank", "ranks"].map(str::to_owned).into_iter();
    let head =
        head.chain(STRATEGIES.iter().map(|each| format!("{} (model), s", each.name()))).chain(["floor, s".to_owned()]);
    let mut rows = vec![head.collect()];
    for (order, map) in [("in order", None), ("scattered", Some(scattered(nodes, seed)))] {
        rows.extend(PARTICLES.iter().filter_map(|particles| row(machine, nodes, *particles, (order, map.clone()))));
    }
    Outcome {
        title: format!("{}, {nodes} nodes write one file", machine.title),
        parameters: machine.list(),
        rows,
        notes: vec![
            "The count of aggregators and one round are pinned; `poster` is the poster's cost, C1 + C2, `largest` and \
             `smallest` its greedy controls; `romio` takes the first nodes in rank order, as ROMIO does by default (its \
             driver for Blue Gene spread aggregators over I/O nodes)."
                .to_owned(),
            "Stripes are a quarter of an aggregator's part, 1 MiB at most.".to_owned(),
        ],
        ..outcome()
    }
}

/// The machine's job; none if it cannot be planned for.
fn case(machine: &Machine, nodes: usize, particles: u64, map: Option<Vec<usize>>) -> Option<Case> {
    let served = machine.nodes_of_io.count();
    let io_node = |first: usize| {
        let serves = Serves::Range(first, (first + served).min(nodes) - 1);
        IoNode { node: first, bytes_per_s: machine.io.value, serves }
    };
    let io_nodes: Vec<IoNode> = (0..nodes).step_by(served).map(io_node).collect();
    let aggregators = io_nodes.len() * machine.aggregators.count();
    let per_node = RANKS_OF_NODE.count();
    let bytes = particles * PARTICLE.count() as u64;
    let total = bytes * (nodes * per_node) as u64;
    let case = Case::new(CaseDescription {
        topology: machine.topology.clone(),
        link_bytes_per_s: machine.link.value,
        link_latency_s: LATENCY.value,
        nodes,
        io_nodes,
        ranks: RanksDescription::Alike(RanksAlike { per_node, bytes, map }),
        aggregators: Some(aggregators),
        rounds: Some(1),
        aggregator_memory_bytes: total,
        buffer_bytes: total,
        buffers: 2,
        // Some stripes for each aggregator, however little there is to write.
        stripe_bytes: (total / aggregators as u64 / 4).clamp(1, 1 << 20),
        nvme: None,
    });
    case.ok()
}

/// The times of the strategies for so many particles a rank; no row if the machine cannot be planned for.
fn row(
    machine: &Machine,
    nodes: usize,
    particles: u64,
    (order, map): (&str, Option<Vec<usize>>),
) -> Option<Vec<String>> {
    let case = case(machine, nodes, particles, map)?;
    let seconds = STRATEGIES.iter().map(|strategy| plan(&case, *strategy).ok().map(|plan| plan.predicted.total_s));
    let cells = seconds.chain([Some(case.io_floor_s())]).map(|cell| Some(format!("{:.5}", cell?)));
    let cells: Option<Vec<String>> = cells.collect();
    let bytes = particles * PARTICLE.count() as u64;
    Some([vec![particles.to_string(), bytes.to_string(), order.to_owned()], cells?].concat())
}

/// Nodes in blocks whose order is chance's.
fn scattered(nodes: usize, seed: u64) -> Vec<usize> {
    let block = BLOCK.count();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed.wrapping_add(1)) | 1;
    let mut blocks: Vec<usize> = (0..nodes.div_ceil(block)).collect();
    for last in (1..blocks.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        blocks.swap(last, (state % (last as u64 + 1)) as usize);
    }
    blocks.into_iter().flat_map(|first| first * block..((first + 1) * block).min(nodes)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tori_have_room_for_all_nodes() {
        assert_eq!(torus(4096), [8, 8, 8, 4, 2]);
        assert_eq!(torus(512), [4, 4, 4, 4, 2]);
        assert!([1, 3, 100, 5000].iter().all(|nodes| torus(*nodes).iter().product::<usize>() >= *nodes));
    }

    #[test]
    fn joint_takes_no_longer_than_others_and_nobody_less_than_the_floor() {
        for run in [mira, theta] {
            let outcome = run(&[512], 1);
            assert_eq!(outcome.rows.len(), 1 + 2 * PARTICLES.len(), "{:?}", outcome.rows);
            for row in &outcome.rows[1..] {
                let seconds: Vec<f64> = row[3..].iter().map(|cell| cell.parse().unwrap()).collect();
                let (floor, strategies) = seconds.split_last().unwrap();
                let (joint, others) = strategies.split_last().unwrap();
                assert_eq!(others.len(), 7);
                assert!(others.iter().all(|other| joint <= other) && floor <= joint, "{row:?}");
            }
            assert_eq!(outcome.rows, run(&[512], 1).rows);
        }
    }

    #[test]
    fn the_poster_s_placement_has_the_least_of_its_own_cost() {
        let rows = formula(&[128], 1).rows;
        assert_eq!(rows.len(), 1 + PARTICLES.len() * STRATEGIES.len());
        for of_size in rows[1..].chunks(STRATEGIES.len()) {
            let cost = |name: &str| -> f64 {
                of_size.iter().find(|row| row[1] == name).map(|row| row[5].parse().unwrap()).unwrap()
            };
            assert!(["largest", "smallest", "first", "nearest"].iter().all(|other| cost("poster") <= cost(other)));
        }
    }
}
