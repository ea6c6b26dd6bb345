//! A program, as far as it has come, and what the kernel below it knows.

use std::collections::BTreeSet;

use forebay_read::{InodeId, Part, ROOT_INODE};

use super::bodies::Handle;
use super::files::PathIndex;
use super::servers::Nanos;

/// The inode that no path has.
pub(super) const NONE: u32 = 0;

/// A program.
pub(super) struct Program {
    /// Steps that are done.
    pub done: usize,
    /// The inode of each path, as the kernel knows it.
    pub inodes: Vec<u32>,
    /// A read whose bytes are not all there.
    pub waits: Option<Vec<Part<Handle>>>,
    /// The parcels that are in its kernel's caches.
    pub parcels: BTreeSet<u32>,
    /// When its last request was made.
    pub asked: Nanos,
    /// The longest that one of its requests took.
    pub longest: Nanos,
    /// When it had done all.
    pub ended: Option<Nanos>,
    /// Requests that ended with an error.
    pub failed: u64,
}

impl Program {
    pub fn new(paths: usize) -> Self {
        let mut inodes = vec![NONE; paths];
        inodes[0] = ROOT_INODE.0 as u32;
        Self { done: 0, inodes, waits: None, parcels: BTreeSet::new(), asked: 0, longest: 0, ended: None, failed: 0 }
    }

    pub fn inode(&self, path: PathIndex) -> Option<InodeId> {
        let inode = self.inodes[path as usize];
        (inode != NONE).then_some(InodeId(u64::from(inode)))
    }
}
