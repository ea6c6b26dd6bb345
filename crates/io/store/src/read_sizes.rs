//! In which sizes files are read.
//!
//! A read of a network file system is a round trip, so a chunk is read at once. Where the file system names a larger size, as Lustre does
//! with its stripes, the kernel is told of the rest of the block that the chunk lies in: the next chunks of a row are read there.

use std::ops::Range;

use forebay_types::{CHUNK_BYTES, ChunkIndex, PIECE_BYTES};

use crate::limits::{READ_BYTES_MAX, READ_BYTES_MIN};

/// The size that a site gives, if it gives one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadSizes {
    given: Option<u64>,
}

impl ReadSizes {
    /// With the size that a site gives, bytes; else what the file system tells counts.
    pub(crate) fn new(given: Option<u64>) -> Self {
        Self { given: given.map(|bytes| bytes.clamp(READ_BYTES_MIN, READ_BYTES_MAX)) }
    }

    /// Bytes of a chunk that are read at once: whole pieces.
    pub(crate) fn read_bytes(self) -> usize {
        let bytes = self.given.unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES) as usize;
        bytes.next_multiple_of(PIECE_BYTES)
    }

    /// The bytes of a file that follow chunk `index` in its block: none unless blocks are larger than chunks. `told_bytes` is the size
    /// that the file system tells.
    pub(crate) fn rest_of_block(self, index: ChunkIndex, size_bytes: u64, told_bytes: u64) -> Range<u64> {
        let block = self.given.unwrap_or(told_bytes.min(READ_BYTES_MAX)).max(CHUNK_BYTES);
        let (start, end) = (index.start_bytes(), index.start_bytes().saturating_add(CHUNK_BYTES));
        let block_end = (start / block).saturating_add(1).saturating_mul(block).min(size_bytes);
        end..block_end.max(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_chunk_is_read_at_once_unless_a_site_knows_better() {
        assert_eq!(ReadSizes::new(None).read_bytes(), 1 << 20);
        assert_eq!(ReadSizes::new(Some(4 * MIB)).read_bytes(), 1 << 20);
        assert_eq!(ReadSizes::new(Some(300 << 10)).read_bytes(), 384 << 10, "whole pieces");
        assert_eq!(ReadSizes::new(Some(1)).read_bytes(), PIECE_BYTES);
    }

    #[test]
    fn the_rest_of_a_larger_block_follows() {
        let rest = |given, index, told| {
            let range = ReadSizes::new(given).rest_of_block(ChunkIndex(index), 10 * MIB + 5, told);
            (range.start / MIB, range.end - range.start)
        };
        assert_eq!(rest(None, 0, 4096), (1, 0));
        assert_eq!(rest(None, 0, 4 * MIB), (1, 3 * MIB), "stripes of 4 MiB");
        assert_eq!(rest(None, 2, 4 * MIB), (3, MIB));
        assert_eq!(rest(None, 3, 4 * MIB), (4, 0), "the last one of its block");
        assert_eq!(rest(None, 0, 64 * MIB), (1, 3 * MIB), "no more than the limit");
        assert_eq!(rest(None, 8, 4 * MIB), (9, MIB + 5), "the file ends");
        assert_eq!(rest(Some(2 * MIB), 0, 4 * MIB), (1, MIB));
        assert_eq!(rest(Some(MIB), 0, 4 * MIB), (1, 0));
        let past_the_end = ReadSizes::new(None).rest_of_block(ChunkIndex(u64::MAX), 5, 4 * MIB);
        assert!(past_the_end.is_empty());
    }
}
