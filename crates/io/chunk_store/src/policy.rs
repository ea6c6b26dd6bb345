//! Admission to a full store, which keeps a stable part of what is read in epochs.
//!
//! Training reads a set once an epoch, in another order each time. Where the set is larger than the store, the chunk that was
//! used longest ago is the next to be needed, and a store that replaces it has nothing that is asked for. So a full store keeps
//! what it has, and admits a chunk only in place of one that has not been asked for during the horizon: a quarter longer than the
//! longest time between two uses of any chunk. Another set takes over when the old one has not been used for that long.
//!
//! Time is counted in bytes asked of the store, by all its jobs, and lies in the index: it goes on where the last daemon ended.

/// The horizon in capacities, as long as nothing longer is known: a set of the store's own size in random order has chunks unused for
/// twice the capacity.
const HORIZON_CAPACITIES: u64 = 2;

/// One byte of each so many asked is taken from the longest reuse distance: a job that used larger sets is forgotten after it was
/// unused for this many times as long.
const DECAY: u64 = 8;

/// The time of a store, and how far apart uses of a chunk have been in it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Reuse {
    /// Bytes asked of the store so far.
    pub clock_bytes: u64,
    /// The longest reuse distance that was seen, bytes, as it was at `longest_at_bytes`.
    pub longest_bytes: u64,
    /// The time then.
    pub longest_at_bytes: u64,
}

impl Reuse {
    /// So many bytes more were asked for.
    pub fn advance(&mut self, bytes: u64) {
        self.clock_bytes = self.clock_bytes.saturating_add(bytes);
    }

    /// A chunk was asked for again after so many bytes.
    pub fn observe(&mut self, distance_bytes: u64) {
        if distance_bytes > self.longest_now() {
            (self.longest_bytes, self.longest_at_bytes) = (distance_bytes, self.clock_bytes);
        }
    }

    /// The longest reuse distance, less what has decayed since it was seen.
    pub fn longest_now(&self) -> u64 {
        let since = self.clock_bytes.saturating_sub(self.longest_at_bytes);
        self.longest_bytes.saturating_sub(since / DECAY)
    }

    /// How long a chunk must be unused, bytes asked, to be replaced in a store of this capacity.
    pub fn horizon_bytes(&self, capacity_bytes: u64) -> u64 {
        let longest = self.longest_now();
        (longest.saturating_add(longest / 4)).max(capacity_bytes.saturating_mul(HORIZON_CAPACITIES))
    }

    /// Learns from another process: the longer distance counts.
    pub fn learn(&mut self, other: &Self) {
        if other.longest_now() > self.longest_now() {
            (self.longest_bytes, self.longest_at_bytes) = (other.longest_bytes, other.longest_at_bytes);
        }
    }
}

#[cfg(test)]
mod tests;
