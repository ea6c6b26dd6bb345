//! How far nodes have come with making parcels and taking them apart. `builder` and `filling` do it.

use std::collections::{BTreeSet, VecDeque};

use forebay_prefetch::listings_at_once;
use forebay_read::AttemptId;

use super::files::PathIndex;

/// Memory for caches at each node: more than a start-up needs, and tables of the least size.
pub(super) const BUDGET_BYTES: u64 = 256 << 20;

/// Of it, so much is for what is read of the pack ahead, as the daemon has it.
const AHEAD_BYTES: u64 = BUDGET_BYTES / 4;

/// Parts of the pack that a node reads at once, as the daemon does.
const PACK_READERS: usize = 2;

/// Parcels that have come and are still to be taken apart.
#[derive(Default)]
pub(super) struct FillingKernel {
    pub waiting: VecDeque<u32>,
    pub is_busy: bool,
}

/// A reader's work to make parcels.
pub(super) struct Builder {
    /// Parts of the pack that are still to be read ahead, and those that are being read.
    pub ahead: VecDeque<u32>,
    pub reading: BTreeSet<u32>,
    /// Those that are here, and their bytes.
    pub here: BTreeSet<u32>,
    pub here_bytes: u64,
    /// Parts that a parcel waits for before their turn.
    pub wanted: VecDeque<u32>,
    /// Directories that are still to be listed.
    pub unlisted: VecDeque<PathIndex>,
    pub listing: usize,
    /// Those that were asked for, and those that are here.
    pub asked: BTreeSet<PathIndex>,
    pub listed: BTreeSet<PathIndex>,
    /// Parcels that were asked for.
    pub waiting: Vec<(AttemptId, u32)>,
    pub readers: usize,
}

impl Builder {
    /// Whether parts of the pack are still read ahead.
    fn is_reading_ahead(&self) -> bool {
        !self.reading.is_empty() || (!self.ahead.is_empty() && self.has_room())
    }

    fn has_room(&self) -> bool {
        self.here_bytes < AHEAD_BYTES
    }

    /// The next part of the pack to read, if there is leave.
    pub fn next_part(&mut self) -> Option<u32> {
        if self.reading.len() >= PACK_READERS {
            return None;
        }
        let next = self.wanted.pop_front().or_else(|| if self.has_room() { self.ahead.pop_front() } else { None })?;
        self.ahead.retain(|part| *part != next);
        self.reading.insert(next);
        Some(next)
    }

    /// The next directory to list, if there is leave.
    pub fn next_directory(&mut self) -> Option<PathIndex> {
        if self.listing >= listings_at_once(self.readers, self.is_reading_ahead()) {
            return None;
        }
        self.unlisted.pop_front().inspect(|_| self.listing += 1)
    }
}
