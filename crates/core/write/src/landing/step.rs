//! Events of the tree, as the backing file system is to follow them.

use forebay_types::{FileId, Kind};
use forebay_wire::write::{Place, RenameRule};
use serde::{Deserialize, Serialize};

/// Something that happened in the tree.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Step {
    /// A file has a name, its first or another.
    Name { file: FileId, kind: Kind, place: Place },
    /// It has one less.
    Unname { file: FileId, place: Place },
    /// A name moved; what it replaced has one less.
    Move { file: FileId, from: Place, to: Place, replaced: Option<FileId>, rule: RenameRule },
    /// The contents are whole.
    Publish { file: FileId, version: u64 },
    /// Mode, owner or times changed.
    Attributes { file: FileId },
    /// It has gone, and leaves a draft.
    Discard { file: FileId },
}

impl Step {
    /// The directories with the names that it is about.
    pub(super) fn directories(&self) -> impl Iterator<Item = FileId> {
        let (one, other) = match self {
            Self::Name { place, .. } | Self::Unname { place, .. } => (Some(place), None),
            Self::Move { from, to, .. } => (Some(from), Some(to)),
            Self::Publish { .. } | Self::Attributes { .. } | Self::Discard { .. } => (None, None),
        };
        one.into_iter().chain(other).map(|place| place.directory).collect::<Vec<_>>().into_iter()
    }

    /// The file whose contents or attributes it changes.
    pub(super) fn changed(&self) -> Option<FileId> {
        match self {
            Self::Publish { file, .. } | Self::Attributes { file } => Some(*file),
            _ => None,
        }
    }

    /// The file that it is about.
    pub(super) fn file(&self) -> FileId {
        match self {
            Self::Name { file, .. }
            | Self::Unname { file, .. }
            | Self::Move { file, .. }
            | Self::Publish { file, .. }
            | Self::Attributes { file }
            | Self::Discard { file } => *file,
        }
    }
}
