//! How much memory a tree may take, and what is forgotten when it takes more.
//!
//! A tree knows every file of the directories that anybody has looked into. Files that are only on the backing file system, as they were
//! met, can be met again: where there are too many, the directories that were used least lately are unlisted (`LeaderEntry::Unlist`).

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use forebay_body::LiveBytes;
use forebay_types::{FileId, Map};

/// Memory of a file, bytes: measured for names of some ten bytes.
const FILE_BYTES: u64 = 1300;

/// Of the budget of a node, one part in so many is for the tree.
const BUDGET_SHARE: u64 = 2;

/// The caches of the read path are told when the tree has grown or shrunk by so many files.
const STEP_FILES: usize = 1 << 10;

/// Directories that are tried when one becomes listed: all may be needed.
pub const TRIES: usize = 64;

/// Memory of a tree, as the caches of its node know it: they have so much less.
#[derive(Default)]
pub struct Footprint(Mutex<Option<(usize, LiveBytes)>>);

impl Footprint {
    /// The tree has so many files.
    pub fn set(&self, files: usize) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if held.as_ref().is_none_or(|(before, _)| before.abs_diff(files) >= STEP_FILES) {
            *held = Some((files, LiveBytes::new(files * FILE_BYTES as usize)));
        }
    }
}

/// Which directories can be unlisted, and in which order.
pub struct Forgetting {
    files_max: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Directories whose entries are known, each once, those looked at longest ago first.
    order: VecDeque<FileId>,
    /// Whether each of them was used since.
    used: Map<FileId, bool>,
}

impl Forgetting {
    /// For a node with this budget, whose tree knows the entries of these directories.
    pub fn new(budget_bytes: u64, listed: impl Iterator<Item = FileId>) -> Self {
        let files_max = usize::try_from(budget_bytes / BUDGET_SHARE / FILE_BYTES).unwrap_or(usize::MAX);
        let forgetting = Self { files_max, state: Mutex::default() };
        // In an order that is the same in each run.
        listed.collect::<BTreeSet<_>>().into_iter().for_each(|directory| forgetting.add(directory, false));
        forgetting
    }

    /// Whether so many files are too many.
    pub fn is_over(&self, files: usize) -> bool {
        files > self.files_max
    }

    /// The entries of a directory are known from now on.
    pub fn listed(&self, directory: FileId) {
        self.add(directory, true);
    }

    /// A directory was used.
    pub fn used(&self, directory: FileId) {
        if let Some(used) = self.state().used.get_mut(&directory) {
            *used = true;
        }
    }

    /// The directory that is to be unlisted next; nothing where it was used since it was looked at last.
    pub fn next(&self) -> Option<FileId> {
        let mut state = self.state();
        let directory = state.order.pop_front()?;
        if state.used.remove(&directory) == Some(true) {
            state.used.insert(directory, false);
            state.order.push_back(directory);
            return None;
        }
        Some(directory)
    }

    /// All that is in that directory is needed.
    pub fn keep(&self, directory: FileId) {
        self.add(directory, false);
    }

    fn add(&self, directory: FileId, is_used: bool) {
        let mut state = self.state();
        // Two programs may have had it listed at once.
        if state.used.insert(directory, is_used).is_none() {
            state.order.push_back(directory);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use forebay_types::NodeRank;

    use super::*;

    #[test]
    fn the_directory_that_nobody_has_used_goes_first() {
        let id = |serial| FileId { creator: NodeRank(0), serial };
        let forgetting = Forgetting::new(2 * 10 * FILE_BYTES, [id(1), id(2)].into_iter());
        assert!(forgetting.is_over(11) && !forgetting.is_over(10));
        forgetting.listed(id(3));
        forgetting.used(id(1));
        assert_eq!([(); 4].map(|()| forgetting.next()), [None, Some(id(2)), None, Some(id(1))]);
        forgetting.keep(id(1));
        forgetting.listed(id(1));
        // A directory that is not listed is not remembered.
        forgetting.used(id(9));
        assert_eq!([(); 3].map(|()| forgetting.next()), [Some(id(3)), None, Some(id(1))]);
    }
}
