//! Sizes of a file system: the same at the backing file system, on the network and for the kernel.

use serde::{Deserialize, Serialize};

/// Sizes of a file system, as `statfs(2)` tells them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct FileSystem {
    /// Total, units of `fragment_bytes`.
    pub blocks: u64,
    /// Free.
    pub blocks_free: u64,
    /// Free for users.
    pub blocks_available: u64,
    /// Inodes.
    pub files: u64,
    /// Inodes free.
    pub files_free: u64,
    /// Preferred I/O size, bytes.
    pub block_bytes: u32,
    /// The unit of `blocks`, bytes.
    pub fragment_bytes: u32,
    /// Longest name, bytes.
    pub name_bytes_max: u32,
}
