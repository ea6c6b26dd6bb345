//! Changes of this node's programs that were carried out, and that the leader does not have.
//!
//! A leader answers its own programs before its standby has a change. If another node comes to lead the tree meanwhile, such changes are lost.
//! They are not sent again: what other nodes have done and synced since may depend on their absence. So `fsync` of each file and directory that
//! they were about fails once, and until then `drain` and `down` say so. Where names were lost, so does `fsync` of the next file that programs create or look up in that directory: most
//! programs sync no directory.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use forebay_types::{Errno, FileId, LogPosition, Map, OperationId};
use forebay_wire::write::{Change, Operation};

/// Files of which lost changes are known: more are not noted because of their directory, so that memory is limited.
const FILES_MAX: usize = 1 << 16;

/// A change that this node carried out as its leader, and what it is about.
pub type Unheard = (OperationId, Vec<FileId>);

/// A record that was written and not committed while this node led the tree, before another did: others may have got the locks of its programs,
/// and written since.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Overtaken {
    /// Of which file.
    pub file: FileId,
    /// The file's version then.
    pub version: u64,
    /// Where it is in the log.
    pub record: LogPosition,
}

/// See the module.
#[derive(Default)]
pub struct LostChanges {
    /// Changes that this node carried out before another came to lead the tree, oldest first, and that one may lack.
    unheard: Mutex<Vec<Unheard>>,
    /// Writes that were pending then, and are to be committed only to files that are as they were.
    overtaken: Mutex<Vec<Overtaken>>,
    /// Files and directories that lost changes were about. Of one that is so for its directory's sake, that directory.
    files: Mutex<Map<FileId, Option<FileId>>>,
}

/// A change as one that others may not have heard of.
pub fn unheard(change: &Change) -> Unheard {
    (change.id, about(&change.operation))
}

/// The files and directories whose `fsync` promises a change.
fn about(operation: &Operation) -> Vec<FileId> {
    match operation {
        Operation::Create { place, file, .. } | Operation::Link { file, place } => vec![place.directory, *file],
        Operation::Unlink { place } | Operation::RemoveDirectory { place } => vec![place.directory],
        Operation::Rename { from, to, .. } => vec![from.directory, to.directory],
        Operation::CreateUnnamed { file, .. }
        | Operation::SetAttributes { file, .. }
        | Operation::Commit { file, .. }
        | Operation::Allocate { file, .. }
        | Operation::SetExtended { file, .. } => vec![*file],
        Operation::Open { .. } | Operation::Close { .. } | Operation::CloseAll | Operation::Lock { .. } => vec![],
    }
}

impl LostChanges {
    /// A daemon begins, on a node that carried these out as its leader. Whether the leader has them is asked next.
    pub fn begin(&self, unheard: Vec<Unheard>, overtaken: Vec<Overtaken>) {
        *self.unheard() = unheard;
        *self.overtaken() = overtaken;
    }

    /// Writes that were pending then, by file.
    pub fn take_overtaken(&self) -> BTreeMap<FileId, Vec<Overtaken>> {
        let mut of_files: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for one in std::mem::take(&mut *self.overtaken()) {
            of_files.entry(one.file).or_default().push(one);
        }
        of_files
    }

    /// Writes to a file are lost: others have changed it since.
    pub fn note_overtaken(&self, file: FileId) {
        self.files().insert(file, None);
    }

    /// Those of which it is to be asked.
    pub fn take_unheard(&self) -> Vec<Unheard> {
        std::mem::take(&mut *self.unheard())
    }

    /// These are lost.
    pub fn note_all(&self, lost: &[Unheard]) {
        if let (Some((first, _)), count) = (lost.first(), lost.len()) {
            tracing::warn!(
                ?first,
                count,
                "changes of this node's programs are lost: another node led the tree before it had them"
            );
        }
        self.files().extend(lost.iter().flat_map(|(_, files)| files).map(|file| (*file, None)));
    }

    /// One that the leader has refused is lost.
    pub fn note(&self, change: &Change) {
        self.files().extend(about(&change.operation).into_iter().map(|file| (file, None)));
    }

    /// Programs have found `file` in a directory, or made it there.
    pub fn found(&self, directory: FileId, file: FileId) {
        let mut files = self.files();
        if files.contains_key(&directory) && files.len() < FILES_MAX {
            files.entry(file).or_insert(Some(directory));
        }
    }

    /// Whether there are any of which no `fsync` has told.
    pub fn are_untold(&self) -> bool {
        self.files().values().any(Option::is_none)
    }

    /// Whether `fsync` of it is to fail.
    pub fn has(&self, file: FileId) -> bool {
        self.files().contains_key(&file)
    }

    /// The outcome of `fsync`, which tells of lost changes once.
    ///
    /// # Errors
    /// EIO where there were any.
    pub fn tell(&self, file: FileId) -> Result<(), Errno> {
        let mut files = self.files();
        let Some(directory) = files.remove(&file) else { return Ok(()) };
        directory.and_then(|directory| files.remove(&directory));
        Err(Errno::EIO)
    }

    fn unheard(&self) -> MutexGuard<'_, Vec<Unheard>> {
        self.unheard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn overtaken(&self) -> MutexGuard<'_, Vec<Overtaken>> {
        self.overtaken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn files(&self) -> MutexGuard<'_, Map<FileId, Option<FileId>>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use forebay_types::{Name, NodeRank};
    use forebay_wire::write::{Place, RenameRule};

    use super::*;

    fn file(serial: u64) -> FileId {
        FileId { creator: NodeRank(1), serial }
    }

    #[test]
    fn each_file_and_directory_of_a_lost_change_is_told_of_once() {
        let lost = LostChanges::default();
        let place = |directory| Place { directory, name: Name::new(b"a").unwrap() };
        let rename = Operation::Rename { from: place(file(1)), to: place(file(2)), rule: RenameRule::Replace };
        let id = OperationId { node: NodeRank(1), session: 1, serial: 1 };
        lost.note_all(&[(id, about(&rename))]);
        assert!(lost.are_untold());
        assert_eq!(lost.tell(file(3)), Ok(()));
        assert_eq!(lost.tell(file(1)), Err(Errno::EIO));
        assert_eq!(lost.tell(file(1)), Ok(()));
        // Of the other directory a file in it tells.
        lost.found(file(1), file(3));
        lost.found(file(2), file(4));
        assert!(!lost.has(file(3)) && lost.has(file(4)));
        assert_eq!((lost.tell(file(4)), lost.tell(file(2))), (Err(Errno::EIO), Ok(())));
        assert!(!lost.are_untold());
    }
}
