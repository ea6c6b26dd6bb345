//! How values are distributed: counts of ranges of doubles.
//!
//! Doubles are numbered in their order. A range is all whose numbers differ in their lowest `shift` bits only, so it is as
//! wide as a fixed share of its values. `shift` is the least with which there are at most `limit` ranges: counts depend on
//! the values alone, not on their order or on how they were cut. With a shift of 0 each value is counted by itself, and
//! all that is said of them is exact. (C. Masson and others, "DDSketch", 2019; ranges are joined as I. Epicoco and others
//! do in "UDDSketch", 2020.)

use serde::{Deserialize, Serialize};

use crate::describe::registers::{Registers, mixed};

/// Bits of a double behind its exponent: the ranges of that shift are powers of two.
const FRACTION_BITS: u8 = 52;

/// The largest shift: two ranges.
const SHIFT_MAX: u8 = 63;

/// The counts of values; none of them is NaN.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Values {
    limit: u32,
    shift: u8,
    /// Ranges that have values, in order, and how many.
    ranges: Vec<(u64, u64)>,
    /// For the number of different values, where they are not counted one by one.
    registers: Option<Registers>,
}

/// How many different values there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distinct {
    /// Just so many.
    Exactly(u64),
    /// An estimate (`DISTINCT_ERROR`).
    About(u64),
}

/// The place of a double among all doubles.
#[inline]
fn number_of(value: f64) -> u64 {
    // -0 is 0.
    let bits = (value + 0.0).to_bits();
    bits ^ ((bits.cast_signed() >> 63).cast_unsigned() | 1 << 63)
}

fn value_of(number: u64) -> f64 {
    f64::from_bits(if number >> 63 == 1 { number ^ 1 << 63 } else { !number })
}

/// By how many more bits numbers in order must be shifted until at most `limit` of them differ.
fn shift_to(limit: usize, numbers: impl Iterator<Item = u64>) -> u8 {
    let mut joined_by = [0usize; u64::BITS as usize + 1];
    let (mut count, mut last) = (0, None);
    for number in numbers {
        if let Some(last) = last.replace(number) {
            joined_by[(u64::BITS - (last ^ number).leading_zeros()) as usize] += 1;
        }
        count += 1;
    }
    let mut shift = 0;
    while count > limit && shift < SHIFT_MAX {
        shift += 1;
        count -= joined_by[usize::from(shift)];
    }
    shift
}

impl Values {
    /// Of none, in at most so many ranges.
    pub fn new(limit: u32) -> Self {
        Self { limit, shift: 0, ranges: vec![], registers: None }
    }

    /// This and other values, in as many ranges at most.
    pub fn merge(&mut self, other: &Self) {
        self.coarsen(other.shift.max(self.shift));
        let mut coarse = other.clone();
        coarse.coarsen(self.shift);
        let other = coarse;
        if let (Some(registers), Some(more)) = (&mut self.registers, &other.registers) {
            registers.merge(more);
        }
        let ours = std::mem::take(&mut self.ranges);
        self.ranges = both(&ours, &other.ranges);
        self.fit();
    }

    /// Joins ranges until they are no more than there may be.
    fn fit(&mut self) {
        if self.ranges.len() > self.limit as usize {
            let more = shift_to(self.limit as usize, self.ranges.iter().map(|(key, _)| *key));
            self.coarsen((self.shift + more).min(SHIFT_MAX));
        }
    }

    /// Joins ranges to those of a larger shift.
    fn coarsen(&mut self, shift: u8) {
        if shift == self.shift {
            return;
        }
        self.registers.get_or_insert_with(|| registers_of(self.ranges.iter().map(|(number, _)| *number)));
        let by = shift - self.shift;
        self.ranges = summed(self.ranges.iter().map(|(key, count)| (key >> by, *count)));
        self.shift = shift;
    }

    /// Whether they can be so many values in so many ranges at most; what travelled may not.
    pub fn are_of(&self, count: u64, limit: u32) -> bool {
        let all = self.ranges.iter().try_fold(0u64, |sum, (_, count)| sum.checked_add(*count));
        // Beyond the infinities, numbers are those of NaN.
        let key = |value| number_of(value).checked_shr(self.shift.into());
        let extremes = key(f64::NEG_INFINITY).zip(key(f64::INFINITY));
        all == Some(count)
            && self.limit == limit
            && self.ranges.len() <= limit as usize
            && extremes.is_some_and(|(least, greatest)| {
                self.ranges.iter().all(|(key, count)| (least..=greatest).contains(key) && *count > 0)
            })
            && self.ranges.is_sorted_by(|left, right| left.0 < right.0)
            && self.registers.is_some() == (self.shift > 0)
            && self.registers.as_ref().is_none_or(Registers::are_sound)
    }

    /// In how many ranges they are at most.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.ranges.iter().map(|(_, count)| count).sum()
    }

    /// The share of a quantile by which it is off at most; 0 where each value is counted by itself.
    pub fn error(&self) -> f64 {
        if self.shift == 0 { 0.0 } else { f64::from(i32::from(self.shift) - i32::from(FRACTION_BITS)).exp2() }
    }

    /// How many different values there are.
    pub fn distinct(&self) -> Distinct {
        match &self.registers {
            None => Distinct::Exactly(self.ranges.len() as u64),
            Some(registers) => {
                let about = registers.estimate() as u64;
                Distinct::About(about.clamp(self.ranges.len() as u64, self.count().max(self.ranges.len() as u64)))
            }
        }
    }

    /// The most frequent values, the least first among equals; None where values are not counted one by one.
    pub fn most_frequent(&self, count: usize) -> Option<Vec<(f64, u64)>> {
        if self.shift > 0 {
            return None;
        }
        let mut values = self.ranges.clone();
        values.sort_by_key(|(number, count)| (std::cmp::Reverse(*count), *number));
        Some(values.into_iter().take(count).map(|(number, count)| (value_of(number), count)).collect())
    }

    /// The value below which such a share of them lies, between two values by proportion; NaN if there are none.
    pub fn quantile(&self, share: f64) -> f64 {
        let Some(last) = self.count().checked_sub(1) else { return f64::NAN };
        let place = share.clamp(0.0, 1.0) * last as f64;
        let (below, part) = (place.floor(), place.fract());
        let low = self.at(below as u64);
        if part == 0.0 {
            return low;
        }
        let high = self.at((below as u64 + 1).min(last));
        if low == high || low.is_infinite() || high.is_infinite() {
            return if part < 0.5 { low } else { high };
        }
        low * (1.0 - part) + high * part
    }

    /// The value at a place in their order; within a range they lie evenly.
    fn at(&self, place: u64) -> f64 {
        let mut before = 0;
        for (key, count) in &self.ranges {
            if place < before + count {
                let first = key << self.shift;
                let last = first | ((1u64 << self.shift) - 1);
                let (low, high) = (value_of(first), value_of(last));
                // Most values next to 0 are 0 itself.
                if low == 0.0 {
                    return low;
                }
                if low == high || !low.is_finite() || !high.is_finite() {
                    return if low.is_finite() || high.is_nan() { low } else { high };
                }
                let part = ((place - before) as f64 + 0.5) / *count as f64;
                return low * (1.0 - part) + high * part;
            }
            before += count;
        }
        f64::NAN
    }
}

/// Counts by key in order, of which neighbours may have the same key.
fn summed(counts: impl Iterator<Item = (u64, u64)>) -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> = vec![];
    for (key, count) in counts {
        match ranges.last_mut() {
            Some((last, sum)) if *last == key => *sum += count,
            _ => ranges.push((key, count)),
        }
    }
    ranges
}

/// Two lists in order as one.
fn both(left: &[(u64, u64)], right: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut all: Vec<(u64, u64)> = left.iter().chain(right).copied().collect();
    // Two runs that are in order: the sort finds them, and merges.
    all.sort_by_key(|(key, _)| *key);
    summed(all.into_iter())
}

fn registers_of(numbers: impl Iterator<Item = u64>) -> Registers {
    let mut registers = Registers::new();
    numbers.for_each(|number| registers.add(mixed(number)));
    registers
}

/// Counts the values of one block: a hash table by range.
pub struct ValueCounter {
    limit: u32,
    shift: u8,
    /// Ranges and counts; a slot without a count is free.
    slots: Vec<(u64, u32)>,
    used: usize,
    registers: Option<Registers>,
}

/// Ranges in the table, of those that there may be: joined only then, they are joined seldom.
const SPARE: usize = 2;

impl ValueCounter {
    /// Of at most so many ranges.
    pub fn new(limit: u32) -> Self {
        let slots = (2 * SPARE * limit as usize + 2).next_power_of_two();
        Self { limit, shift: 0, slots: vec![(0, 0); slots], used: 0, registers: None }
    }

    /// Adds values, among which NaN counts for nothing.
    pub fn add(&mut self, values: &[f64]) {
        for value in values {
            if value.is_nan() {
                continue;
            }
            let number = number_of(*value);
            if let Some(registers) = &mut self.registers {
                registers.add(mixed(number));
            }
            self.count(number >> self.shift, 1);
            if self.used > SPARE * self.limit as usize {
                self.join();
            }
        }
    }

    #[inline]
    fn count(&mut self, key: u64, count: u32) {
        let mask = self.slots.len() - 1;
        let bits = self.slots.len().trailing_zeros();
        let mut at = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - bits)) as usize;
        loop {
            let slot = &mut self.slots[at];
            if slot.1 == 0 {
                *slot = (key, count);
                self.used += 1;
                return;
            }
            if slot.0 == key {
                slot.1 += count;
                return;
            }
            at = (at + 1) & mask;
        }
    }

    fn join(&mut self) {
        let values = self.take();
        (self.shift, self.registers) = (values.shift, values.registers);
        for (key, count) in values.ranges {
            self.count(key, count as u32);
        }
    }

    /// The values since this was asked last.
    pub fn take(&mut self) -> Values {
        let mut ranges: Vec<(u64, u64)> =
            self.slots.iter().filter(|slot| slot.1 > 0).map(|(key, count)| (*key, u64::from(*count))).collect();
        ranges.sort_unstable_by_key(|(key, _)| *key);
        self.slots.fill((0, 0));
        self.used = 0;
        let mut values = Values {
            limit: self.limit,
            shift: std::mem::take(&mut self.shift),
            ranges,
            registers: self.registers.take(),
        };
        values.fit();
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[f64], limit: u32) -> Values {
        let mut counter = ValueCounter::new(limit);
        counter.add(values);
        let _ = counter.take();
        counter.add(values);
        counter.take()
    }

    fn numbers(seed: u64, count: usize) -> Vec<f64> {
        (0..count as u64).map(|index| mixed(index ^ seed << 32) as f64 / u64::MAX as f64 * 100.0 - 20.0).collect()
    }

    #[test]
    fn doubles_are_numbered_in_their_order() {
        let values = [f64::NEG_INFINITY, f64::MIN, -1.0, -f64::MIN_POSITIVE, 0.0, 1e-300, 1.0, 1.5, f64::INFINITY];
        assert!(values.windows(2).all(|pair| number_of(pair[0]) < number_of(pair[1])));
        assert!(values.iter().all(|value| value_of(number_of(*value)) == *value));
        assert_eq!(number_of(-0.0), number_of(0.0));
    }

    #[test]
    fn few_values_are_exact() {
        let values = of(&[1.0, 2.0, 2.0, f64::NAN, 10.0, -0.0], 256);
        assert_eq!((values.count(), values.distinct(), values.error()), (5, Distinct::Exactly(4), 0.0));
        assert_eq!(
            [0.0, 0.25, 0.5, 0.75, 1.0, 0.875].map(|share| values.quantile(share)),
            [0.0, 1.0, 2.0, 2.0, 10.0, 6.0]
        );
        assert_eq!(values.most_frequent(2), Some(vec![(2.0, 2), (0.0, 1)]));
        assert!(Values::new(8).quantile(0.5).is_nan());
    }

    #[test]
    fn quantiles_are_within_their_error() {
        let mut all = numbers(1, 50_000);
        let values = of(&all, 512);
        all.sort_by(f64::total_cmp);
        assert!(values.error() > 0.0 && values.error() < 0.1, "{}", values.error());
        for hundredth in 0..=100 {
            let place = hundredth as f64 / 100.0 * (all.len() - 1) as f64;
            let (exact, found) = (all[place as usize], values.quantile(hundredth as f64 / 100.0));
            let next = all[(place as usize + 1).min(all.len() - 1)];
            let off = (found - exact).abs() - (next - exact);
            assert!(off <= values.error() * exact.abs().max(next.abs()), "{hundredth}: {exact} {found}");
        }
        let Distinct::About(about) = values.distinct() else { panic!("50,000 values are not counted one by one") };
        assert!((about as f64 / 50_000.0 - 1.0).abs() < 0.07, "{about}");
    }

    #[test]
    fn zeros_among_thousands_of_values_are_zeros() {
        let mut all = vec![0.0; 10_000];
        all.extend(numbers(5, 5_000).iter().map(|value| value.abs() + 1.0));
        let values = of(&all, 256);
        assert!(values.error() > 0.0);
        assert_eq!([0.0, 0.3, 0.5].map(|share| values.quantile(share)), [0.0; 3]);
        assert!(values.quantile(0.9) > 1.0);
    }

    #[test]
    fn counts_depend_on_the_values_alone() {
        for (count, limit) in [(300, 256), (5_000, 256), (40_000, 1024), (700, 1024)] {
            let all = numbers(count as u64, count);
            let whole = of(&all, limit);
            assert!(whole.are_of(count as u64, limit));
            for parts in [2, 3, 7, 50] {
                let mut merged = Values::new(limit);
                all.chunks(count.div_ceil(parts)).rev().for_each(|part| merged.merge(&of(part, limit)));
                assert_eq!(merged, whole, "{count} values in {parts} parts");
            }
        }
    }

    #[test]
    fn infinities_and_powers_far_apart_have_a_place() {
        let mut all: Vec<f64> = (-1000..1000).map(|power| f64::from(power).exp2() * 1.3).collect();
        all.extend([f64::INFINITY, f64::INFINITY, f64::NEG_INFINITY]);
        all.extend(all.clone().iter().map(|value| -value));
        for limit in [64, 256, 8192] {
            let values = of(&all, limit);
            assert!(values.are_of(all.len() as u64, limit));
            if values.error() < 1.0 {
                assert_eq!(values.quantile(0.0), f64::NEG_INFINITY, "{limit}");
                assert_eq!(values.quantile(1.0), f64::INFINITY, "{limit}");
            }
            assert!((0..100).all(|share| !values.quantile(f64::from(share) / 100.0).is_nan()), "{limit}");
        }
    }

    #[test]
    fn what_travelled_is_checked() {
        let good = of(&numbers(3, 3000), 256);
        let is_sound = |change: fn(&mut Values)| {
            let mut values = good.clone();
            change(&mut values);
            values.are_of(3000, 256)
        };
        assert!(is_sound(|_| {}));
        assert!(!is_sound(|values| values.shift = 64));
        assert!(!is_sound(|values| values.shift = 0));
        assert!(!is_sound(|values| values.registers = None));
        assert!(!is_sound(|values| values.limit = 1 << 30));
        assert!(!is_sound(|values| values.ranges.swap(0, 1)));
        assert!(!is_sound(|values| values.ranges[0].1 = u64::MAX));
        assert!(!is_sound(|values| values.ranges[0].0 = u64::MAX));
    }
}
