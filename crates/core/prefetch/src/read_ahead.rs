//! Which chunks to ask for before a program does.
//!
//! Only a file that is read in order gets any: as far ahead as a quarter of what was read so, so that a program which
//! reads the beginnings of many files costs the backing file system nothing it did not ask for.

use std::ops::Range;

use forebay_types::{CHUNK_BYTES, limits};

/// How one file is being read.
#[derive(Clone, Copy, Default, Debug)]
pub struct ReadAhead {
    /// Chunks that are read in order: the first, and the one behind the latest; none before the first read.
    first: u64,
    end: u64,
    /// Chunks below this were asked for.
    asked: u64,
}

impl ReadAhead {
    /// Takes note of a read of a file of `size_bytes` that ends at `end_bytes`; the chunks to ask for now.
    pub fn on_read(&mut self, end_bytes: u64, size_bytes: u64) -> Range<u64> {
        let end = end_bytes.div_ceil(CHUNK_BYTES);
        if end != self.end && (end != self.end + 1 || self.end == 0) {
            *self = Self { first: end.saturating_sub(1), end, asked: end };
        }
        self.end = end;
        if end <= self.first + 1 {
            return 0..0;
        }
        let in_order_bytes = end_bytes - self.first * CHUNK_BYTES;
        let ahead_bytes = (in_order_bytes / 4).clamp(CHUNK_BYTES / 2, limits::READ_AHEAD_CHUNKS * CHUNK_BYTES);
        let to = end_bytes.saturating_add(ahead_bytes).min(size_bytes).div_ceil(CHUNK_BYTES);
        let from = self.asked.max(end);
        self.asked = from.max(to);
        from..self.asked
    }

    /// The chunks from this one on are not asked for now, but with the next read.
    pub fn put_off(&mut self, index: u64) {
        self.asked = self.asked.min(index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All that is asked for while a file is read in pieces of `piece_bytes`, from `chunks`' first to its end.
    fn asked(size_bytes: u64, chunks: Range<u64>, piece_bytes: u64) -> Vec<u64> {
        let mut state = ReadAhead::default();
        let pieces = chunks.start * CHUNK_BYTES / piece_bytes..(chunks.end * CHUNK_BYTES).div_ceil(piece_bytes);
        pieces.flat_map(|piece| state.on_read(((piece + 1) * piece_bytes).min(size_bytes), size_bytes)).collect()
    }

    #[test]
    fn a_file_read_in_order_is_asked_for_once_and_whole() {
        let size_bytes = 100 * CHUNK_BYTES + 1;
        for piece_bytes in [128 << 10, CHUNK_BYTES] {
            assert_eq!(asked(size_bytes, 0..101, piece_bytes), (2..101).collect::<Vec<_>>());
        }
    }

    #[test]
    fn it_begins_in_the_middle_of_the_second_chunk() {
        let mut state = ReadAhead::default();
        let eighths = |state: &mut ReadAhead, end| state.on_read(end * CHUNK_BYTES / 8, 10 * CHUNK_BYTES);
        for end in 1..=12 {
            assert!(eighths(&mut state, end).is_empty(), "{end} eighths of a chunk read");
        }
        assert_eq!(eighths(&mut state, 13), 2..3);
    }

    #[test]
    fn it_grows_with_proof_and_has_a_limit() {
        let mut state = ReadAhead::default();
        let ahead = |state: &mut ReadAhead, end: u64| {
            state.on_read(end * CHUNK_BYTES, u64::MAX / 2);
            state.asked - end
        };
        let windows: Vec<u64> = (1..81).map(|end| ahead(&mut state, end)).collect();
        assert_eq!(windows[..10], [0, 1, 1, 1, 2, 2, 2, 2, 3, 3]);
        assert_eq!(windows[78..], [16, 16]);
    }

    #[test]
    fn deferred_prefetches_go_with_the_next_read() {
        let mut state = ReadAhead::default();
        let ahead: Vec<Range<u64>> = (1..=8).map(|end| state.on_read(end * CHUNK_BYTES, u64::MAX / 2)).collect();
        assert_eq!(ahead[7], 9..10);
        state.put_off(9);
        assert_eq!(state.on_read(9 * CHUNK_BYTES, u64::MAX / 2), 9..12);
    }

    #[test]
    fn reads_out_of_order_ask_for_nothing() {
        let mut state = ReadAhead::default();
        for end in [5, 3, 9, 1, 4, 7] {
            assert!(state.on_read(end * CHUNK_BYTES, u64::MAX / 2).is_empty());
        }
    }

    #[test]
    fn a_second_run_in_another_place_counts_for_itself() {
        assert_eq!(asked(100 * CHUNK_BYTES, 50..52, CHUNK_BYTES), [52]);
    }
}
