//! A node's floor: the versions that it may not be behind.
//!
//! The floor of a path is the latest of its state at the last refresh that holds at the node, with revalidation its state so long ago, and
//! the state that the node itself has shown, where it has one source for it. A node whose parent was lost or that keeps little may be told by
//! another source, and directories travel at their own times (docs/semantics.md): there the last of these promises nothing.

use std::sync::Arc;
use std::time::Duration;

use forebay_types::{Epoch, Time, ViewPath};

use crate::NodeIndex;
use crate::history::Versions;
use crate::setup::DEADLINE;
use crate::shared::Shared;
use crate::world::LATENCY_MAX;

/// How long a node may take to tell its kernel that a version is gone.
const TOLD_WITHIN: Duration = Duration::from_millis(100);

/// A budget in which everything fits that these jobs read.
const ROOMY_BYTES: u64 = 256 << 20;

/// A time so long before another.
fn before(time: Time, by: Duration) -> Time {
    Time(time.0.saturating_sub(by.as_nanos() as u64))
}

impl Shared {
    /// The floors of a program that asks at a node now: by the promises to all, and by the states that the node has shown too.
    pub fn floors(&self, node: NodeIndex) -> (Versions, Versions) {
        let now = self.world.now();
        let completed = self.with_core(node, |core| core.epoch()).unwrap_or(Epoch::START);
        let mut floor = self.refreshes.floor(node, completed, now);
        if let Some(oldest) = self.setup.revalidate.and_then(|interval| self.oldest(now, interval)) {
            let state = self.world.state();
            floor.raise(&state.history.versions_at(oldest), &[ViewPath::root()]);
        }
        let promised = floor.clone();
        if self.has_one_source()
            && let Some(shown) = self.shown.lock().get(&node)
        {
            floor.raise(shown, &[ViewPath::root()]);
        }
        (promised, floor)
    }

    /// From when on nothing may be shown that is older, where names are believed for an interval: each node counts it from when
    /// it is told, so what is told late may be older by that.
    fn oldest(&self, now: Time, interval: Duration) -> Option<Time> {
        let late = 2 * self.way() + self.world.state().troubles.broken(before(now, interval + DEADLINE), now);
        now.0.checked_sub((interval + late).as_nanos() as u64).map(Time)
    }

    /// How long an answer may be on its way over all nodes, where nothing is broken.
    pub fn way(&self) -> Duration {
        let depth_max = self.world.forest.trees().map(|tree| tree.depth_max()).max().unwrap_or(0);
        2 * LATENCY_MAX * (depth_max + 2)
    }

    /// Whether nodes have all names from where they have had them before.
    fn has_one_source(&self) -> bool {
        !self.world.state().was_broken && self.setup.budget_bytes >= ROOMY_BYTES
    }

    /// A node has shown a version of a path.
    pub fn note_shown(&self, node: NodeIndex, path: &ViewPath, version: usize) {
        self.shown.lock().entry(node).or_default().raise_one(path, version);
    }

    /// A program was told that a version is gone: a moment later nobody at its node is shown it any more.
    pub fn note_gone(self: &Arc<Self>, node: NodeIndex, path: &ViewPath, version: usize) {
        let (job, path) = (Arc::clone(self), path.clone());
        tokio::spawn(async move {
            tokio::time::sleep(TOLD_WITHIN).await;
            job.note_shown(node, &path, version + 1);
        });
    }
}
