//! How the kernel and a node call an inode.

/// An inode's number in this view (FUSE's node id, not `st_ino`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct InodeId(pub u64);

/// The view's root directory (`FUSE_ROOT_ID`).
pub const ROOT_INODE: InodeId = InodeId(1);
