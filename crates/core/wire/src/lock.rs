//! Locks of ranges of files, as nodes ask for them.

use forebay_types::NodeRank;
use serde::{Deserialize, Serialize};

/// A lock that is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct LockRequest {
    /// The owner, as the asking node's kernel names it: a process for `fcntl`, an open file for `flock`.
    pub owner: u64,
    /// First byte.
    pub start: u64,
    /// Last byte.
    pub end: u64,
    /// Which; `None` gives back.
    pub kind: Option<LockKind>,
    /// The process, to be told to others.
    pub pid: u32,
    /// Whether by `flock`.
    pub is_flock: bool,
    /// Through which open, as the asking node numbers them; 0 for none. A lock of an open file description (`F_OFD_SETLK`) ends with it.
    pub handle: u64,
}

/// Kinds of locks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum LockKind {
    /// Others may have it too.
    Shared,
    /// No other owner has any.
    Exclusive,
}

/// A lock that is held.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HeldLock {
    /// On which node.
    pub node: NodeRank,
    /// The owner, as in the request.
    pub owner: u64,
    /// First byte.
    pub start: u64,
    /// Last byte.
    pub end: u64,
    /// Which.
    pub kind: LockKind,
    /// The process.
    pub pid: u32,
    /// Through which open.
    pub handle: u64,
}
