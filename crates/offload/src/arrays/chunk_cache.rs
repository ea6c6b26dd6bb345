//! Chunks that were unpacked, for readers that come to the same one soon: blocks end within chunks, and threads read blocks side by side.
//!
//! A thread that wants a chunk while another unpacks it waits for it. Those that were unpacked first leave first, since readers go on.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of chunks that are kept: those that threads read at once, as a data set is cut. One is kept whatever it has.
const BYTES_MAX: usize = 32 << 20;

/// Chunks that are kept. Smaller ones than would fill the bytes are unpacked as fast as they are found.
const CHUNKS_MAX: usize = 1024;

/// The bytes of a chunk; None if it was never written.
pub type Bytes = Option<Arc<Vec<u8>>>;

/// A chunk: its file, and its number in the file.
pub type Key = (String, u64);

/// The number of a chunk that is a file.
pub const WHOLE: u64 = u64::MAX;

/// Chunks that are kept.
#[derive(Default)]
pub struct ChunkCache(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    slots: BTreeMap<Key, Slot>,
    order: VecDeque<Key>,
    bytes: usize,
}

#[derive(Default)]
struct Slot {
    /// None until it is unpacked.
    chunk: Arc<Mutex<Option<Bytes>>>,
    bytes: usize,
}

impl ChunkCache {
    /// A chunk, which `unpack` makes if it is not kept.
    ///
    /// # Errors
    /// Those of `unpack`: then the next reader tries.
    pub fn get(&self, key: &Key, unpack: impl FnOnce() -> anyhow::Result<Bytes>) -> anyhow::Result<Bytes> {
        let slot = self.slot(key);
        let mut chunk = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bytes) = &*chunk {
            return Ok(bytes.clone());
        }
        let bytes = unpack()?;
        *chunk = Some(bytes.clone());
        drop(chunk);
        self.keep(key, bytes.as_ref().map_or(0, |bytes| bytes.len()));
        Ok(bytes)
    }

    fn slot(&self, key: &Key) -> Arc<Mutex<Option<Bytes>>> {
        let mut kept = self.lock();
        if let Some(slot) = kept.slots.get(key) {
            return Arc::clone(&slot.chunk);
        }
        let slot = Slot::default();
        let chunk = Arc::clone(&slot.chunk);
        kept.slots.insert(key.clone(), slot);
        kept.order.push_back(key.clone());
        chunk
    }

    /// Counts a chunk's bytes, and forgets the oldest ones while there are too many.
    fn keep(&self, key: &Key, bytes: usize) {
        let mut kept = self.lock();
        let Kept { slots, order, bytes: all } = &mut *kept;
        if let Some(slot) = slots.get_mut(key) {
            *all += bytes - slot.bytes.min(bytes);
            slot.bytes = bytes;
        }
        while (*all > BYTES_MAX || order.len() > CHUNKS_MAX) && order.len() > 1 {
            let oldest = order.pop_front().and_then(|oldest| slots.remove(&oldest));
            *all -= oldest.map_or(0, |oldest| oldest.bytes);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a broken assumption of a test fails the test")]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_unpacked_once_while_there_is_room() {
        let cache = ChunkCache::default();
        let get = |number: u64, bytes: usize| {
            let mut was_unpacked = false;
            let chunk = cache.get(&("x".to_owned(), number), || {
                was_unpacked = true;
                Ok(Some(Arc::new(vec![number as u8; bytes])))
            });
            assert_eq!(chunk.unwrap().unwrap()[0], number as u8);
            was_unpacked
        };
        let third = BYTES_MAX / 3;
        assert_eq!([0, 1, 2, 0, 1, 2].map(|number| get(number, third)), [true, true, true, false, false, false]);
        // The first leaves for the fourth. One that is too large for all stays alone.
        assert_eq!([3, 1, 2, 3, 0].map(|number| get(number, third)), [true, false, false, false, true]);
        assert_eq!([9, 9].map(|number| get(number, 2 * BYTES_MAX)), [true, false]);
        assert!(get(3, third));
        for number in 10..2 * CHUNKS_MAX as u64 {
            assert!(get(number, 1));
        }
        assert!(cache.lock().slots.len() <= CHUNKS_MAX && cache.lock().order.len() <= CHUNKS_MAX);
    }

    #[test]
    fn a_chunk_that_failed_is_tried_again_and_one_that_is_not_there_is_known() {
        let (cache, key) = (ChunkCache::default(), ("x".to_owned(), WHOLE));
        assert!(cache.get(&key, || anyhow::bail!("no")).is_err());
        assert!(cache.get(&key, || Ok(None)).unwrap().is_none());
        assert!(cache.get(&key, || anyhow::bail!("no")).unwrap().is_none());
    }
}
