//! Requests of other nodes whose answers wait: for nodes that have to be told of a change, for the standby, for the backing file system. They
//! occupy memory, and no thread: a node that is silent delays those requests that it was told of, and nothing else. Each node may have so many of
//! them; the requests of others do not wait for a node that has too many.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay_types::NodeRank;

/// Requests of one node that wait at the same time: more than its kernel sends at the same time.
pub const TASKS_PER_NODE_MAX: usize = 1024;

/// The same of those that keep the tree and its copies safe: of each kind a node has one or two at the same time, and asks again.
pub const TREE_TASKS_PER_NODE_MAX: usize = 8;

/// The same of those of drains, which may last: a node has a few of them at the same time, and asks again.
pub const DRAINS_PER_NODE_MAX: usize = 8;

/// See the module.
pub struct WaitingRequests {
    per_node_max: usize,
    of: Mutex<BTreeMap<NodeRank, usize>>,
}

/// One of them, until it is dropped.
pub struct Admitted {
    all: Arc<WaitingRequests>,
    from: NodeRank,
}

impl WaitingRequests {
    /// So many of each node.
    pub fn new(per_node_max: usize) -> Arc<Self> {
        Arc::new(Self { per_node_max, of: Mutex::default() })
    }

    /// One more of a node; `None` where it has too many, and is to ask again.
    pub fn admit(self: &Arc<Self>, from: NodeRank) -> Option<Admitted> {
        let mut of = self.of();
        let count = of.entry(from).or_default();
        if *count >= self.per_node_max {
            return None;
        }
        *count += 1;
        Some(Admitted { all: Arc::clone(self), from })
    }

    fn of(&self) -> MutexGuard<'_, BTreeMap<NodeRank, usize>> {
        self.of.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut of = self.all.of();
        if let Some(count) = of.get_mut(&self.from) {
            *count -= 1;
            if *count == 0 {
                of.remove(&self.from);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_with_too_many_keeps_no_other_waiting() {
        let waiting = WaitingRequests::new(3);
        let mut admitted: Vec<Admitted> = (0..9).map_while(|_| waiting.admit(NodeRank(3))).collect();
        assert_eq!(admitted.len(), 3);
        assert!(waiting.admit(NodeRank(3)).is_none());
        assert!(waiting.admit(NodeRank(4)).is_some());
        admitted.pop();
        assert!(waiting.admit(NodeRank(3)).is_some());
        drop(admitted);
        assert!(waiting.of().is_empty());
    }
}
