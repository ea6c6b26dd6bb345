//! The refreshes that were completed, and what no node may show any more because of them.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use forebay_daemon::Refreshed;
use forebay_types::{Epoch, Time, ViewPath};

use crate::NodeIndex;
use crate::history::Versions;

/// How long a node that makes up for a refresh may take to tell its kernel.
const TOLD_WITHIN: Duration = Duration::from_millis(100);

/// All that were completed.
#[derive(Default)]
pub(crate) struct Refreshes(Mutex<Vec<Refresh>>);

struct Refresh {
    done: Refreshed,
    paths: Vec<ViewPath>,
    /// The files as they were when it began.
    seen: Versions,
    /// When nodes that it named were first seen to have made up for it.
    made_up_for: BTreeMap<NodeIndex, Time>,
}

impl Refreshes {
    /// One was completed.
    pub fn add(&self, done: Refreshed, paths: Vec<ViewPath>, seen: Versions) {
        self.lock().push(Refresh { done, paths, seen, made_up_for: BTreeMap::new() });
    }

    /// How many were.
    pub fn count(&self) -> usize {
        self.lock().len()
    }

    /// The outcomes of all refreshes.
    pub fn all(&self) -> Vec<Refreshed> {
        self.lock().iter().map(|refresh| refresh.done.clone()).collect()
    }

    /// The floor of a program at a node whose core has completed refreshes up to an epoch. Once it holds at a node it holds
    /// for good, whoever is started anew.
    pub fn floor(&self, node: NodeIndex, completed: Epoch, now: Time) -> Versions {
        let mut floor = Versions::default();
        for refresh in self.lock().iter_mut() {
            if refresh.holds_at(node, completed, now) {
                floor.raise(&refresh.seen, &refresh.paths);
            }
        }
        floor
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Refresh>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Refresh {
    /// Whether a node may no longer show what was before: one that was reached, and one that has made up for it, which tells its
    /// kernel a moment later.
    fn holds_at(&mut self, node: NodeIndex, completed: Epoch, now: Time) -> bool {
        if !self.done.unreached.contains(&(node as u32)) {
            return true;
        }
        if completed >= self.done.epoch {
            self.made_up_for.entry(node).or_insert(now);
        }
        self.made_up_for.get(&node).is_some_and(|since| since.after(TOLD_WITHIN) <= now)
    }
}
