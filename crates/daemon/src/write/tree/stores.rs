//! Other nodes' reports on their stores.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forebay_types::NodeRank;
use tokio::time::Instant;

/// How long it counts that a node has said that its store fills, or anything: with what takes room in its store it asks twice a second
/// (`reclaim`).
const COUNTS: Duration = Duration::from_secs(5);

/// See the module.
#[derive(Default)]
pub struct Stores(Mutex<BTreeMap<NodeRank, Said>>);

#[derive(Clone, Copy)]
struct Said {
    at: Instant,
    is_filling: bool,
}

impl Stores {
    /// A node has asked what of its store is needed.
    pub fn note(&self, node: NodeRank, is_filling: bool) {
        self.said().insert(node, Said { at: Instant::now(), is_filling });
    }

    /// Those that fill.
    pub fn filling(&self) -> Vec<NodeRank> {
        self.of_late(|said| said.is_filling)
    }

    /// Those that have asked of late.
    pub fn answering(&self) -> Vec<NodeRank> {
        self.of_late(|_| true)
    }

    fn of_late(&self, is_meant: impl Fn(Said) -> bool) -> Vec<NodeRank> {
        let said = self.said();
        let of_late = said.iter().filter(|(_, said)| said.at.elapsed() < COUNTS && is_meant(**said));
        of_late.map(|(node, _)| *node).collect()
    }

    fn said(&self) -> MutexGuard<'_, BTreeMap<NodeRank, Said>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
