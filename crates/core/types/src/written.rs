//! How what a job writes is named: its files, the operations on them, and where their bytes lie.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::NodeRank;

/// A file or directory below a burst mount. It stays the same when a name or a mount changes, and is never given twice
/// in a job: the node that creates it counts its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct FileId {
    /// The node that created it, or that first met it on the backing file system.
    pub creator: NodeRank,
    /// The creator's count, from 1.
    pub serial: u64,
}

impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.creator, self.serial)
    }
}

/// One change that a node asks for. Sent again, after a time-out, by another daemon of the node, to another leader, it keeps
/// its name, so that it is made once.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct OperationId {
    /// The node that asks.
    pub node: NodeRank,
    /// Of what: a mount's session with the kernel (even), or what the node's daemons commit while it lasts (odd). Operations are
    /// counted anew with each, and later sessions have higher numbers.
    pub session: u64,
    /// The operation's number in that session.
    pub serial: u64,
}

/// Where a record lies in a node's log.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct LogPosition {
    /// Number of the segment, never used again.
    pub segment: u64,
    /// Offset of the record's first byte, bytes.
    pub offset: u32,
}
