//! How files are cut: chunks are cached and asked for, pieces travel.

use serde::{Deserialize, Serialize};

/// The cache's fixed-size unit of a file, bytes. 1 MiB is the largest request a Linux FUSE mount can make
/// (256 pages), so one kernel read never needs more than two chunks.
pub const CHUNK_BYTES: u64 = 1 << 20;

/// The unit in which a body travels and is forwarded, bytes. 128 KiB is the kernel's read-ahead window for an
/// unprivileged mount, so a piece answers one kernel read; 64 to 256 KiB measured alike when forwarded.
pub const PIECE_BYTES: usize = 128 << 10;

/// The number of a chunk in its file, counted from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ChunkIndex(pub u64);

impl ChunkIndex {
    /// The chunk that holds byte `offset_bytes`.
    #[must_use]
    pub fn of(offset_bytes: u64) -> Self {
        Self(offset_bytes / CHUNK_BYTES)
    }

    /// Where the chunk begins in its file, bytes.
    #[must_use]
    pub fn start_bytes(self) -> u64 {
        self.0.saturating_mul(CHUNK_BYTES)
    }
}

/// Bytes that chunk `index` holds in a file of `size_bytes`: `CHUNK_BYTES`, less for the last, 0 past the end.
#[must_use]
pub fn chunk_bytes(size_bytes: u64, index: ChunkIndex) -> usize {
    let left = size_bytes.saturating_sub(index.start_bytes());
    left.min(CHUNK_BYTES) as usize
}

/// A range of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Extent {
    /// First byte.
    pub offset_bytes: u64,
    /// Number of bytes.
    pub len_bytes: u64,
}

impl Extent {
    /// The byte after the last; saturates.
    #[must_use]
    pub fn end_bytes(self) -> u64 {
        self.offset_bytes.saturating_add(self.len_bytes)
    }

    /// The part that lies below `size_bytes`; empty when none does.
    #[must_use]
    pub fn clamped(self, size_bytes: u64) -> Self {
        let offset_bytes = self.offset_bytes.min(size_bytes);
        Self { offset_bytes, len_bytes: self.end_bytes().min(size_bytes) - offset_bytes }
    }

    /// The extent cut at chunk borders: for each chunk its index and the extent within that chunk.
    pub fn chunks(self) -> impl Iterator<Item = (ChunkIndex, Extent)> {
        let end = self.end_bytes();
        let mut at = self.offset_bytes;
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let index = ChunkIndex::of(at);
            let within = at - index.start_bytes();
            let len = (end - at).min(CHUNK_BYTES - within);
            at += len;
            Some((index, Extent { offset_bytes: within, len_bytes: len }))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn chunks_cover_the_extent_without_gap(offset in 0u64..10 * CHUNK_BYTES, len in 0u64..4 * CHUNK_BYTES) {
            let extent = Extent { offset_bytes: offset, len_bytes: len };
            let mut at = offset;
            for (index, part) in extent.chunks() {
                prop_assert_eq!(index.start_bytes() + part.offset_bytes, at);
                prop_assert!(part.len_bytes > 0 && part.end_bytes() <= CHUNK_BYTES);
                at += part.len_bytes;
            }
            prop_assert_eq!(at, offset + len);
        }
    }

    #[test]
    fn the_last_chunk_is_short_and_the_next_is_empty() {
        assert_eq!(chunk_bytes(CHUNK_BYTES + 5, ChunkIndex(1)), 5);
        assert_eq!(chunk_bytes(CHUNK_BYTES + 5, ChunkIndex(2)), 0);
        assert_eq!(chunk_bytes(u64::MAX, ChunkIndex(u64::MAX)), 0);
    }

    #[test]
    fn an_extent_past_the_end_clamps_to_nothing() {
        let extent = Extent { offset_bytes: 10, len_bytes: u64::MAX };
        assert_eq!(extent.clamped(5).len_bytes, 0);
        assert_eq!(extent.clamped(12), Extent { offset_bytes: 10, len_bytes: 2 });
    }
}
