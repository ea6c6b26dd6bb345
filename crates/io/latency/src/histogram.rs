//! A histogram that many threads add to.
//!
//! Buckets are log-linear: 16 to each power of two, from 1 µs to 73 minutes, so that a percentile is at most 6.25 % above the true one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The parts of a power of two.
const PARTS: u64 = 16;
const PARTS_BITS: u32 = PARTS.trailing_zeros();

/// Times are counted in units of 1,024 ns: nothing that is recorded takes less.
const UNIT_BITS: u32 = 10;

/// Powers of two of a unit that are told apart; the last bucket takes what is longer.
const POWERS: u32 = 32;

/// How many buckets there are.
pub const BUCKETS: usize = PARTS as usize * (POWERS - PARTS_BITS + 1) as usize;

/// A count for each bucket, the sum and the longest. 4 KiB.
pub struct Histogram {
    counts: [AtomicU64; BUCKETS],
    sum_ns: AtomicU64,
    max_ns: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            counts: std::array::from_fn(|_| AtomicU64::new(0)),
            sum_ns: AtomicU64::new(0),
            max_ns: AtomicU64::new(0),
        }
    }
}

impl Histogram {
    /// Adds one time.
    pub fn record(&self, took: Duration) {
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.counts[bucket_of(ns)].fetch_add(1, Ordering::Relaxed);
        self.sum_ns.fetch_add(ns, Ordering::Relaxed);
        // A plain read first: the longest changes seldom.
        if ns > self.max_ns.load(Ordering::Relaxed) {
            self.max_ns.fetch_max(ns, Ordering::Relaxed);
        }
    }

    /// The counts of its buckets that are not empty, in order, by now.
    #[must_use]
    pub fn buckets(&self) -> Vec<(u16, u64)> {
        let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed)).enumerate();
        counts.filter(|(_, count)| *count > 0).map(|(bucket, count)| (bucket as u16, count)).collect()
    }

    /// All times together, ns.
    #[must_use]
    pub fn sum_ns(&self) -> u64 {
        self.sum_ns.load(Ordering::Relaxed)
    }

    /// The longest, ns.
    #[must_use]
    pub fn max_ns(&self) -> u64 {
        self.max_ns.load(Ordering::Relaxed)
    }
}

/// The bucket of a time.
fn bucket_of(ns: u64) -> usize {
    let units = ns >> UNIT_BITS;
    if units < PARTS {
        return units as usize;
    }
    let power = units.ilog2();
    if power >= POWERS {
        return BUCKETS - 1;
    }
    let part = (units >> (power - PARTS_BITS)) - PARTS;
    ((power - PARTS_BITS + 1) as u64 * PARTS + part) as usize
}

/// The end of a bucket, ns: times in it are below. Of a bucket that does not exist, that of the last.
#[must_use]
pub fn bucket_end_ns(bucket: u16) -> u64 {
    let bucket = u64::from(bucket).min(BUCKETS as u64 - 1);
    if bucket < PARTS {
        return (bucket + 1) << UNIT_BITS;
    }
    let (power, part) = (bucket / PARTS - 1, bucket % PARTS);
    ((PARTS + part + 1) << power) << UNIT_BITS
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_time_is_below_the_end_of_its_bucket_by_a_sixteenth_at_most(ns in 0u64..1 << 42) {
            let bucket = bucket_of(ns);
            let end = bucket_end_ns(bucket as u16);
            prop_assert!(ns < end);
            prop_assert!(end - ns <= (ns / PARTS).max(1 << UNIT_BITS) + (1 << UNIT_BITS));
            let begin = if bucket == 0 { 0 } else { bucket_end_ns(bucket as u16 - 1) };
            prop_assert!(begin <= ns);
        }
    }

    #[test]
    fn the_last_bucket_takes_what_is_longer() {
        assert_eq!(bucket_of((1 << 42) - 1), BUCKETS - 1);
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
        assert_eq!(bucket_end_ns(u16::MAX), 1 << 42);
    }
}
