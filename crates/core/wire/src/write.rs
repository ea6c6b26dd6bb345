//! The write path's words between nodes: what may be changed in a burst tree, who asks for it, and what became of it.
//!
//! An operation is complete in itself: it carries its time and its caller, so that carrying out the same operations in the
//! same order gives the same tree on every node and after every restart. It travels to the leader, is written to
//! logs as it is, and is found there again.

use std::ops::Range;

use forebay_types::{Attributes, ExtendedRule, FileId, LogPosition, Name, NodeRank, OperationId, Timestamp, limits};
use serde::{Deserialize, Serialize};

pub use crate::lock::{HeldLock, LockKind, LockRequest};

/// The root of a burst tree.
pub const BURST_ROOT: FileId = FileId { creator: NodeRank(0), serial: 0 };

/// Groups of a caller (`NGROUPS_MAX` of Linux is 65,536; nobody has as many).
pub const GROUPS_MAX: usize = 1024;

/// Extents of one commit; a node that has more commits several times.
pub const COMMIT_EXTENTS_MAX: usize = 1 << 11;

/// Files that one node can create or import: an inode number has the serial in its lower bits.
pub const FILE_SERIALS: u64 = 1 << 40;

/// One change, as it is asked for.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Change {
    /// Which it is, however often it is sent.
    pub id: OperationId,
    /// The oldest operation of the same node and session that may still be sent again; results of older ones are forgotten.
    pub oldest: u64,
    /// For whom.
    pub caller: Caller,
    /// When, by the asking node's clock.
    pub now: Timestamp,
    /// The operation.
    pub operation: Operation,
}

/// The credentials of the process that asks.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Caller {
    /// File system user id.
    pub uid: u32,
    /// File system group id.
    pub gid: u32,
    /// Supplementary groups, `GROUPS_MAX` at most.
    pub groups: Vec<u32>,
}

/// A name in a directory.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Place {
    /// The directory.
    pub directory: FileId,
    /// The name.
    pub name: Name,
}

/// The changes of a tree that nodes ask for, for programs or for themselves. `LeaderEntry` has those that its owner makes.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Operation {
    /// `mkdir`, `mknod`, `symlink`, `open` with `O_CREAT`.
    Create {
        /// Where.
        place: Place,
        /// Its identity from now on; of the asking node's count.
        file: FileId,
        /// Type and permission bits, the umask taken off.
        mode: u32,
        /// Of a device.
        rdev: u32,
        /// Of a symbolic link, else empty; `limits::TARGET_BYTES_MAX` at most.
        target: Vec<u8>,
        /// Whether the asking node opens it in the same step; for a file that is there already too, unless `is_exclusive`.
        is_opened: bool,
        /// `O_EXCL`.
        is_exclusive: bool,
    },
    /// `link`.
    Link {
        /// The file that gets a second name.
        file: FileId,
        /// Which.
        place: Place,
    },
    /// `unlink`.
    Unlink {
        /// The name.
        place: Place,
    },
    /// `rmdir`.
    RemoveDirectory {
        /// The name.
        place: Place,
    },
    /// `renameat2`.
    Rename {
        /// The name that goes.
        from: Place,
        /// The name that comes.
        to: Place,
        /// The rule if the name is taken.
        rule: RenameRule,
    },
    /// `chmod`, `chown`, `utimensat`, `truncate`, each part on its own.
    SetAttributes {
        /// Of what.
        file: FileId,
        /// To what.
        changes: AttributeChanges,
    },
    /// A program opens a file.
    Open {
        /// The file.
        file: FileId,
    },
    /// A file is created without a name (`O_TMPFILE`), and opened.
    CreateUnnamed {
        /// The directory that it is made in, whose group it may get.
        directory: FileId,
        /// Its identity, new.
        file: FileId,
        /// Permission bits.
        mode: u32,
        /// Whether a `Link` may give it a name.
        may_be_named: bool,
    },
    /// An open of a program is closed, and locks that were set through it end.
    Close {
        /// The file.
        file: FileId,
        /// Which open, as the asking node numbers them; 0 for one that has set no locks.
        handle: u64,
    },
    /// The asking node has nothing open any more: its mount is a new one.
    CloseAll,
    /// A node's writes, seen by all others from now on.
    Commit {
        /// The file.
        file: FileId,
        /// The written ranges, in the order of writing, `COMMIT_EXTENTS_MAX` at most.
        extents: Vec<WrittenExtent>,
        /// From where their offsets count.
        at: CommitAt,
    },
    /// A program of the asking node locks a range of a file, or gives it back. Locks last until then, or until the node's
    /// `CloseAll`.
    Lock {
        /// The file.
        file: FileId,
        /// The lock.
        request: LockRequest,
    },
    /// A file is changed without a byte of it, and is at least so long afterwards: nothing is cut that others have written meanwhile.
    Allocate {
        /// The file.
        file: FileId,
        /// Bytes.
        least_bytes: u64,
    },
    /// `setxattr`, `removexattr`.
    SetExtended {
        /// Of what.
        file: FileId,
        /// The attribute.
        name: Vec<u8>,
        /// Its value; `None` removes it.
        value: Option<Vec<u8>>,
        /// The condition.
        rule: ExtendedRule,
    },
}

/// From where the offsets of a commit count.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum CommitAt {
    /// The file's beginning.
    Start,
    /// The file's end, wherever it is when the leader comes to it (`O_APPEND`).
    End,
}

/// A range of a file that one node wrote.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct WrittenExtent {
    /// First byte in the file.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
    /// In whose log they are.
    pub node: NodeRank,
    /// The record that has them.
    pub position: LogPosition,
    /// How far into the record's contents they begin, bytes.
    pub skip: u32,
}

/// A record of one node's log that another one's log has too.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Copy {
    /// In the log of the node that wrote it.
    pub from: LogPosition,
    /// In the other one.
    pub to: LogPosition,
    /// Bytes of its contents.
    pub len: u32,
}

/// The rule for a file at the new name of a rename.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum RenameRule {
    /// It is replaced.
    Replace,
    /// It stays, and the rename fails (`RENAME_NOREPLACE`).
    Keep,
    /// It gets the old name (`RENAME_EXCHANGE`).
    Exchange,
}

/// The changes of `SetAttributes`; `None` stays.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct AttributeChanges {
    /// Permission bits.
    pub mode: Option<u32>,
    /// Leader.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Size, bytes.
    pub size_bytes: Option<u64>,
    /// Last access.
    pub atime: Option<TimeChange>,
    /// Last change of the contents.
    pub mtime: Option<TimeChange>,
    /// Whether the caller has the file open for writing: it may then be truncated whatever its permissions are now.
    pub is_through_descriptor: bool,
}

/// The new value of a time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum TimeChange {
    /// The time of the operation, which who may write may.
    Now,
    /// Another, which only the leader may.
    To(Timestamp),
}

/// The result of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Done {
    /// No value.
    Nothing,
    /// A file, as it is now.
    File(FileState),
}

/// A part of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Piece {
    /// First byte in the file.
    pub offset: u64,
    /// Bytes, at least 1.
    pub len: u64,
    /// Where it is.
    pub source: Source,
}

/// Where bytes are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Source {
    /// In a log; the extent is exactly the piece's.
    Log(WrittenExtent),
    /// In the file of the backing file system, at the same offset.
    Backing,
    /// Nowhere: zeros.
    Hole,
}

/// A file as its owner has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FileState {
    /// The file.
    pub file: FileId,
    /// Its attributes, as `stat` says.
    pub attributes: Attributes,
    /// Counts changes of its contents; readings at the same number have the same bytes.
    pub version: u64,
}

impl Piece {
    /// The part of it in `range` of the file.
    #[must_use]
    pub fn part(&self, range: Range<u64>) -> Option<Self> {
        let (start, end) = (self.offset.max(range.start), (self.offset + self.len).min(range.end));
        let len = end.checked_sub(start).filter(|len| *len > 0)?;
        let source = match self.source {
            // A record's contents are below 4 GiB.
            Source::Log(extent) => Source::Log(WrittenExtent {
                offset: start,
                len,
                skip: extent.skip + u32::try_from(start - self.offset).unwrap_or(u32::MAX),
                ..extent
            }),
            other => other,
        };
        Some(Self { offset: start, len, source })
    }
}

/// Whether a file can have `len` bytes at `offset`: the kernel counts them so (`loff_t`).
pub(crate) fn is_in_file(offset: u64, len: u64) -> bool {
    offset.checked_add(len).is_some_and(|end| i64::try_from(end).is_ok())
}

/// Whether a node can give a file this identity: it fits into an inode number.
pub(crate) fn is_identity(file: FileId) -> bool {
    (file.creator.0 as usize) < limits::NODES_MAX && file.serial < FILE_SERIALS
}

pub(crate) fn are_extents(extents: &[WrittenExtent]) -> bool {
    extents.len() <= COMMIT_EXTENTS_MAX && extents.iter().all(WrittenExtent::is_within_limits)
}
