//! How much a process holds of what it was asked for.
//!
//! Bodies are held by caches, by answers on their way and by who fills them: none of these could tell what all of them take
//! together.

use std::sync::atomic::{AtomicU64, Ordering};

static TOTAL: AtomicU64 = AtomicU64::new(0);

/// Bytes that count as held until this is dropped.
#[derive(Debug)]
pub struct LiveBytes(u64);

impl LiveBytes {
    /// So many bytes more.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        TOTAL.fetch_add(bytes as u64, Ordering::Relaxed);
        Self(bytes as u64)
    }

    /// Bytes that all bodies of this process have or will have, and what else counts.
    #[must_use]
    pub fn total() -> u64 {
        TOTAL.load(Ordering::Relaxed)
    }
}

impl Drop for LiveBytes {
    fn drop(&mut self) {
        TOTAL.fetch_sub(self.0, Ordering::Relaxed);
    }
}
