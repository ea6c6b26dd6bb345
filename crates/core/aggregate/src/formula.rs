//! The poster's cost of an aggregator: C1 + C2, as if it had the network for itself.
//!
//! C1 is how long the slowest rank takes to the aggregator, C2 how long the aggregator takes to its I/O node: each the
//! latency of the route and the bytes over the rate of its slowest link. TAPIOCA (F. Tessier et al.) places by the same.
//! The I/O node's own rate belongs to its route. Neither knows of other aggregators.

use crate::case::Case;
use crate::division::{Domain, Holder};

/// Seconds, of one aggregator or the most of several.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Cost {
    /// From the slowest rank to the aggregator.
    pub c1_s: f64,
    /// From the aggregator to the I/O node.
    pub c2_s: f64,
}

impl Cost {
    /// Of a node that aggregates a domain.
    #[must_use]
    pub fn of(case: &Case, domain: &Domain, node: usize) -> Self {
        let slowest = domain.holders.iter().map(|holder| from_holder(case, holder, node)).fold(0.0, f64::max);
        Self { c1_s: slowest, c2_s: to_io_node(case, domain.bytes, node) }
    }

    /// The larger of each.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self { c1_s: self.c1_s.max(other.c1_s), c2_s: self.c2_s.max(other.c2_s) }
    }
}

/// Seconds from the slowest rank of a node to an aggregator on another; nothing on the same.
#[must_use]
pub fn from_holder(case: &Case, holder: &Holder, to: usize) -> f64 {
    if holder.node == to {
        return 0.0;
    }
    let network = &case.network;
    network.latency_s(holder.node, to) + holder.rank_bytes_most as f64 / network.bytes_per_s(holder.node, to)
}

/// Seconds from an aggregator with so many bytes to its I/O node.
#[must_use]
pub fn to_io_node(case: &Case, bytes: u64, from: usize) -> f64 {
    let io = &case.io_nodes[case.io_of(from)];
    let network = &case.network;
    let rate = if io.node == from { io.bytes_per_s } else { io.bytes_per_s.min(network.bytes_per_s(from, io.node)) };
    network.latency_s(from, io.node) + bytes as f64 / rate
}
