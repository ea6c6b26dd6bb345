//! The messages of nodes about a burst tree: to its owner, and to nodes that have bytes of it in a log.
//!
//! An answer is `Body`. Where an operation or a question can be refused, the body is a `Result` with the error that the program
//! sees. `Failed` means that the outcome is unknown, and that the request is to be repeated.

use std::collections::BTreeMap;
use std::ops::Range;

use forebay_types::{BackingId, Errno, FileId, FileSystem, LogPosition, Name, NodeRank, OperationId, ViewPath, limits};
use serde::{Deserialize, Serialize};

pub use crate::leadership::{
    EPOCHS_END, Followed, Leadership, Renewal, Replayed, ReplicatedIndex, UNREPLICATED_MAX, VoteReply, VoteRequest,
};
use crate::message::Checked;
use crate::stripe::is_stripe;
pub use crate::stripe::{STRIPE_BYTES_MAX, STRIPE_EXTENTS_MAX};
use crate::write::{
    Caller, Change, Copy, Done, FileState, GROUPS_MAX, HeldLock, LockRequest, Piece, Place, WrittenExtent, is_in_file,
};

/// Parts of one request for contents.
pub const CONTENTS_PARTS_MAX: usize = 1 << 10;

/// Bytes of one request for contents: a stripe of the drain.
pub const CONTENTS_BYTES_MAX: u64 = 4 << 20;

/// Copies that one answer tells of.
pub const COPIES_MAX: usize = 1 << 15;

/// Files that one change makes old and that are told one by one: a renaming does four, a directory that is unlisted as many as it has.
pub const FORGOTTEN_MAX: usize = 1 << 12;

/// The longest path that is asked about, bytes.
const PATH_BYTES_MAX: usize = limits::PATH_BYTES_MAX + limits::NAME_BYTES_MAX;

/// A message about a burst tree.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum WriteMessage {
    /// The leader is to carry it out. Body: `Changed`.
    Change(Change),
    /// The leader is asked. Body: `Result<Answer, Errno>`.
    Question {
        /// For whom.
        caller: Caller,
        /// The question.
        question: Question,
        /// Whether the asking node goes on believing the answer for a time (`forebay_write::Leases`).
        is_leased: bool,
    },
    /// Contents of the asked node's log, `CONTENTS_PARTS_MAX` and `CONTENTS_BYTES_MAX` at most. Answer: `Body` with all of them, or
    /// `Bundle` with the errors.
    Contents {
        /// Which, in the order of the answer.
        parts: Vec<LogPart>,
    },
    /// Contents of a file of the backing file system that has no name there any more, and that the leader has open. Answer as
    /// above.
    Unlinked {
        /// The file.
        file: FileId,
        /// First byte.
        offset: u64,
        /// Bytes, `CONTENTS_BYTES_MAX` at most.
        len: u64,
    },
    /// The asked node commits all that its programs have written. Body: `Result<(), Errno>`.
    CommitAll,
    /// The leader tells that files are not what it has told the asked node. Body: nothing.
    Invalidate {
        /// Which, `FORGOTTEN_MAX` at most; none means all.
        files: Vec<FileId>,
    },
    /// The standby asks the leader for the changes that it does not have, and waits for one for a time. Body: `Followed`.
    Follow {
        /// The history that it has written down; `None` where it has no tree.
        have: Option<ReplicatedIndex>,
        /// Of a tree that it is being sent: which one, and the part that comes next.
        parts: Option<(ReplicatedIndex, u32)>,
    },
    /// The asked node's partner asks for what it is to copy next, and waits for that for a time. Body: `ToCopy`.
    Copy {
        /// How many it has copied, of which daemon's count; `None` where it does not know.
        have: Option<ReplicatedIndex>,
    },
    /// Uncommitted records of the asked node's log. Body: bytes by segment.
    Pending,
    /// The asked node's copies of another node's log. Body: `COPIES_MAX` of `Copy`.
    Copies {
        /// Of which.
        of: NodeRank,
        /// After this record of it.
        after: Option<LogPosition>,
    },
    /// The leader is to look whether a node still answers, and to go on with what its partner has if not. Body: whether its records
    /// have other places now.
    Failover {
        /// Which.
        node: NodeRank,
    },
    /// Uncommitted writes of the asked node's programs to a file. Body: offset and length of each range.
    Uncommitted {
        /// The file.
        file: FileId,
    },
    /// The asked node gives back the room of what the tree does not need any more. Body: nothing.
    Reclaim,
    /// The leader lets everything land. Answer: `Text`, a JSON array with how far it is.
    Drain {
        /// How long it waits for that, milliseconds.
        wait_ms: u32,
    },
    /// How far a file is on its way to the backing file system. Answer: `Text`, a JSON array.
    Landed {
        /// The path as the asking command has it, UTF-8.
        path: String,
    },
    /// The leader asks a voter for a leader lease. Body: `Result<(), Leadership>`, with a newer leader.
    Renew(Renewal),
    /// The standby asks a voter for its vote. Body: `VoteReply`.
    Vote(VoteRequest),
    /// The leader, as far as the asked node knows. Body: `Leadership`.
    WhoLeads,
    /// The asking node leads the tree from now on, and wants the changes that the asked one had carried out before and that come after
    /// what it has. Body: `Replayed`; `Failed` where that node knows a newer leader.
    Replay {
        /// The leader.
        leadership: Leadership,
        /// The history that it has.
        after: ReplicatedIndex,
    },
    /// The leader has the asked node write a stripe of a file to its draft on the backing file system, make it durable, read it back and
    /// compare it. Body: `Result<(), Errno>`.
    Stripe(Stripe),
    /// The asked node refuses what its programs want to change from now on, and commits all. Body: `Result<(), Errno>`.
    EndChanges,
}

/// A stripe of a file that a node is to write to its draft.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Stripe {
    /// The asking leader: one that does not lead the tree any more is refused.
    pub leadership: Leadership,
    /// Where the draft lies.
    pub path: ViewPath,
    /// The draft's identity: no other file is written to.
    pub draft: BackingId,
    /// The ranges to write, in the file's order, `STRIPE_EXTENTS_MAX` at most.
    pub extents: Vec<WrittenExtent>,
}

/// The leader's answer to a change.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Changed {
    /// The result.
    pub outcome: Result<Done, Errno>,
    /// The tree's history with it; `None` where the tree has no standby.
    pub have: Option<ReplicatedIndex>,
    /// As much of it as the standby has written down.
    pub safe: Option<ReplicatedIndex>,
}

/// Records of a log that its partner is to copy next.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ToCopy {
    /// How many the partner has with these.
    pub have: ReplicatedIndex,
    /// The records, with the bytes of their contents; together `CONTENTS_PARTS_MAX` and `CONTENTS_BYTES_MAX` at most.
    pub records: Vec<(LogPosition, u32)>,
}

/// Contents in a log.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct LogPart {
    /// The record.
    pub position: LogPosition,
    /// How far into the record's contents they begin, bytes.
    pub skip: u32,
    /// Bytes.
    pub len: u32,
}

/// A question to the leader that changes no file.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Question {
    /// The file of a name. Told: `State`.
    Lookup {
        /// The name.
        place: Place,
    },
    /// A file as it is. Told: `State`.
    State {
        /// The file.
        file: FileId,
    },
    /// Whether the caller may do something. Told: `Nothing`.
    Access {
        /// With what.
        file: FileId,
        /// The bits of `access(2)`.
        wanted: u32,
    },
    /// Where a symbolic link leads. Told: `Target`.
    Target {
        /// The link.
        file: FileId,
    },
    /// The entries of a directory. Told: `Entries`.
    List {
        /// The directory.
        directory: FileId,
    },
    /// Where bytes of a file are. Told: `Contents`.
    Contents {
        /// The file.
        file: FileId,
        /// Of the file's bytes.
        range: Range<u64>,
    },
    /// The lock that conflicts with one of the asking node. Told: `Lock`.
    Lock {
        /// The file.
        file: FileId,
        /// The lock that would be set.
        request: LockRequest,
    },
    /// Room of the backing file system. Told: `FileSystem`.
    FileSystem,
    /// How much of the asking node's log is needed. Told: `Needed`.
    Needed {
        /// Of another node's, which the asking one has copies of; `None`: of its own.
        of: Option<NodeRank>,
        /// Whether its store fills.
        is_filling: bool,
    },
    /// Which identities the asking node may give to files. Told: `NextSerial`.
    NextSerial,
    /// Which record of the asking node's log its last commit was about. Told: `LastCommitted`.
    LastCommitted,
    /// Which tree the leader has; the asking node's log is about this one, if any. Told: `Tree`.
    Tree(Option<u64>),
    /// All that has happened until now is to survive the loss of power and of the leader. Told: `Nothing`.
    Durable,
    /// Whether a partner copies what is written to a file. Told: `Copied`.
    Copied {
        /// The file.
        file: FileId,
    },
    /// Where in a file the next data or the next hole begins. Told: `Contents` with the first piece that may be it, or none.
    Seek {
        /// The file.
        file: FileId,
        /// From where, and which of the two.
        seek: Seek,
    },
    /// A file's extended attributes. Told: `Extended`.
    Extended {
        /// The file.
        file: FileId,
        /// Which one's value; `None`: the names of all.
        name: Option<Vec<u8>>,
    },
    /// Whether the tree has a change, or never gets it. Told: `CarriedOut`.
    CarriedOut {
        /// Its name.
        id: OperationId,
    },
}

/// Data or a hole that is looked for in a file (`SEEK_DATA`, `SEEK_HOLE`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Seek {
    /// The first byte that counts.
    pub from: u64,
    /// Whether a hole is sought.
    pub is_hole: bool,
    /// The file of the backing file system has none of it below this byte.
    pub backing_until: u64,
}

/// The leader's answer to a question.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Answer {
    Nothing,
    State(FileState),
    Target(Vec<u8>),
    Entries(Entries),
    Contents(Contents),
    Lock(Option<HeldLock>),
    FileSystem(FileSystem),
    /// Bytes by segment.
    Needed(BTreeMap<u64, u64>),
    /// Above all that are known.
    NextSerial(u64),
    LastCommitted(Option<LogPosition>),
    /// Its number.
    Tree(u64),
    Copied(bool),
    /// A value, or all names with a NUL after each.
    Extended(Vec<u8>),
    CarriedOut(bool),
}

/// A directory.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Entries {
    /// The directory itself.
    pub own: FileState,
    /// The one that holds it.
    pub parent: FileId,
    /// Its entries, by name.
    pub entries: Vec<(Name, FileState)>,
}

/// Where bytes of a file are.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Contents {
    /// The file.
    pub state: FileState,
    /// Its range, as far as the file goes.
    pub pieces: Vec<Piece>,
    /// Where on the backing file system the file lies, and what it was there, if it is there.
    pub backing: Option<(ViewPath, BackingId)>,
}

impl WriteMessage {
    /// That a node is to forget these files: all that it knows, where they are too many.
    #[must_use]
    pub fn invalidate(files: &[FileId]) -> Self {
        Self::Invalidate { files: if files.len() <= FORGOTTEN_MAX { files.to_vec() } else { vec![] } }
    }

    /// A short word for logs and counters.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Change(_) => "change",
            Self::Question { .. } => "question",
            Self::Contents { .. } => "contents",
            Self::Unlinked { .. } => "unlinked",
            Self::CommitAll => "commit-all",
            Self::EndChanges => "end-changes",
            Self::Invalidate { .. } => "forget",
            Self::Follow { .. } => "follow",
            Self::Renew(_) => "renew",
            Self::Vote(_) => "vote",
            Self::WhoLeads => "who-owns",
            Self::Replay { .. } => "hand-over",
            Self::Stripe(_) => "stripe",
            Self::Copy { .. } => "copy",
            Self::Pending => "pending",
            Self::Copies { .. } => "copies",
            Self::Failover { .. } => "rescue",
            Self::Uncommitted { .. } => "uncommitted",
            Self::Reclaim => "give-back",
            Self::Drain { .. } => "drain",
            Self::Landed { .. } => "landed",
        }
    }

    /// Bytes of the body that answers it, as far as it tells.
    #[must_use]
    pub fn body_bytes(&self) -> u64 {
        match self {
            Self::Contents { parts } => parts.iter().map(|part| u64::from(part.len)).sum(),
            Self::Unlinked { len, .. } => *len,
            _ => 0,
        }
    }

    pub(crate) fn is_within_limits(&self) -> bool {
        let is_counted = match self {
            Self::Change(change) => change.is_within_limits(),
            Self::Question { caller, question, .. } => caller.groups.len() <= GROUPS_MAX && question.is_within_limits(),
            Self::Invalidate { files } => files.len() <= FORGOTTEN_MAX,
            Self::Contents { parts } => parts.len() <= CONTENTS_PARTS_MAX,
            Self::Unlinked { offset, len, .. } => is_in_file(*offset, *len),
            Self::Stripe(stripe) => stripe.leadership.is_within_limits() && is_stripe(&stripe.extents),
            Self::Renew(renewal) => renewal.leadership.is_within_limits(),
            Self::Vote(vote_request) => vote_request.leadership.is_within_limits(),
            Self::Replay { leadership, after } => leadership.is_within_limits() && after.is_within_limits(),
            Self::Landed { path } => path.len() <= PATH_BYTES_MAX,
            _ => true,
        };
        is_counted && self.body_bytes() <= CONTENTS_BYTES_MAX
    }
}

impl Default for Leadership {
    fn default() -> Self {
        Self { term: 0, leader: NodeRank(0) }
    }
}

impl Checked for Result<(), Errno> {
    fn is_within_limits(&self) -> bool {
        true
    }
}

impl Checked for ToCopy {
    fn is_within_limits(&self) -> bool {
        let bytes: u64 = self.records.iter().map(|(_, len)| u64::from(*len)).sum();
        self.records.len() <= CONTENTS_PARTS_MAX && bytes <= CONTENTS_BYTES_MAX
    }
}

impl Checked for Vec<Copy> {
    fn is_within_limits(&self) -> bool {
        self.len() <= COPIES_MAX
    }
}

impl Checked for BTreeMap<u64, u64> {
    fn is_within_limits(&self) -> bool {
        // By segments, of which a store has so many.
        true
    }
}

impl Checked for Result<bool, Errno> {
    fn is_within_limits(&self) -> bool {
        true
    }
}
