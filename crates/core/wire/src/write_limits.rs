//! Bounds of a message about a burst tree, and its permitted senders: checked on arrival, before any of its numbers are added.

use forebay_types::{Errno, ExtendedAttributes, FileId, NodeRank, limits};

use crate::log_record::RECORD_CONTENTS_BYTES_MAX;
use crate::message::Checked;
use crate::write::{
    ADOPTED_ENTRIES_MAX, COMMIT_EXTENTS_MAX, Change, Done, FILE_SERIALS, FileState, GROUPS_MAX, LockRequest, MOVED_MAX,
    Operation, Piece, Source, VERIFIED_MAX, WrittenExtent, is_in_file,
};
use crate::write_message::{Changed, Question, Told};

impl Operation {
    /// Whether what travels keeps to the limits.
    #[must_use]
    pub fn is_within_limits(&self) -> bool {
        match self {
            Self::CreateUnnamed { file, .. } => is_identity(*file),
            Self::Create { file, target, .. } => is_identity(*file) && target.len() <= limits::TARGET_BYTES_MAX,
            Self::Commit { extents, .. } => are_extents(extents),
            Self::SetExtended { name, value, .. } => {
                name.len() <= limits::NAME_BYTES_MAX
                    && value.as_ref().is_none_or(|value| value.len() <= ExtendedAttributes::BYTES_MAX)
            }
            Self::AdoptExtended { found, .. } => found.is_within_limits(),
            Self::Allocate { least_bytes, .. } => is_in_file(0, *least_bytes),
            Self::Lock { request, .. } => request.is_within_limits(),
            Self::Lost { nodes } => nodes.len() <= limits::NODES_MAX,
            Self::Moved { copies, .. } => copies.len() <= MOVED_MAX,
            Self::Drained { drained, .. } => are_extents(&drained.extents) && is_in_file(drained.size_bytes, 0),
            Self::Verified { stripes, stripe_bytes, .. } => {
                let ends = |stripe: &u64| stripe.checked_add(1)?.checked_mul(*stripe_bytes);
                *stripe_bytes > 0
                    && stripes.len() <= VERIFIED_MAX
                    && stripes.iter().all(|stripe| ends(stripe).is_some_and(|end| is_in_file(end, 0)))
            }
            Self::Adopt { entries, .. } => {
                entries.len() <= ADOPTED_ENTRIES_MAX
                    && entries.iter().all(|entry| {
                        is_identity(entry.file)
                            && entry.target.len() <= limits::TARGET_BYTES_MAX
                            && is_in_file(0, entry.attributes.size_bytes)
                    })
            }
            _ => true,
        }
    }
}

impl Operation {
    /// Whether only the owner of the tree decides on it, by what it has found on the backing file system or of nodes.
    #[must_use]
    pub fn is_owners(&self) -> bool {
        match self {
            Self::Adopt { .. }
            | Self::AdoptExtended { .. }
            | Self::Unlist { .. }
            | Self::Publish { .. }
            | Self::Landed { .. }
            | Self::Drafting { .. }
            | Self::Publishing { .. }
            | Self::SetAside { .. }
            | Self::Gone { .. }
            | Self::Drained { .. }
            | Self::Lost { .. }
            | Self::Moved { .. }
            | Self::Changing { .. }
            | Self::Forked { .. }
            | Self::Verified { .. } => true,
            Self::Create { .. }
            | Self::CreateUnnamed { .. }
            | Self::Link { .. }
            | Self::Unlink { .. }
            | Self::RemoveDirectory { .. }
            | Self::Rename { .. }
            | Self::SetAttributes { .. }
            | Self::SetExtended { .. }
            | Self::Allocate { .. }
            | Self::Open { .. }
            | Self::Close { .. }
            | Self::CloseAll { .. }
            | Self::Commit { .. }
            | Self::Lock { .. } => false,
        }
    }
}

/// Whether a node can give a file this identity: it fits into an inode number.
fn is_identity(file: FileId) -> bool {
    (file.creator.0 as usize) < limits::NODES_MAX && file.serial < FILE_SERIALS
}

impl FileState {
    /// Whether there can be such a file.
    pub(crate) fn is_within_limits(&self) -> bool {
        is_identity(self.file) && is_in_file(0, self.attributes.size_bytes)
    }
}

impl LockRequest {
    /// Whether its range has a byte: what is left of a lock without an empty range would be in two parts that overlap.
    pub(crate) fn is_within_limits(&self) -> bool {
        self.start <= self.end
    }
}

impl WrittenExtent {
    /// Whether a record has that much from there on, and a file can.
    #[must_use]
    pub fn is_within_limits(&self) -> bool {
        let of_record = u64::from(self.skip).checked_add(self.len);
        is_in_file(self.offset, self.len) && of_record.is_some_and(|end| end <= RECORD_CONTENTS_BYTES_MAX.into())
    }
}

fn are_extents(extents: &[WrittenExtent]) -> bool {
    extents.len() <= COMMIT_EXTENTS_MAX && extents.iter().all(WrittenExtent::is_within_limits)
}

impl Piece {
    /// Whether a file can have it, and a record what it is.
    #[must_use]
    pub fn is_within_limits(&self) -> bool {
        let is_its = |extent: &WrittenExtent| {
            extent.is_within_limits() && (extent.offset, extent.len) == (self.offset, self.len)
        };
        is_in_file(self.offset, self.len) && !matches!(&self.source, Source::Log(extent) if !is_its(extent))
    }
}

impl Change {
    /// Whether a node may ask for it, or hand it over as one of its own: what only the owner decides on comes from the owner itself.
    #[must_use]
    pub fn may_come_from(&self, node: NodeRank) -> bool {
        let is_its_own = match &self.operation {
            Operation::CloseAll { node: of } => *of == node,
            Operation::Create { file, .. } | Operation::CreateUnnamed { file, .. } => file.creator == node,
            _ => true,
        };
        self.id.node == node && is_its_own && !self.operation.is_owners()
    }

    /// Whether what travels keeps to the limits.
    #[must_use]
    pub fn is_within_limits(&self) -> bool {
        self.caller.groups.len() <= GROUPS_MAX && self.operation.is_within_limits()
    }
}

impl Checked for Change {
    fn is_within_limits(&self) -> bool {
        Self::is_within_limits(self)
    }
}

impl Question {
    /// Whether what is asked keeps to the limits.
    pub(crate) fn is_within_limits(&self) -> bool {
        match self {
            Self::Contents { range, .. } => range.start <= range.end && is_in_file(range.end, 0),
            Self::Extended { name, .. } => name.as_ref().is_none_or(|name| name.len() <= limits::NAME_BYTES_MAX),
            Self::Seek { seek, .. } => is_in_file(seek.from, 0),
            Self::Lock { request, .. } => request.is_within_limits(),
            _ => true,
        }
    }
}

impl Checked for Vec<(u64, u64)> {
    fn is_within_limits(&self) -> bool {
        self.iter().all(|(offset, len)| is_in_file(*offset, *len))
    }
}

impl Checked for Changed {
    fn is_within_limits(&self) -> bool {
        !matches!(self.outcome, Ok(Done::File(state)) if !state.is_within_limits())
    }
}

impl Checked for Result<Told, Errno> {
    fn is_within_limits(&self) -> bool {
        match self {
            Ok(Told::State(state)) => state.is_within_limits(),
            Ok(Told::Entries(entries)) => {
                let all = entries.entries.iter().map(|(_, state)| state);
                entries.entries.len() <= limits::LISTING_ENTRIES_MAX
                    && all.chain([&entries.own]).all(FileState::is_within_limits)
            }
            // All names, or a value.
            Ok(Told::Extended(bytes)) => bytes.len() <= ExtendedAttributes::BYTES_MAX,
            Ok(Told::Target(target)) => target.len() <= limits::TARGET_BYTES_MAX,
            Ok(Told::Contents(contents)) => {
                contents.state.is_within_limits() && contents.pieces.iter().all(Piece::is_within_limits)
            }
            _ => true,
        }
    }
}
