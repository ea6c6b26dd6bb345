//! Files whose leased state an entry of the history invalidates.

use forebay_types::FileId;
use forebay_wire::journal::{EntryRef, LeaderEntry};
use forebay_wire::write::{Operation, Place};

use super::nodes::Contents;
use super::state::Tree;

impl Tree {
    /// The files and directories that are not what they were once `entry` is applied, those that it makes left out. To be asked
    /// before it is.
    #[must_use]
    pub fn touched_by<'a>(&self, entry: impl Into<EntryRef<'a>>) -> Vec<FileId> {
        match entry.into() {
            EntryRef::Request(change) => self.touched_by_request(&change.operation),
            EntryRef::Leader(entry) => self.touched_by_leader(entry),
        }
    }

    fn touched_by_request(&self, operation: &Operation) -> Vec<FileId> {
        match operation {
            Operation::Create { place, .. } => vec![place.directory],
            Operation::Link { file, place } => vec![*file, place.directory],
            Operation::Unlink { place } | Operation::RemoveDirectory { place } => self.named_by(place).collect(),
            Operation::Rename { from, to, .. } => self.named_by(from).chain(self.named_by(to)).collect(),
            Operation::SetAttributes { file, .. }
            | Operation::Commit { file, .. }
            | Operation::Allocate { file, .. }
            | Operation::SetExtended { file, .. } => vec![*file],
            Operation::Open { .. }
            | Operation::CreateUnnamed { .. }
            | Operation::Close { .. }
            | Operation::CloseAll
            | Operation::Lock { .. } => vec![],
        }
    }

    fn touched_by_leader(&self, entry: &LeaderEntry) -> Vec<FileId> {
        match entry {
            // It gets other rights.
            LeaderEntry::CopiedOnConflict { file, .. } => vec![*file],
            LeaderEntry::Import { directory, entries, .. } => {
                let linked = entries.iter().filter_map(|entry| self.linked_by(entry));
                std::iter::once(*directory).chain(linked).collect()
            }
            LeaderEntry::Unlist { directory } => self.within(*directory),
            LeaderEntry::ImportExtended { .. }
            | LeaderEntry::Publish { .. }
            | LeaderEntry::GiveUp { .. }
            | LeaderEntry::LetGo
            | LeaderEntry::Lost { .. }
            | LeaderEntry::Relocated { .. }
            | LeaderEntry::Drafting { .. }
            | LeaderEntry::Publishing { .. }
            | LeaderEntry::Changing { .. }
            | LeaderEntry::Verified { .. }
            | LeaderEntry::SetAside { .. }
            | LeaderEntry::NotThere { .. }
            | LeaderEntry::Landed { .. }
            | LeaderEntry::Drained { .. } => vec![],
        }
    }

    /// A directory, and all that it names.
    fn within(&self, directory: FileId) -> Vec<FileId> {
        let entries = self.directory(directory).into_iter().flat_map(|known| known.entries_after(None));
        std::iter::once(directory).chain(entries.map(|(_, file)| *file)).collect()
    }

    /// A directory, and what a name in it names.
    fn named_by(&self, place: &Place) -> impl Iterator<Item = FileId> + use<> {
        let found = match self.nodes.get(&place.directory).map(|node| &node.contents) {
            Some(Contents::Directory(directory)) => directory.get(&place.name),
            _ => None,
        };
        std::iter::once(place.directory).chain(found)
    }
}
