//! A histogram: bins of one width, which is a power of two.
//!
//! The width is the least with which no more than `BINS_MAX` bins reach from the least value to the greatest, and bins
//! begin at multiples of it. So it follows from the extremes alone, wider bins are made of whole narrow ones, and counts
//! are exact and the same however the values were cut.

use serde::{Deserialize, Serialize};

use crate::limits::BINS_MAX;

/// The least exponent of a width: the numbers of bins stay finite.
const LEAST_EXPONENT: i32 = -1000;

/// Bits of the number of a bin: all of them are integers that a double holds.
const NUMBER_BITS: i32 = 52;

/// Bits by which a number is shifted at most: then it is 0 or -1, as with more.
const SHIFT_MAX: u32 = 63;

/// The histogram of finite values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bins {
    min: f64,
    max: f64,
    /// The width is 2 to the power of it.
    exponent: i16,
    /// The number of the first bin: it begins at so many widths.
    first: i64,
    counts: Vec<u64>,
}

/// One bin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bin {
    /// The least value that it may have.
    pub from: f64,
    /// The least value above it.
    pub to: f64,
    /// Values in it.
    pub count: u64,
}

impl Default for Bins {
    fn default() -> Self {
        Self { min: f64::INFINITY, max: f64::NEG_INFINITY, exponent: LEAST_EXPONENT as i16, first: 0, counts: vec![] }
    }
}

/// 2 to a power that a normal double has.
fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

/// The number of the bin that has a value, for the inverse of a width.
fn number_at(value: f64, scale: f64) -> i64 {
    let scaled = value * scale;
    // Beside a wide bin, a value may be so small that the product is 0.
    if scaled == 0.0 && value < 0.0 { -1 } else { scaled.floor() as i64 }
}

fn number(value: f64, exponent: i32) -> i64 {
    number_at(value, power_of_two(-exponent))
}

/// The exponent of the width between these extremes.
fn exponent_of(min: f64, max: f64) -> i32 {
    let largest = min.abs().max(max.abs());
    let magnitude = if largest == 0.0 { LEAST_EXPONENT } else { (largest.to_bits() >> 52) as i32 - 1023 };
    let mut exponent = (magnitude - NUMBER_BITS).max(LEAST_EXPONENT);
    while number(max, exponent) - number(min, exponent) >= BINS_MAX as i64 {
        exponent += 1;
    }
    exponent
}

impl Bins {
    /// Adds values, of which those that are not finite count for nothing.
    pub fn add(&mut self, values: &[f64]) {
        let finite = || values.iter().copied().filter(|value| value.is_finite());
        let (min, max) = finite().fold((self.min, self.max), |(min, max), value| (min.min(value), max.max(value)));
        if min > max {
            return;
        }
        self.reach(min, max);
        let (scale, first) = (power_of_two(-i32::from(self.exponent)), self.first);
        for value in finite() {
            self.counts[(number_at(value, scale) - first) as usize] += 1;
        }
    }

    /// This and other values.
    pub fn merge(&mut self, other: &Self) {
        if other.counts.is_empty() {
            return;
        }
        self.reach(self.min.min(other.min), self.max.max(other.max));
        let by = u32::from(self.exponent.abs_diff(other.exponent)).min(SHIFT_MAX);
        for (index, count) in other.counts.iter().enumerate() {
            self.counts[(((other.first + index as i64) >> by) - self.first) as usize] += count;
        }
    }

    /// Makes bins from `min` to `max`, which are around all values so far.
    fn reach(&mut self, min: f64, max: f64) {
        if (min, max) == (self.min, self.max) {
            return;
        }
        let exponent = exponent_of(min, max);
        let first = number(min, exponent);
        let mut counts = vec![0; (number(max, exponent) - first + 1) as usize];
        let by = (exponent - i32::from(self.exponent)).unsigned_abs().min(SHIFT_MAX);
        for (index, count) in self.counts.iter().enumerate() {
            counts[(((self.first + index as i64) >> by) - first) as usize] += count;
        }
        *self = Self { min, max, exponent: exponent as i16, first, counts };
    }

    /// Whether they can be of so many values; what travelled may not.
    pub fn are_of(&self, count: u64) -> bool {
        if self.counts.is_empty() {
            return count == 0 && *self == Self::default();
        }
        let all = self.counts.iter().try_fold(0u64, |sum, count| sum.checked_add(*count));
        let is_finite = self.min.is_finite() && self.max.is_finite() && self.min <= self.max;
        if !is_finite || all != Some(count) {
            return false;
        }
        let exponent = exponent_of(self.min, self.max);
        let (first, last) = (number(self.min, exponent), number(self.max, exponent));
        exponent == i32::from(self.exponent) && first == self.first && self.counts.len() as i64 == last - first + 1
    }

    /// Bins of the same kind, of which there are at most so many.
    pub fn at_most(&self, limit: usize) -> Vec<Bin> {
        let mut wide = self.clone();
        while wide.counts.len() > limit.max(2) {
            let first = wide.first >> 1;
            let mut counts = vec![];
            for (number, count) in (wide.first..).zip(&wide.counts) {
                counts.resize(((number >> 1) - first + 1) as usize, 0);
                counts[((number >> 1) - first) as usize] += count;
            }
            wide = Self { first, counts, exponent: wide.exponent + 1, ..wide };
        }
        wide.bins().collect()
    }

    /// The bins in order, those without values between others included.
    pub fn bins(&self) -> impl Iterator<Item = Bin> {
        let width = power_of_two(self.exponent.into());
        let edge = move |index: i64| index as f64 * width;
        self.counts.iter().zip(self.first..).map(move |(count, number)| {
            let is_one = self.min == self.max;
            let (from, to) = if is_one { (self.min, self.max) } else { (edge(number), edge(number + 1)) };
            Bin { from, to, count: *count }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[f64]) -> Bins {
        let mut bins = Bins::default();
        bins.add(values);
        bins
    }

    #[test]
    fn bins_are_around_their_values() {
        let values: Vec<f64> = (0..1000).map(f64::from).collect();
        let bins: Vec<Bin> = of(&values).bins().collect();
        assert_eq!((bins.len(), bins[0], bins[1].from), (63, Bin { from: 0.0, to: 16.0, count: 16 }, 16.0));
        assert_eq!(bins.iter().map(|bin| bin.count).sum::<u64>(), 1000);
        let wide = of(&values).at_most(16);
        assert_eq!((wide.len(), wide[0]), (16, Bin { from: 0.0, to: 64.0, count: 64 }));
        assert_eq!(of(&values).at_most(5).iter().map(|bin| bin.count).collect::<Vec<_>>(), [256, 256, 256, 232]);
        assert_eq!(of(&[7.5; 3]).bins().collect::<Vec<_>>(), [Bin { from: 7.5, to: 7.5, count: 3 }]);
        assert_eq!(of(&[f64::NAN, f64::INFINITY]), Bins::default());
        assert_eq!(of(&[]).bins().count(), 0);
    }

    #[test]
    fn counts_are_the_same_however_values_are_cut() {
        let ranges = [
            (1.0, 0.0),
            (1e-3, 1e9),
            (1e300, 0.0),
            (1e-300, 0.0),
            (1e-320, 0.0),
            (0.0, 5.0),
            (1e308, -5e307),
            (-1e300, -1e-310),
        ];
        for (width, centre) in ranges {
            let value = |index: u64| {
                let part = crate::describe::registers::mixed(index) as f64 / u64::MAX as f64;
                centre + width * (part - 0.5)
            };
            let values: Vec<f64> = (0..2000).map(value).chain([centre, -0.0]).collect();
            let whole = of(&values);
            assert!(whole.are_of(values.len() as u64), "{width} {centre}: {whole:?}");
            for parts in [1, 3, 10, 500] {
                let mut merged = Bins::default();
                values.chunks(parts).rev().for_each(|part| merged.merge(&of(part)));
                assert_eq!(merged, whole, "{width} {centre}");
            }
            let is_within = |value: &f64| whole.bins().any(|bin| bin.from <= *value && *value < bin.to);
            assert!(values.iter().all(is_within), "{width} {centre}");
        }
    }

    #[test]
    fn what_travelled_is_checked() {
        let is_sound = |change: fn(&mut Bins)| {
            let mut bins = of(&[1.0, 2.0, 3.0]);
            change(&mut bins);
            bins.are_of(3)
        };
        assert!(is_sound(|_| {}));
        assert!(!is_sound(|bins| bins.counts[0] = 2));
        assert!(!is_sound(|bins| bins.max = f64::NAN));
        assert!(!is_sound(|bins| bins.exponent = i16::MAX));
        assert!(!is_sound(|bins| bins.first = i64::MIN));
        assert!(!is_sound(|bins| bins.counts.clear()));
    }
}
