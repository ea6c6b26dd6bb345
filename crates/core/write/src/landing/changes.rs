//! Files with names on the backing file system that the tree does not know: in directories that nobody has looked at, or outside of
//! `BACKING`.
//!
//! When the tree's last name of such a file goes, the file stays. So the steps that change it are followed all the same, and its node
//! stays until then, without a name.

use std::collections::BTreeSet;
use std::ops::Range;

use forebay_types::FileId;
use serde::{Deserialize, Serialize};

use crate::versioned::Versioned;

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Changes {
    /// The last step that changes contents or attributes, of files that have such names.
    last: Versioned<FileId, LastChange>,
    /// Files without a name in the tree that were kept for such a step.
    to_let_go: BTreeSet<FileId>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
struct LastChange {
    step: u64,
    /// Whether the file's node stays for that step alone.
    is_kept: bool,
}

impl Changes {
    /// A step is to change a file.
    pub fn note(&mut self, file: FileId, step: u64) {
        self.last.entry_or_default(&file).step = step;
    }

    /// A step about a file is over.
    pub fn is_over(&mut self, file: FileId, step: u64) {
        let Some(LastChange { is_kept, .. }) = self.last.get(&file).copied().filter(|last| last.step == step) else {
            return;
        };
        self.last.remove(&file);
        if is_kept {
            self.to_let_go.insert(file);
        }
    }

    /// Whether a file is still to change.
    pub fn has(&self, file: FileId) -> bool {
        self.last.contains_key(&file)
    }

    /// A file's node stays until the file has changed; whether it is to change.
    pub fn keep(&mut self, file: FileId) -> bool {
        let last = self.last.get_mut(&file);
        last.map(|last| last.is_kept = true).is_some()
    }

    /// A file without a name in the tree has one again.
    pub fn give_name(&mut self, file: FileId) {
        self.to_let_go.remove(&file);
        if let Some(last) = self.last.get_mut(&file) {
            last.is_kept = false;
        }
    }

    /// Whether a file's node was kept, and has not been let go.
    pub fn keeps(&self, file: FileId) -> bool {
        self.last.get(&file).is_some_and(|last| last.is_kept) || self.to_let_go.contains(&file)
    }

    /// Whether any file does not have to be kept any more.
    pub fn are_any_to_let_go(&self) -> bool {
        !self.to_let_go.is_empty()
    }

    /// The files that do not have to be kept any more.
    pub fn let_go(&mut self) -> BTreeSet<FileId> {
        std::mem::take(&mut self.to_let_go)
    }

    /// The contents of some parts (`Versioned::only`): the first one also has what is not in parts.
    pub fn parts(&self, parts: Range<usize>) -> Self {
        let to_let_go = if parts.start == 0 { self.to_let_go.clone() } else { BTreeSet::new() };
        Self { last: self.last.only(parts), to_let_go }
    }

    /// Adds what other parts than the first have.
    pub fn absorb(&mut self, other: Self) {
        self.last.absorb(other.last);
    }
}
