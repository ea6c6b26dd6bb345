//! Changes of other nodes that have been carried out, and whose answers wait until all nodes know of them. They occupy memory, and no thread: one
//! node that is silent delays those changes that it was told of, and nothing else. Each node may have so many of them; others do not wait for
//! what one has too many of.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay_types::NodeRank;

/// Changes of one node that wait at once: more than its kernel asks for at once.
const PER_NODE_MAX: usize = 1024;

/// See the module.
#[derive(Default)]
pub struct WaitingChanges {
    of: Mutex<BTreeMap<NodeRank, usize>>,
}

/// One of them, until it is dropped.
pub struct Admitted {
    all: Arc<WaitingChanges>,
    from: NodeRank,
}

impl WaitingChanges {
    /// One more of a node; `None` where it has too many, and is to ask again.
    pub fn admit(self: &Arc<Self>, from: NodeRank) -> Option<Admitted> {
        let mut of = self.of();
        let count = of.entry(from).or_default();
        if *count >= PER_NODE_MAX {
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
        let waiting = Arc::new(WaitingChanges::default());
        let mut admitted: Vec<Admitted> = (0..PER_NODE_MAX).map_while(|_| waiting.admit(NodeRank(3))).collect();
        assert_eq!(admitted.len(), PER_NODE_MAX);
        assert!(waiting.admit(NodeRank(3)).is_none());
        assert!(waiting.admit(NodeRank(4)).is_some());
        admitted.pop();
        assert!(waiting.admit(NodeRank(3)).is_some());
        drop(admitted);
        assert!(waiting.of().is_empty());
    }
}
