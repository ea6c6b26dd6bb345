//! A chunk as a node has it: a handle of its bytes, and how much of it the kernel has read.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use forebay_cache::Key;

/// A chunk that is kept or filling. All clones count together.
#[derive(Clone, Debug)]
pub(crate) struct Chunk<B> {
    pub body: B,
    pub bytes: u64,
    /// Whether this node has read it from the backing file system for others, as a home or root, or in its place.
    pub is_for_others: bool,
    /// Bytes that the kernel has read of it.
    taken_bytes: Arc<AtomicU64>,
}

impl<B> Chunk<B> {
    pub fn new(body: B, bytes: usize, is_for_others: bool) -> Self {
        Self { body, bytes: bytes as u64, is_for_others, taken_bytes: Arc::default() }
    }

    /// Whether the kernel has read as much as there is.
    pub fn is_taken(&self) -> bool {
        self.taken_bytes.load(Ordering::Relaxed) >= self.bytes
    }

    /// Counts bytes that the kernel reads. Counted under the caller's lock, so relaxed is enough.
    pub fn take(&self, bytes: usize) {
        self.taken_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// Bytes that a chunk has by the size of its file.
pub(crate) fn chunk_bytes_of(key: &Key) -> usize {
    match key {
        Key::Chunk { generation, index, .. } => forebay_types::chunk_bytes(generation.size_bytes, *index),
        _ => 0,
    }
}
