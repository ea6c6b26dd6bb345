//! Calls on the backing file system, of which each follows a step of the tree.

use forebay_types::{FileId, Kind};
use forebay_wire::write::Place;

/// One step on the backing file system.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Action {
    /// A directory, symbolic link or special file appears. A directory that has gone since appears too, since what was in it
    /// may have been elsewhere by then.
    Make { file: FileId, kind: Kind, place: Place },
    /// A file's contents appear at all its places at once, each replacing what is there.
    Publish { file: FileId, version: u64, places: Vec<Place> },
    /// A file that is there gets these contents, and stays the same file.
    Update { file: FileId, version: u64, place: Place },
    /// The same of a file that has no name in the tree any more, by its draft, which is a name of it.
    UpdateUnnamed { file: FileId, version: u64 },
    /// A file that is there gets another name.
    Link { file: FileId, from: Place, to: Place },
    /// Moves the entry of a place, replacing the one at the target, or exchanging both.
    Rename { from: Place, to: Place, is_exchange: bool },
    /// Removes the entry of a place.
    Remove { place: Place, is_directory: bool },
    /// A file that is there gets the mode, owner and times that it has now. The root has no place.
    SetAttributes { file: FileId, place: Option<Place> },
    /// A file's draft goes.
    Discard { file: FileId, directory: FileId },
}

/// A file that is there, and that the tree has removed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Removable {
    /// The step that removes it.
    pub step: u64,
    /// The file.
    pub file: FileId,
    /// Its only place there.
    pub place: Place,
    /// How long it was when it landed or was met, bytes.
    pub size_bytes: u64,
}

impl Action {
    /// The file whose contents it brings.
    pub(crate) fn brings(&self) -> Option<FileId> {
        match self {
            Self::Publish { file, .. } | Self::Update { file, .. } | Self::UpdateUnnamed { file, .. } => Some(*file),
            _ => None,
        }
    }
}
