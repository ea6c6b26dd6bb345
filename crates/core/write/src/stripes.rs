//! A large file on its way to the backing file system: by stripes, each of which one node writes.
//!
//! The file is cut into aligned stripes. The aggregation planner gives consecutive stripes to a node that has bytes of them. So nodes have
//! equal work and read little from each other. The leader has the nodes write them, some at a time. If a node fails, the leader
//! writes its stripes itself. Verified stripes are noted in the tree and not sent again, whichever node leads the tree then.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use forebay_aggregate::{
    Case, CaseDescription, Extent, FatTreeLevel, IoNode, RankDescription, RanksDescription, Serves, Strategy,
    TopologyDescription, plan,
};
use forebay_types::NodeRank;
use forebay_wire::write::{Piece, Source, WrittenExtent};

/// The smallest stripe, bytes: parallel file systems have stripes of 1 to 4 MiB.
pub const STRIPE_BYTES_MIN: u64 = 4 << 20;

pub use forebay_wire::write_message::STRIPE_BYTES_MAX;

/// Bytes from which on a file is sent by stripes: below, one node is as fast.
pub const LARGE_BYTES: u64 = 8 * STRIPE_BYTES_MIN;

/// Stripes of each node that the size of stripes is to come to.
const STRIPES_PER_NODE: u64 = 4;

/// Stripes that a node writes at a time: one is read from logs while the other is made durable.
const UNDER_WAY_MAX: usize = 2;

/// Nodes times stripes up to which the planner is asked: it looks at all pairs.
const PLANNED_MAX: usize = 1 << 14;

/// Rates that the planner counts with, bytes a second: only that all are alike matters, and that the network is no bottleneck.
const NODE_BYTES_PER_S: f64 = 1e9;
const LINK_BYTES_PER_S: f64 = 1e10;

/// Whose bytes a stripe has, by stripe.
pub type Weights = BTreeMap<u64, BTreeMap<NodeRank, u64>>;

/// The next step of the work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NextStripe {
    /// A node is to write a stripe.
    Write {
        /// Which, from the file's beginning.
        stripe: u64,
        /// The writer.
        node: NodeRank,
    },
    /// None until one that is under way has ended.
    Wait,
    /// All stripes are done.
    Over,
}

/// The stripes of one file. See the module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stripes {
    own: NodeRank,
    to_write: BTreeMap<NodeRank, VecDeque<u64>>,
    under_way: BTreeMap<u64, NodeRank>,
}

impl Stripes {
    /// Stripes of these weights, but for those that are `verified`. `own` is the leader.
    #[must_use]
    pub fn new(weights: &Weights, stripe_bytes: u64, verified: &BTreeSet<u64>, own: NodeRank) -> Self {
        let mut to_write: BTreeMap<NodeRank, VecDeque<u64>> = BTreeMap::new();
        for (stripe, node) in writers(weights, stripe_bytes) {
            if !verified.contains(&stripe) {
                to_write.entry(node).or_default().push_back(stripe);
            }
        }
        Self { own, to_write, under_way: BTreeMap::new() }
    }

    /// A node is not to write any, where it is not the leader: that one does.
    pub fn leave_out(&mut self, node: NodeRank) {
        let of_node = self.to_write.remove(&node).unwrap_or_default();
        if !of_node.is_empty() {
            self.to_write.entry(self.own).or_default().extend(of_node);
        }
    }

    /// How many nodes have stripes to write.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.to_write.len()
    }

    /// How many may be under way at once.
    #[must_use]
    pub fn at_once(&self) -> usize {
        let of = |queue: &VecDeque<u64>| queue.len().min(UNDER_WAY_MAX);
        self.to_write.values().map(of).sum()
    }

    /// The next stripe to write: the node with fewest stripes under way is first.
    pub fn next_stripe(&mut self) -> NextStripe {
        let under_way = |node: NodeRank| self.under_way.values().filter(|by| **by == node).count();
        let free =
            self.to_write.keys().map(|node| (under_way(*node), *node)).filter(|(count, _)| *count < UNDER_WAY_MAX);
        let Some((_, node)) = free.min() else {
            let is_over = self.to_write.is_empty() && self.under_way.is_empty();
            return if is_over { NextStripe::Over } else { NextStripe::Wait };
        };
        let Some(queue) = self.to_write.get_mut(&node) else { return NextStripe::Wait };
        let stripe = queue.pop_front();
        if queue.is_empty() {
            self.to_write.remove(&node);
        }
        let Some(stripe) = stripe else { return NextStripe::Wait };
        self.under_way.insert(stripe, node);
        NextStripe::Write { stripe, node }
    }

    /// A stripe is on the backing file system, verified and durable.
    pub fn verified(&mut self, stripe: u64) {
        self.under_way.remove(&stripe);
    }

    /// The node that was to write a stripe cannot. Whether the leader writes it and all others of that node; otherwise it was the leader.
    pub fn failed(&mut self, stripe: u64) -> bool {
        let Some(node) = self.under_way.remove(&stripe) else { return true };
        self.leave_out(node);
        self.to_write.entry(self.own).or_default().push_front(stripe);
        node != self.own
    }
}

/// Whose bytes each stripe has.
#[must_use]
pub fn weights(extents: &[WrittenExtent], stripe_bytes: u64) -> Weights {
    let mut weights = Weights::new();
    for extent in extents {
        let (mut at, end) = (extent.offset, extent.offset + extent.len);
        while at < end {
            let stripe = at / stripe_bytes;
            let part = end.min((stripe + 1) * stripe_bytes) - at;
            *weights.entry(stripe).or_default().entry(extent.node).or_default() += part;
            at += part;
        }
    }
    weights
}

/// The size of a file's stripes: some for each of the nodes that have it, on a file system with blocks of `block_bytes`.
#[must_use]
pub fn stripe_bytes(extents: &[WrittenExtent], block_bytes: u32) -> u64 {
    let bytes: u64 = extents.iter().map(|extent| extent.len).sum();
    let nodes = extents.iter().map(|extent| extent.node).collect::<BTreeSet<_>>().len().max(1) as u64;
    let wanted = (bytes / (nodes * STRIPES_PER_NODE)).max(u64::from(block_bytes)).max(1);
    (1_u64 << wanted.ilog2()).clamp(STRIPE_BYTES_MIN, STRIPE_BYTES_MAX)
}

/// The extents within a stripe, of a file's extents in their order.
#[must_use]
pub fn of_stripe(extents: &[WrittenExtent], stripe: u64, stripe_bytes: u64) -> Vec<WrittenExtent> {
    let range = stripe * stripe_bytes..(stripe + 1) * stripe_bytes;
    let first = extents.partition_point(|extent| extent.offset + extent.len <= range.start);
    let within = extents[first..].iter().take_while(|extent| extent.offset < range.end);
    within.filter_map(|extent| part(extent, range.clone())).collect()
}

/// The part of an extent in a range of the file.
#[must_use]
pub fn part(extent: &WrittenExtent, range: std::ops::Range<u64>) -> Option<WrittenExtent> {
    let whole = Piece { offset: extent.offset, len: extent.len, source: Source::Log(*extent) };
    match whole.part(range)?.source {
        Source::Log(extent) => Some(extent),
        Source::Backing | Source::Hole => None,
    }
}

/// The writer of each stripe.
fn writers(weights: &Weights, stripe_bytes: u64) -> BTreeMap<u64, NodeRank> {
    let nodes: Vec<NodeRank> =
        weights.values().flat_map(BTreeMap::keys).copied().collect::<BTreeSet<_>>().into_iter().collect();
    if nodes.len() > 1
        && nodes.len() * weights.len() <= PLANNED_MAX
        && let Some(planned) = planned(weights, stripe_bytes, &nodes)
    {
        return planned;
    }
    heaviest(weights)
}

/// By the aggregation planner: nodes are its ranks, and each reaches the backing file system on its own.
fn planned(weights: &Weights, stripe_bytes: u64, nodes: &[NodeRank]) -> Option<BTreeMap<u64, NodeRank>> {
    let number = |node: &NodeRank| nodes.binary_search(node).ok();
    // How much of a stripe a node has matters, and not where in it that lies.
    let mut ranks: Vec<Vec<Extent>> = vec![vec![]; nodes.len()];
    for (stripe, of_nodes) in weights {
        let mut offset = stripe * stripe_bytes;
        for (node, bytes) in of_nodes {
            ranks[number(node)?].push(Extent { offset, len: *bytes });
            offset += bytes;
        }
    }
    let ranks = ranks.into_iter().enumerate().map(|(node, extents)| {
        let bytes = extents.iter().map(|extent| extent.len).sum();
        RankDescription { node, bytes, extents: Some(extents) }
    });
    let io_node = |node| IoNode { node, bytes_per_s: NODE_BYTES_PER_S, serves: Serves::Range(node, node) };
    let case = Case::new(CaseDescription {
        topology: TopologyDescription::FatTree { levels: vec![FatTreeLevel { down: nodes.len(), up: 1 }] },
        link_bytes_per_s: LINK_BYTES_PER_S,
        link_latency_s: 0.0,
        nodes: nodes.len(),
        io_nodes: (0..nodes.len()).map(io_node).collect(),
        ranks: RanksDescription::Each(ranks.collect()),
        aggregators: Some(nodes.len()),
        rounds: Some(1),
        aggregator_memory_bytes: STRIPE_BYTES_MAX,
        buffer_bytes: stripe_bytes,
        buffers: UNDER_WAY_MAX,
        stripe_bytes,
        nvme: None,
    });
    let plan = plan(&case.ok()?, Strategy::Balanced).ok()?;
    let domains = plan.aggregators.iter().filter_map(|aggregator| {
        let end = aggregator.domain.last()?.end();
        Some((end, *nodes.get(aggregator.node)?))
    });
    let domains: Vec<(u64, NodeRank)> = domains.collect();
    let writer = |stripe: &u64| {
        let domain = domains.partition_point(|(end, _)| *end <= stripe * stripe_bytes);
        Some((*stripe, domains.get(domain)?.1))
    };
    weights.keys().map(writer).collect()
}

/// The node with most bytes of each stripe that has least to do: for more nodes than the planner looks at.
fn heaviest(weights: &Weights) -> BTreeMap<u64, NodeRank> {
    let mut loads: BTreeMap<NodeRank, u64> = BTreeMap::new();
    let writer = |(stripe, of_nodes): (&u64, &BTreeMap<NodeRank, u64>)| {
        let most = of_nodes.values().max()?;
        let heaviest = of_nodes.iter().filter(|(_, bytes)| *bytes == most).map(|(node, _)| *node);
        let node = heaviest.min_by_key(|node| (loads.get(node).copied().unwrap_or(0), *node))?;
        *loads.entry(node).or_default() += of_nodes.values().sum::<u64>();
        Some((*stripe, node))
    };
    weights.iter().filter_map(writer).collect()
}
