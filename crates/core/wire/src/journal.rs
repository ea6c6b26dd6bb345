//! The history of a burst tree, as its owner writes it down and its standby follows it: what nodes have asked for, and what the owner has
//! found out itself.
//!
//! The two are two types. A request travels from any node, by its name, for a program; an entry of the leader is made where the tree is, never
//! comes over the network but in the history, and is noted once. So no peer can say what has landed or which node is lost.

use forebay_types::{Attributes, BackingId, ExtendedAttributes, FileId, Name, NodeRank, Rights, Timestamp, limits};
use serde::{Deserialize, Serialize};

use crate::message::Checked;
use crate::write::{Change, Copy, Place, WrittenExtent, are_extents, is_identity, is_in_file};

/// Records that get another place in one entry.
pub const RELOCATED_MAX: usize = 1 << 12;

/// Stripes that one entry says of that they are verified.
pub const VERIFIED_MAX: usize = 1 << 10;

/// Entries of one import; a larger directory is imported in several.
pub const IMPORTED_ENTRIES_MAX: usize = 1 << 10;

/// One step of a tree's history.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum JournalEntry {
    /// A node has asked for it.
    Request(Change),
    /// The leader has found it out, on the backing file system or of nodes.
    Leader(LeaderEntry),
}

/// The same, not owned; encoded alike.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub enum EntryRef<'a> {
    /// A node has asked for it.
    Request(&'a Change),
    /// The leader has found it out.
    Leader(&'a LeaderEntry),
}

/// A finding of the leader.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum LeaderEntry {
    /// Files that a directory has only on the backing file system, as they were met there, are forgotten: its entries are to be
    /// imported again.
    Unlist {
        /// The directory.
        directory: FileId,
    },
    /// Entries of a directory of the backing file system, which the tree does not know.
    Import {
        /// The directory.
        directory: FileId,
        /// Its next entries, `IMPORTED_ENTRIES_MAX` at most.
        entries: Vec<ImportedEntry>,
        /// Whether it has no more.
        is_last: bool,
    },
    /// The present contents of a file land although nodes have it open: the tree drains.
    Publish {
        /// The file.
        file: FileId,
    },
    /// A node is gone: what it has open is closed, and its locks are free.
    GiveUp {
        /// The node.
        node: NodeRank,
    },
    /// Files whose last steps had nothing to do are released.
    LetGo,
    /// The backing file system has followed a step of the tree's history.
    Landed {
        /// Its number.
        step: u64,
        /// The outcome.
        outcome: StepOutcome,
    },
    /// A file is about to have a draft on the backing file system.
    Drafting {
        /// The file.
        file: FileId,
        /// The draft's directory.
        directory: FileId,
    },
    /// A file is about to appear on the backing file system, as this.
    Publishing {
        /// The file.
        file: FileId,
        /// The file that is to get its places.
        backed: BackingId,
    },
    /// A place of the backing file system is taken by another file: the tree's file there gets another name.
    SetAside {
        /// The place.
        place: Place,
        /// The name there.
        name: Name,
    },
    /// The tree's file at a place of the backing file system is not there any more: others have removed or replaced it, or the leader has
    /// removed it before its turn, for room.
    NotThere {
        /// The place.
        place: Place,
    },
    /// A part of what a file has lies on the backing file system too, before it is published: in its draft, or in the file itself
    /// where that is there already. Its nodes have it open, and their stores fill.
    Drained {
        /// The file.
        file: FileId,
        /// The part.
        drained: Drained,
    },
    /// These nodes do not answer, and all others do: what only they have does not land, and nothing waits for it.
    Lost {
        /// Their ranks.
        nodes: Vec<NodeRank>,
    },
    /// A node is gone: its records are where its partner has copied them.
    Relocated {
        /// The node.
        node: NodeRank,
        /// Its partner.
        to: NodeRank,
        /// Which, `RELOCATED_MAX` at most.
        copies: Vec<Copy>,
    },
    /// A file that is there on the backing file system is about to be changed there: until it is known as what it was left, nobody
    /// can tell who has changed it.
    Changing {
        /// The file.
        file: FileId,
    },
    /// Others have changed a file in place that is there on the backing file system: it is theirs from now on, and what the tree has
    /// appears anew.
    CopiedOnConflict {
        /// The file.
        file: FileId,
        /// Its draft, which has what was only in the changed file; `None` where nothing was.
        draft: Option<BackingId>,
        /// How much that is, bytes.
        bytes: u64,
        /// Its mode and owner from then on.
        rights: Rights,
    },
    /// Stripes of a file are in its draft on the backing file system, durable and verified, before it is published.
    Verified {
        /// The file.
        file: FileId,
        /// Which contents.
        version: u64,
        /// The draft.
        draft: BackingId,
        /// How long its stripes are, bytes.
        stripe_bytes: u64,
        /// Which, from the file's beginning, `VERIFIED_MAX` at most; none when its sending begins.
        stripes: Vec<u64>,
    },
    /// Extended attributes that a file has on the backing file system, which the tree does not know.
    ImportExtended {
        /// The file.
        file: FileId,
        /// All of them.
        found: ExtendedAttributes,
    },
}

/// The outcome of a step on the backing file system.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum StepOutcome {
    /// It was carried out.
    Done,
    /// The same, and these contents are there now.
    Contents(LandedContents),
    /// It was skipped: newer contents are to come, or its file is gone.
    LeftOut,
    /// It was carried out, and this file is there now.
    Made(BackingId),
}

/// Contents that are on the backing file system.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct LandedContents {
    /// Which they are.
    pub version: u64,
    /// The file there.
    pub backed: BackingId,
    /// The blocks that it takes there, as `stat` counts them.
    pub blocks: u64,
}

/// The part of a file that lies on the backing file system before it is published.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Drained {
    /// The contents that were looked at.
    pub version: u64,
    /// How long they were, bytes. Where nothing is written, what is there has zeros, or what it always had.
    pub size_bytes: u64,
    /// The file that has them.
    pub backed: BackingId,
    /// The ranges of it that logs had, `COMMIT_EXTENTS_MAX` at most.
    pub extents: Vec<WrittenExtent>,
    /// Whether logs keep these.
    pub is_kept: bool,
}

/// An entry of a directory of the backing file system.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct ImportedEntry {
    /// Its name.
    pub name: Name,
    /// Its identity in the burst tree.
    pub file: FileId,
    /// Its attributes there, as `lstat` says.
    pub attributes: Attributes,
    /// When it was made there; the epoch where the file system does not say.
    pub born: Timestamp,
    /// Of a symbolic link, else empty.
    pub target: Vec<u8>,
}

impl From<Change> for JournalEntry {
    fn from(change: Change) -> Self {
        Self::Request(change)
    }
}

impl From<LeaderEntry> for JournalEntry {
    fn from(entry: LeaderEntry) -> Self {
        Self::Leader(entry)
    }
}

impl<'a> From<&'a JournalEntry> for EntryRef<'a> {
    fn from(entry: &'a JournalEntry) -> Self {
        match entry {
            JournalEntry::Request(change) => Self::Request(change),
            JournalEntry::Leader(entry) => Self::Leader(entry),
        }
    }
}

impl<'a> From<&'a Change> for EntryRef<'a> {
    fn from(change: &'a Change) -> Self {
        Self::Request(change)
    }
}

impl<'a> From<&'a LeaderEntry> for EntryRef<'a> {
    fn from(entry: &'a LeaderEntry) -> Self {
        Self::Leader(entry)
    }
}

impl LeaderEntry {
    /// Whether what is noted keeps to the limits.
    #[must_use]
    pub fn is_within_limits(&self) -> bool {
        match self {
            Self::ImportExtended { found, .. } => found.is_within_limits(),
            Self::Lost { nodes } => nodes.len() <= limits::NODES_MAX,
            Self::Relocated { copies, .. } => copies.len() <= RELOCATED_MAX,
            Self::Drained { drained, .. } => are_extents(&drained.extents) && is_in_file(drained.size_bytes, 0),
            Self::Verified { stripes, stripe_bytes, .. } => {
                let ends = |stripe: &u64| stripe.checked_add(1)?.checked_mul(*stripe_bytes);
                *stripe_bytes > 0
                    && stripes.len() <= VERIFIED_MAX
                    && stripes.iter().all(|stripe| ends(stripe).is_some_and(|end| is_in_file(end, 0)))
            }
            Self::Import { entries, .. } => {
                entries.len() <= IMPORTED_ENTRIES_MAX
                    && entries.iter().all(|entry| {
                        is_identity(entry.file)
                            && entry.target.len() <= limits::TARGET_BYTES_MAX
                            && is_in_file(0, entry.attributes.size_bytes)
                    })
            }
            Self::Unlist { .. }
            | Self::Publish { .. }
            | Self::GiveUp { .. }
            | Self::LetGo
            | Self::Landed { .. }
            | Self::Drafting { .. }
            | Self::Publishing { .. }
            | Self::SetAside { .. }
            | Self::NotThere { .. }
            | Self::Changing { .. }
            | Self::CopiedOnConflict { .. } => true,
        }
    }
}

impl Checked for JournalEntry {
    fn is_within_limits(&self) -> bool {
        match self {
            Self::Request(change) => change.is_within_limits(),
            Self::Leader(entry) => entry.is_within_limits(),
        }
    }
}
