//! How much memory a tree may take, and what is forgotten when it takes more.
//!
//! A tree knows every file of the directories that anybody has looked into. Files that are only on the backing file system, as they were
//! met, can be met again: where there are too many, the directories that were used least lately are unlisted (`Operation::Unlist`).

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use forebay_body::LiveBytes;
use forebay_types::FileId;

/// What a file takes, bytes: measured for names of some ten bytes.
const FILE_BYTES: u64 = 1300;

/// Of the budget of a node, one part in so many is for the tree.
const BUDGET_SHARE: u64 = 2;

/// The caches of the read path are told when the tree has grown or shrunk by so many files.
const STEP_FILES: usize = 1 << 10;

/// Directories that are tried when one becomes listed: all may be needed.
pub const TRIES: usize = 64;

/// What a tree takes, as the caches of its node know it: they have so much less.
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
    listed: VecDeque<FileId>,
    /// Those of them that were used since.
    used: BTreeSet<FileId>,
}

impl Forgetting {
    /// For a node with this budget, whose tree knows the entries of these directories.
    pub fn new(budget_bytes: u64, listed: impl Iterator<Item = FileId>) -> Self {
        let files_max = usize::try_from(budget_bytes / BUDGET_SHARE / FILE_BYTES).unwrap_or(usize::MAX);
        let listed = listed.collect::<BTreeSet<_>>().into_iter().collect();
        Self { files_max, state: Mutex::new(State { listed, used: BTreeSet::new() }) }
    }

    /// Whether so many files are too many.
    pub fn is_over(&self, files: usize) -> bool {
        files > self.files_max
    }

    /// The entries of a directory are known from now on.
    pub fn listed(&self, directory: FileId) {
        let mut state = self.state();
        state.listed.push_back(directory);
        state.used.insert(directory);
    }

    /// A directory was used whose entries are known.
    pub fn used(&self, directory: FileId) {
        self.state().used.insert(directory);
    }

    /// The directory that is to be unlisted next; nothing where it was used since it was looked at last.
    pub fn next(&self) -> Option<FileId> {
        let mut state = self.state();
        let directory = state.listed.pop_front()?;
        if state.used.remove(&directory) {
            state.listed.push_back(directory);
            return None;
        }
        Some(directory)
    }

    /// All that is in that directory is needed.
    pub fn keep(&self, directory: FileId) {
        self.state().listed.push_back(directory);
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
        assert_eq!([(); 3].map(|()| forgetting.next()), [Some(id(3)), Some(id(1)), None]);
    }
}
