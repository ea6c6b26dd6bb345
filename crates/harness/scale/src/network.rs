//! The nodes' links and the groups' links between them, and what has passed over each.
//!
//! A body crosses a link as pieces, one after the other. A node's own link out is known at once, since only this node
//! sends over it; the links that nodes share are taken when a piece comes to them, or those that come later would take
//! their turn before those that came first.

use super::servers::{Link, Nanos, nanos, span};
use super::stated::NetworkParameters;

/// Number of a node, as the overlay ranks it.
pub(super) type NodeIndex = u32;

/// The links.
pub(super) struct Network {
    parameters: NetworkParameters,
    out: Vec<Link>,
    into: Vec<Link>,
    group_out: Vec<Link>,
    group_into: Vec<Link>,
}

impl Network {
    pub fn new(parameters: NetworkParameters, nodes: usize) -> Self {
        let groups = nodes.div_ceil(parameters.group_nodes.count().max(1));
        let links = |count| vec![Link::default(); count];
        Self { parameters, out: links(nodes), into: links(nodes), group_out: links(groups), group_into: links(groups) }
    }

    /// Bytes leave a node: when the last is out of its link.
    pub fn leave(&mut self, from: NodeIndex, now: Nanos, bytes: u64) -> Nanos {
        self.out[from as usize].pass(now, bytes, self.parameters.node_link.value)
    }

    /// Whether the way between two nodes has links that others share.
    pub fn is_shared(&self, from: NodeIndex, to: NodeIndex) -> bool {
        self.group(from) != self.group(to)
    }

    /// Bytes come to the links between two groups: when the last has passed.
    pub fn cross(&mut self, from: NodeIndex, to: NodeIndex, now: Nanos, bytes: u64) -> Nanos {
        let rate = self.parameters.group_link.value;
        let (from, to) = (self.group(from), self.group(to));
        let out = self.group_out[from].pass(now, bytes, rate);
        // The links of both groups are passed at once; the slower queue counts.
        out.max(self.group_into[to].pass(now, bytes, rate))
    }

    /// Bytes come to a node's link, the last of them now: when it has them. Where nothing else comes in, that is now.
    pub fn arrive(&mut self, to: NodeIndex, now: Nanos, bytes: u64) -> Nanos {
        let rate = self.parameters.node_link.value;
        self.into[to as usize].pass(now.saturating_sub(span(bytes, rate)), bytes, rate).max(now)
    }

    /// How long a message is on its way.
    pub fn latency(&self, from: NodeIndex, to: NodeIndex) -> Nanos {
        let more = if self.is_shared(from, to) { self.parameters.latency_between_groups.value } else { 0.0 };
        nanos(self.parameters.latency.value + more)
    }

    /// Bytes that each node has sent.
    pub fn sent(&self) -> impl Iterator<Item = u64> {
        self.out.iter().map(|link| link.bytes)
    }

    /// Bytes that each node has got.
    pub fn received(&self) -> impl Iterator<Item = u64> {
        self.into.iter().map(|link| link.bytes)
    }

    /// Bytes that each group has sent to others.
    pub fn group_sent(&self) -> impl Iterator<Item = u64> {
        self.group_out.iter().map(|link| link.bytes)
    }

    fn group(&self, node: NodeIndex) -> usize {
        node as usize / self.parameters.group_nodes.count().max(1)
    }
}
