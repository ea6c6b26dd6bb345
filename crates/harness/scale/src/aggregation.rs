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

/// Bytes of a rank: HACC-IO's from a few particles of 38 bytes to some 100,000.
const RANK_BYTES: [u64; 5] = [1 << 10, 4 << 10, 64 << 10, 1 << 20, 4 << 20];

/// Those that are compared; the last against each.
const STRATEGIES: [Strategy; 5] =
    [Strategy::First, Strategy::Nearest, Strategy::Poster, Strategy::Balanced, Strategy::Joint];

const POSTER: &str = "the poster on topology-aware aggregation on Mira";
const ASSUMED: &str = "assumed";

const RANKS_OF_NODE: Stated = stated("ranks of a node", 16.0, "", POSTER);
const LATENCY: Stated = stated("latency of a link", 1e-6, "s", ASSUMED);
const AGGREGATORS: Stated = stated("aggregators for each I/O node", 4.0, "", ASSUMED);
const BLOCK: Stated = stated("nodes that stay together when ranks are scattered", 4.0, "", ASSUMED);

const MIRA_LINK: Stated = stated("rate of a link", 1.8e9, "B/s", POSTER);
const MIRA_NODES_OF_IO: Stated = stated("nodes for each I/O node", 128.0, "", POSTER);
const MIRA_IO: Stated = stated("rate of an I/O node", 3.6e9, "B/s", "assumed: its two links");

const THETA_LINK: Stated = stated("rate of a link", 10e9, "B/s", "assumed: an Aries router's, rounded");
const THETA_ROUTERS: Stated = stated("routers of a group", 96.0, "", "Cray XC40: two cabinets");
const THETA_NODES: Stated = stated("nodes of a router", 4.0, "", "Cray XC40");
const THETA_NODES_OF_IO: Stated = stated("nodes for each way to Lustre", 128.0, "", ASSUMED);
const THETA_IO: Stated = stated("rate of a way to Lustre", 5e9, "B/s", ASSUMED);

/// A machine, as a case needs it.
struct Machine {
    title: &'static str,
    topology: TopologyDescription,
    link: Stated,
    nodes_of_io: Stated,
    io: Stated,
    more: Vec<Stated>,
}

/// A torus of five dimensions with an I/O node for each 128 nodes.
pub(super) fn mira(nodes: &[usize], seed: u64) -> Outcome {
    let machine = Machine {
        title: "Mira: a torus of five dimensions",
        topology: TopologyDescription::Torus(torus(nodes[0])),
        link: MIRA_LINK,
        nodes_of_io: MIRA_NODES_OF_IO,
        io: MIRA_IO,
        more: vec![],
    };
    compared(&machine, nodes[0], seed)
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
    let head = ["bytes a rank", "ranks"].map(str::to_owned).into_iter();
    let head =
        head.chain(STRATEGIES.iter().map(|each| format!("{} (model), s", each.name()))).chain(["floor, s".to_owned()]);
    let mut rows = vec![head.collect()];
    for (order, map) in [("in order", None), ("scattered", Some(scattered(nodes, seed)))] {
        rows.extend(RANK_BYTES.iter().filter_map(|bytes| row(machine, nodes, *bytes, (order, map.clone()))));
    }
    let parameters =
        [RANKS_OF_NODE, machine.link, LATENCY, machine.nodes_of_io, machine.io, AGGREGATORS, BLOCK].into_iter();
    Outcome {
        title: format!("{}, {nodes} nodes write one file", machine.title),
        source: "nothing: the strategies stand beside each other (docs/aggregation.md)",
        parameters: parameters.chain(machine.more.iter().copied()).collect(),
        rows,
        curves: vec![],
        bars: vec![],
        notes: vec![
            "The count of aggregators and one round are pinned; `poster` is the poster's cost, C1 + C2.".to_owned(),
        ],
    }
}

/// What the strategies take for so many bytes a rank; no row if the machine cannot be planned for.
fn row(machine: &Machine, nodes: usize, bytes: u64, (order, map): (&str, Option<Vec<usize>>)) -> Option<Vec<String>> {
    let served = machine.nodes_of_io.count();
    let io_node = |first: usize| {
        let serves = Serves::Range(first, (first + served).min(nodes) - 1);
        IoNode { node: first, bytes_per_s: machine.io.value, serves }
    };
    let io_nodes: Vec<IoNode> = (0..nodes).step_by(served).map(io_node).collect();
    let aggregators = io_nodes.len() * AGGREGATORS.count();
    let per_node = RANKS_OF_NODE.count();
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
    let case = case.ok()?;
    let seconds = STRATEGIES.iter().map(|strategy| plan(&case, *strategy).ok().map(|plan| plan.predicted.total_s));
    let cells = seconds.chain([Some(case.io_floor_s())]).map(|cell| Some(format!("{:.5}", cell?)));
    let cells: Option<Vec<String>> = cells.collect();
    Some([vec![bytes.to_string(), order.to_owned()], cells?].concat())
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
            assert_eq!(outcome.rows.len(), 1 + 2 * RANK_BYTES.len(), "{:?}", outcome.rows);
            for row in &outcome.rows[1..] {
                let seconds: Vec<f64> = row[2..].iter().map(|cell| cell.parse().unwrap()).collect();
                let (joint, floor) = (seconds[4], seconds[5]);
                assert!(seconds[..4].iter().all(|other| joint <= *other) && floor <= joint, "{row:?}");
            }
            assert_eq!(outcome.rows, run(&[512], 1).rows);
        }
    }
}
