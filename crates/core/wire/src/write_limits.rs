//! Bounds of a message about a burst tree, and its permitted senders: checked on arrival, before any of its numbers are added.

use forebay_types::{Errno, ExtendedAttributes, NodeRank, limits};

use crate::log_record::RECORD_CONTENTS_BYTES_MAX;
use crate::message::Checked;
use crate::write::{
    Change, Done, FileState, GROUPS_MAX, LockRequest, Operation, Piece, Source, WrittenExtent, are_extents,
    is_identity, is_in_file,
};
use crate::write_message::{Answer, Changed, Question};

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
            Self::Allocate { least_bytes, .. } => is_in_file(0, *least_bytes),
            Self::Lock { request, .. } => request.is_within_limits(),
            Self::Link { .. }
            | Self::Unlink { .. }
            | Self::RemoveDirectory { .. }
            | Self::Rename { .. }
            | Self::SetAttributes { .. }
            | Self::Open { .. }
            | Self::Close { .. }
            | Self::CloseAll => true,
        }
    }
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
    /// Checks that `sender`, which has sent it or hands it over, speaks for itself: under its own name, about files and records of its own
    /// count.
    ///
    /// # Errors
    /// EPERM.
    pub fn check_sender(&self, sender: NodeRank) -> Result<(), Errno> {
        let is_its_own = match &self.operation {
            Operation::Create { file, .. } | Operation::CreateUnnamed { file, .. } => file.creator == sender,
            Operation::Commit { extents, .. } => extents.iter().all(|extent| extent.node == sender),
            Operation::Link { .. }
            | Operation::Unlink { .. }
            | Operation::RemoveDirectory { .. }
            | Operation::Rename { .. }
            | Operation::SetAttributes { .. }
            | Operation::SetExtended { .. }
            | Operation::Allocate { .. }
            | Operation::Open { .. }
            | Operation::Close { .. }
            | Operation::CloseAll
            | Operation::Lock { .. } => true,
        };
        if self.id.node == sender && is_its_own { Ok(()) } else { Err(Errno::EPERM) }
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

impl Checked for Result<Answer, Errno> {
    fn is_within_limits(&self) -> bool {
        match self {
            Ok(Answer::State(state)) => state.is_within_limits(),
            Ok(Answer::Entries(entries)) => {
                let all = entries.entries.iter().map(|(_, state)| state);
                entries.entries.len() <= limits::LISTING_ENTRIES_MAX
                    && all.chain([&entries.own]).all(FileState::is_within_limits)
            }
            // All names, or a value.
            Ok(Answer::Extended(bytes)) => bytes.len() <= ExtendedAttributes::BYTES_MAX,
            Ok(Answer::Target(target)) => target.len() <= limits::TARGET_BYTES_MAX,
            Ok(Answer::Contents(contents)) => {
                contents.state.is_within_limits() && contents.pieces.iter().all(Piece::is_within_limits)
            }
            _ => true,
        }
    }
}
