//! Whom a node asks for a key of the read path.
//!
//! A key belongs to one tree (`placement`), and whatever it leads to at other nodes stays there. The nodes of its failover
//! order all precede this one in that tree.

use std::time::Duration;

use forebay_cache::Key;
use forebay_dispatch::{Fallback, Routing};
use forebay_overlay::{Class, Forest, Tree};
use forebay_types::{NodeRank, Priority};

use crate::placement::{homes_of, placement, tree_of};
use crate::referrals::chains;

/// A request that has waited so long at one node is asked of the next one too, if the budget allows.
pub(crate) const HEDGE_AFTER: Duration = Duration::from_millis(250);

/// The same for a parcel, which is made of many answers; the second node would read all of them.
pub(crate) const PARCEL_HEDGE_AFTER: Duration = Duration::from_secs(4);

/// Where this node stands in the forest.
#[derive(Clone, Debug)]
pub(crate) struct ReadRouting {
    pub rank: NodeRank,
    pub forest: Forest,
    /// Files above this size are read from the backing file system by each node itself, bytes.
    pub direct_above_bytes: Option<u64>,
}

impl ReadRouting {
    /// The tree that serves a key.
    pub fn tree_of(&self, key: &Key) -> Tree {
        tree_of(&self.forest, key)
    }

    /// Whether every node reads a key from the backing file system itself.
    pub fn is_direct(&self, key: &Key) -> bool {
        match (key, self.direct_above_bytes) {
            (Key::Chunk { generation, .. }, Some(limit)) => generation.size_bytes > limit,
            _ => false,
        }
    }

    /// Whether `key` is a chunk of a large file, which goes another way than the listing of its directory.
    pub fn is_bulk(&self, key: &Key) -> bool {
        matches!(key, Key::Chunk { .. }) && placement(&self.forest, key).0 != Class::Directories
    }

    /// Whether `key` is a chunk that a node is home of.
    pub fn has_home(&self, key: &Key) -> bool {
        self.forest.has_homes() && placement(&self.forest, key).0 == Class::Bulk
    }

    /// Nodes that the home of a chunk sends it to; others it refers to these.
    pub fn chains(&self, key: &Key) -> usize {
        let homes = match key {
            Key::Chunk { generation, .. } => homes_of(&self.forest, generation.size_bytes),
            _ => 0,
        };
        chains(u64::from(self.forest.first().node_count()), homes)
    }

    /// Whether no other node asks this one for a key.
    pub fn is_leaf(&self, key: &Key) -> bool {
        self.is_direct(key) || self.tree_of(key).is_leaf(self.rank)
    }

    /// Whether this node may read a key from the backing file system for others, as the root or in its place.
    pub fn may_be_root(&self, key: &Key) -> bool {
        self.tree_of(key).may_be_root(self.rank)
    }
}

impl Routing<Key> for ReadRouting {
    fn failover_order(&self, key: &Key) -> impl Iterator<Item = NodeRank> {
        let order = (!self.is_direct(key)).then(|| self.tree_of(key).failover_order(self.rank));
        order.into_iter().flatten()
    }

    fn fallback(&self, key: &Key) -> Fallback {
        if self.is_direct(key) || self.may_be_root(key) { Fallback::Read } else { Fallback::LimitedRead }
    }

    /// Where every node is a home, each is asked for its share by all others; elsewhere trees see to that nobody has many to send to.
    fn may_be_referred(&self, key: &Key) -> bool {
        let nodes = self.forest.first().node_count() as usize;
        nodes > self.chains(key) + 1 && !self.is_direct(key) && self.has_home(key)
    }

    fn is_alike(&self, key: &Key) -> bool {
        !self.is_direct(key) && self.has_home(key)
    }

    /// A prefetch may be slow because others have their turns before it; but nodes wait for parcels.
    fn hedge_after(&self, key: &Key, priority: Priority) -> Option<Duration> {
        match key {
            Key::Parcel { .. } => Some(PARCEL_HEDGE_AFTER),
            _ => (priority == Priority::Demand).then_some(HEDGE_AFTER),
        }
    }

    fn hedge_after_min(&self) -> Duration {
        HEDGE_AFTER
    }

    fn job_order(&self) -> impl Iterator<Item = NodeRank> {
        self.forest.first().failover_order(self.rank)
    }

    fn orders(&self) -> impl Iterator<Item = impl Iterator<Item = NodeRank> + Clone> {
        self.forest.trees().map(|tree| tree.failover_order(self.rank))
    }
}
