//! The times of many requests of one kind, as nodes send them and `status --json` shows them.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

use crate::histogram::{Histogram, bucket_end_ns};

/// Percentiles are the ends of the buckets that have them, so at most 6.25 % too high, and never above the longest time.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Latency {
    /// How many requests.
    pub count: u64,
    /// The middle one, microseconds.
    pub p50_us: u64,
    /// Nine of ten are faster.
    pub p90_us: u64,
    /// 99 of a hundred are faster.
    pub p99_us: u64,
    /// The longest.
    pub max_us: u64,
    /// All together.
    pub sum_us: u64,
    /// Counts by bucket, those that are not empty, in order (`bucket_end_ns`).
    pub buckets: Vec<(u16, u64)>,
}

impl Latency {
    /// Of these buckets.
    #[must_use]
    pub fn new(buckets: Vec<(u16, u64)>, sum_ns: u64, max_ns: u64) -> Self {
        let mut latency = Self { buckets, sum_us: sum_ns / 1000, max_us: max_ns.div_ceil(1000), ..Self::default() };
        latency.find_percentiles();
        latency
    }

    /// The contents of a histogram by now.
    #[must_use]
    pub fn of(histogram: &Histogram) -> Self {
        Self::new(histogram.buckets(), histogram.sum_ns(), histogram.max_ns())
    }

    /// How many took less than so long, as far as the buckets tell: those of a bucket that ends later do not count.
    #[must_use]
    pub fn count_below(&self, ns: u64) -> u64 {
        self.buckets
            .iter()
            .take_while(|(bucket, _)| bucket_end_ns(*bucket) <= ns)
            .fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    fn find_percentiles(&mut self) {
        self.count = self.buckets.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count));
        [self.p50_us, self.p90_us, self.p99_us] = [50, 90, 99].map(|percent| self.percentile_us(percent));
    }

    fn percentile_us(&self, percent: u64) -> u64 {
        let rank = (u128::from(self.count) * u128::from(percent)).div_ceil(100);
        let mut below = 0;
        let found = self.buckets.iter().find(|(_, count)| {
            below += u128::from(*count);
            below >= rank
        });
        found.map_or(0, |(bucket, _)| (bucket_end_ns(*bucket) / 1000).min(self.max_us))
    }
}

impl AddAssign<&Self> for Latency {
    fn add_assign(&mut self, other: &Self) {
        let mut buckets: BTreeMap<u16, u64> = self.buckets.drain(..).collect();
        for (bucket, count) in &other.buckets {
            let sum = buckets.entry(*bucket).or_default();
            *sum = sum.saturating_add(*count);
        }
        self.buckets = buckets.into_iter().collect();
        self.sum_us = self.sum_us.saturating_add(other.sum_us);
        self.max_us = self.max_us.max(other.max_us);
        self.find_percentiles();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn of(times_us: &[u64]) -> Latency {
        let histogram = Histogram::default();
        times_us.iter().for_each(|us| histogram.record(Duration::from_micros(*us)));
        Latency::of(&histogram)
    }

    proptest! {
        /// The percentiles of a sum are those of all times together, which no mean of percentiles is.
        #[test]
        fn sums_are_as_if_one_histogram_had_all(
            first in proptest::collection::vec(0u64..10_000_000, 0..50),
            second in proptest::collection::vec(0u64..10_000, 0..50),
        ) {
            let mut sum = of(&first);
            sum += &of(&second);
            let all = [first, second].concat();
            prop_assert_eq!(&sum, &of(&all));
            let mut sorted = all;
            sorted.sort_unstable();
            if let Some(index) = (sorted.len() * 99).div_ceil(100).checked_sub(1) {
                let truth = sorted[index];
                prop_assert!(sum.p99_us + 1 >= truth && sum.p99_us <= truth + truth / 16 + 3, "{} {}", sum.p99_us, truth);
            }
        }
    }

    #[test]
    fn it_travels_as_text() {
        let latency = of(&[1, 1, 300, 5_000_000]);
        let text = serde_json::to_string(&latency).unwrap();
        assert_eq!(serde_json::from_str::<Latency>(&text).unwrap(), latency);
        assert_eq!((latency.count, latency.max_us, latency.sum_us), (4, 5_000_000, 5_000_302));
    }
}
