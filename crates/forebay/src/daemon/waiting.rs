//! What is remembered of a kernel request until its answer is known.

use forebay_fuse::Reply;
use forebay_node::InodeId;

/// A request that waits for its answer.
pub(super) struct Parked {
    /// By which it is answered.
    pub reply: Reply,
    /// Where a reader of a directory stands.
    pub position: Option<Position>,
}

/// Where a reader of a directory stands and what it takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Position {
    /// The directory.
    pub inode: InodeId,
    /// Behind which entry to go on.
    pub offset: u64,
    /// Bytes the answer may have.
    pub size: u32,
    /// With attributes.
    pub plus: bool,
}
