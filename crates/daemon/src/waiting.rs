//! What is remembered of a kernel request until its answer is known.

use forebay_fuse::Reply;
use forebay_node::InodeId;
use forebay_types::{Extent, Time};

/// A request that waits for its answer.
pub(super) struct Parked {
    /// By which it is answered.
    pub reply: Reply,
    /// When it is answered whatever happens.
    pub deadline: Time,
    /// What is needed to answer it, beside the answer.
    pub about: About,
}

/// What a waiting request is about.
#[derive(Clone, Copy, Debug)]
pub(super) enum About {
    /// A directory's entries from here on.
    Directory(Position),
    /// Bytes of a file; asked for again when they get lost on their way.
    Read(InodeId, Extent),
    /// Anything else.
    Other,
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
