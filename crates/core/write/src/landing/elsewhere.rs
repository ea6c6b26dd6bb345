//! The tree's questions about files with names on the backing file system that it does not know.

use std::collections::BTreeSet;

use forebay_types::{BackingId, FileId};

use super::Landing;

impl Landing {
    /// A file that is there, and has names in the tree or may get one, by what is found at another place.
    #[must_use]
    pub fn found_as(&self, found: &BackingId) -> Option<FileId> {
        let is_named = |file: &FileId| self.place(*file).is_some() && self.names.contains_key(file);
        self.backed.find(found).filter(|file| is_named(file) || self.backed.names_elsewhere(*file) > 0)
    }

    /// The number of names that a file has on the backing file system, and the tree does not know.
    pub fn note_names_elsewhere(&mut self, file: FileId, count: u32) {
        self.backed.set_names_elsewhere(file, count);
    }

    /// Whether a file has a name on the backing file system that the tree does not know.
    #[must_use]
    pub fn has_names_elsewhere(&self, file: FileId) -> bool {
        self.backed.names_elsewhere(file) > 0
    }

    /// Whether changes of a file are still to come to its other names.
    #[must_use]
    pub fn has_changes_for_elsewhere(&self, file: FileId) -> bool {
        self.changes.has(file)
    }

    /// A file has no name in the tree any more, and no program has it open. Whether its node stays, for what its other names are to show.
    pub fn keep(&mut self, file: FileId) -> bool {
        if self.changes.has(file) {
            // As in `let_go`.
            let _ = self.turn();
        }
        self.changes.keep(file)
    }

    /// Whether a file's node stays only for what its other names are to show.
    #[must_use]
    pub fn is_kept(&self, file: FileId) -> bool {
        self.changes.keeps(file)
    }

    /// Whether any file does not have to be kept any more.
    #[must_use]
    pub fn has_files_to_let_go(&self) -> bool {
        self.changes.are_any_to_let_go()
    }

    /// The files that do not have to be kept any more.
    pub fn let_go(&mut self) -> BTreeSet<FileId> {
        // The leader may have skipped steps without effect, which a follower of the tree has not.
        let _ = self.turn();
        self.changes.let_go()
    }
}
