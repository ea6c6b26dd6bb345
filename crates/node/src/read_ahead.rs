//! Which chunks to ask for before a program does.
//!
//! Only a file that is read in order gets any, and the window grows with the chunks that proved the order, so that a
//! program which reads the head of many files costs the backing file system nothing it did not ask for.

use std::ops::Range;

use forebay_types::{CHUNK_BYTES, ChunkIndex, limits};

/// How one file is being read.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct ReadAhead {
    /// The chunk of the latest read, plus one; 0 before the first.
    last: u64,
    window: u64,
    /// Chunks below this were asked for.
    asked: u64,
}

impl ReadAhead {
    /// Takes note of a read that ends in chunk `index` of a file of `size_bytes`; the chunks to ask for now.
    pub fn on_read(&mut self, index: ChunkIndex, size_bytes: u64) -> Range<u64> {
        let at = index.0 + 1;
        let previous = std::mem::replace(&mut self.last, at);
        if at == previous {
            return 0..0;
        }
        if at != previous + 1 {
            (self.window, self.asked) = (0, 0);
            return 0..0;
        }
        if index.0 == 0 {
            return 0..0;
        }
        self.window = (index.0 / 4).clamp(1, limits::READ_AHEAD_CHUNKS);
        let from = at.max(self.asked);
        let to = (at + self.window).min(size_bytes.div_ceil(CHUNK_BYTES));
        self.asked = self.asked.max(to);
        from..to.max(from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_read_in_order_is_asked_for_once_and_whole() {
        let size = 100 * CHUNK_BYTES + 1;
        let mut state = ReadAhead::default();
        let mut asked = Vec::new();
        for index in 0..101 {
            asked.extend(state.on_read(ChunkIndex(index), size));
            asked.extend(state.on_read(ChunkIndex(index), size));
        }
        assert_eq!(asked, (2..101).collect::<Vec<_>>());
    }

    #[test]
    fn the_window_grows_with_proof_and_has_a_limit() {
        let mut state = ReadAhead::default();
        let ahead =
            |state: &mut ReadAhead, index| state.on_read(ChunkIndex(index), u64::MAX).end.saturating_sub(index + 1);
        let windows: Vec<u64> = (0..40).map(|index| ahead(&mut state, index)).collect();
        assert_eq!(windows[..10], [0, 1, 1, 1, 1, 1, 1, 1, 2, 2]);
        assert_eq!(windows[38..], [8, 8]);
    }

    #[test]
    fn reads_out_of_order_ask_for_nothing() {
        let mut state = ReadAhead::default();
        for index in [5, 3, 9, 1, 0, 7] {
            assert!(state.on_read(ChunkIndex(index), u64::MAX).is_empty());
        }
    }
}
