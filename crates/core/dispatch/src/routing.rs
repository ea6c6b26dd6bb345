//! The routing of a request, by what dispatch must know of the job. It follows from the key alone, so all nodes agree.

use std::time::Duration;

use forebay_types::{NodeRank, Priority};

/// Whom a request goes to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Source {
    /// Another node.
    Peer(NodeRank),
    /// The backing file system, read by this node.
    Backing,
}

/// The fallback of a request when no node is left to ask.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fallback {
    /// This node reads the backing file system for it: it is a root, or stands in for one, or every node reads it itself.
    Read,
    /// It does so within a budget, and the request waits for a token or for a node that comes back.
    LimitedRead,
    /// It fails by `Failure::NoSource`: it has meaning for nodes only.
    None,
}

/// The sources of a key.
pub trait Routing<K> {
    /// The nodes to ask, best first. Each precedes this node in the order of one tree, which all that the request leads to
    /// at other nodes stays in: so waits are acyclic. Empty where this node reads the backing file system itself.
    fn failover_order(&self, key: &K) -> impl Iterator<Item = NodeRank>;

    /// The fallback when none of them is left.
    fn fallback(&self, key: &K) -> Fallback;

    /// Whether a node that is asked for `key` may name another one that has it.
    fn may_be_referred(&self, _key: &K) -> bool {
        false
    }

    /// Whether `key` is one of many alike that all nodes are asked for in turn. So times of sources can be compared, and another
    /// is asked in the place of one that is slow.
    fn is_alike(&self, _key: &K) -> bool {
        false
    }

    /// How long one source may take before a second one is asked too. `None` for a request that is not worth it: nobody
    /// waits for it, or it must not be carried out twice. Such a request is not read as a last resort either.
    fn hedge_after(&self, key: &K, priority: Priority) -> Option<Duration>;

    /// The shortest time that `hedge_after` gives.
    fn hedge_after_min(&self) -> Duration;

    /// The nodes that this one asks about the job itself, best first; its parent is asked now and then whether it is there.
    fn job_order(&self) -> impl Iterator<Item = NodeRank>;

    /// All failover orders of this node. When several of the nodes in one are silent, the network may be cut, and all
    /// others in it are asked together whether they are there.
    fn orders(&self) -> impl Iterator<Item = impl Iterator<Item = NodeRank> + Clone>;
}
