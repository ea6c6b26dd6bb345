//! Buffers of one piece each, used again and again.
//!
//! A small body gets a buffer of its own size from the allocator; one above a quarter of a piece gets a whole piece
//! from the pool, so that a budget counted in body bytes is off by a factor of four at most, and by 1 % for real files.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use forebay_types::PIECE_BYTES;

/// Hands out buffers and takes them back. Cloning shares the pool.
#[derive(Clone)]
pub struct Pool {
    free: Arc<Mutex<Vec<Box<[u8]>>>>,
    kept_max: usize,
}

impl Pool {
    /// A pool that keeps at most `kept_max` free pieces of `PIECE_BYTES` for later use.
    #[must_use]
    pub fn new(kept_max: usize) -> Self {
        Self { free: Arc::default(), kept_max }
    }

    /// A buffer of `len_bytes`, `PIECE_BYTES` at most. Its contents are unspecified (zero or of an earlier use).
    ///
    /// # Panics
    /// When more than `PIECE_BYTES` are asked for.
    #[must_use]
    pub fn take(&self, len_bytes: usize) -> PooledBuffer {
        assert!(len_bytes <= PIECE_BYTES, "{len_bytes} bytes asked of a pool of {PIECE_BYTES}");
        if len_bytes <= PIECE_BYTES / 4 {
            return PooledBuffer { memory: vec![0; len_bytes].into(), len_bytes, pool: None };
        }
        let kept = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let memory = kept.unwrap_or_else(|| vec![0; PIECE_BYTES].into());
        PooledBuffer { memory, len_bytes, pool: Some(self.clone()) }
    }

    fn put(&self, memory: Box<[u8]>) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() < self.kept_max {
            free.push(memory);
        }
    }
}

/// A buffer that goes back to its pool when the last `Bytes` made of it is dropped.
pub struct PooledBuffer {
    memory: Box<[u8]>,
    len_bytes: usize,
    pool: Option<Pool>,
}

impl PooledBuffer {
    /// Keeps the first `len_bytes` and shares them.
    #[must_use]
    pub fn freeze(mut self, len_bytes: usize) -> Bytes {
        self.len_bytes = self.len_bytes.min(len_bytes);
        Bytes::from_owner(self)
    }
}

impl Deref for PooledBuffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.memory[..self.len_bytes]
    }
}

impl DerefMut for PooledBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[..self.len_bytes]
    }
}

impl AsRef<[u8]> for PooledBuffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Drop for PooledBuffer {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.take() {
            pool.put(std::mem::take(&mut self.memory));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_when_the_last_share_is_dropped() {
        let pool = Pool::new(1);
        let mut buffer = pool.take(PIECE_BYTES);
        buffer[0] = 7;
        let bytes = buffer.freeze(1);
        let share = bytes.slice(0..1);
        drop(bytes);
        assert_eq!(pool.free.lock().unwrap().len(), 0);
        assert_eq!(&share[..], [7]);
        drop(share);
        assert_eq!(pool.free.lock().unwrap().len(), 1);
        drop((pool.take(PIECE_BYTES), pool.take(PIECE_BYTES)));
        assert_eq!(pool.free.lock().unwrap().len(), 1, "keeps no more than its limit");
    }

    #[test]
    fn small_buffers_take_their_own_size() {
        assert_eq!(Pool::new(1).take(100).memory.len(), 100);
    }
}
