//! What the tree tells without changing.

use std::ops::Range;

use forebay_types::{Errno, FileId, Name};
use forebay_wire::write::{Caller, FileState, Place};

use super::nodes::Contents;
use super::permissions;
use super::state::{Refusal, Tree};
use crate::extents::Piece;

/// An entry of a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listed {
    /// Its name.
    pub name: Name,
    /// What it names.
    pub state: FileState,
}

impl Tree {
    /// What `place` names.
    ///
    /// # Errors
    /// ENOENT, ENOTDIR, EACCES; or that its directory is to be adopted.
    pub fn lookup(&self, caller: &Caller, place: &Place) -> Result<FileState, Refusal> {
        let file = self.find(caller, place)?.ok_or(Errno::ENOENT)?;
        Ok(self.state(file)?)
    }

    /// Whether `caller` may do what `wanted` says: the bits of `access(2)`.
    ///
    /// # Errors
    /// EACCES, ESTALE.
    pub fn check_access(&self, caller: &Caller, file: FileId, wanted: u32) -> Result<(), Errno> {
        permissions::check(caller, &self.node(file)?.attributes, wanted)
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// EINVAL when it is none, ESTALE when there is no such file.
    pub fn target(&self, file: FileId) -> Result<&[u8], Errno> {
        match &self.node(file)?.contents {
            Contents::Symlink(target) => Ok(target),
            _ => Err(Errno::EINVAL),
        }
    }

    /// Up to `count` entries of a directory by name, those behind `after`.
    ///
    /// # Errors
    /// ENOTDIR, ESTALE; or that it is to be adopted.
    pub fn list(&self, directory: FileId, after: Option<&Name>, count: usize) -> Result<Vec<Listed>, Refusal> {
        let entries = self.directory(directory)?.entries_after(after);
        let listed =
            entries.take(count).map(|(name, file)| Ok(Listed { name: name.clone(), state: self.state(*file)? }));
        listed.collect()
    }

    /// Where the bytes of a file's `range` are, as far as the file goes.
    ///
    /// # Errors
    /// EISDIR, EINVAL, ESTALE.
    pub fn pieces(&self, file: FileId, range: Range<u64>) -> Result<Vec<Piece>, Errno> {
        let node = self.node(file)?;
        let end = range.end.min(node.attributes.size_bytes);
        Ok(self.extents(file)?.pieces(range.start.min(end)..end))
    }
}
