//! The summary of one column: counts, extremes, the sum, and the sum of squares about the mean.
//!
//! Squares are summed about the mean of a batch and moved to the common mean when batches merge (Chan, Golub and LeVeque,
//! "Updating formulae and a pairwise algorithm for computing sample variances", 1979), in double-doubles: no cancellation,
//! however far the values are from zero. Values whose squares would leave the range of doubles are held divided by a power
//! of two, the column's scale.

use serde::{Deserialize, Serialize};

use crate::double_double::DoubleDouble;
use crate::lanes::{extremes, sum};

/// From here on, and below its inverse, values are scaled: squares of what is between are doubles, sums of them too.
const LARGE: f64 = power_of_two(400);

/// 2^600: what a step of scale divides by. It takes the largest doubles below 2^424 and the least above 2^-474.
const STEP: f64 = power_of_two(600);

const fn power_of_two(exponent: i64) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

/// A mergeable summary of a column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Column {
    missing: u64,
    infinite: u64,
    negative_infinite: u64,
    min: f64,
    max: f64,
    finite: Moments,
}

/// Of the finite values, all divided by `STEP` to the power of `scale`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Moments {
    count: u64,
    scale: i8,
    sum: DoubleDouble,
    squares: DoubleDouble,
}

/// The statistics of a column. Numbers of no values are NaN.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ColumnSummary {
    /// Values that are not missing.
    pub count: u64,
    /// Fields that are empty or NaN.
    pub missing: u64,
    /// Of all values.
    pub sum: f64,
    /// The sum over the count.
    pub mean: f64,
    /// The least value.
    pub min: f64,
    /// The greatest value.
    pub max: f64,
    /// The mean of squares about the mean: divided by the count.
    pub variance: f64,
    /// Its root.
    pub deviation: f64,
}

impl Default for Column {
    fn default() -> Self {
        let (min, max) = (f64::INFINITY, f64::NEG_INFINITY);
        Self { missing: 0, infinite: 0, negative_infinite: 0, min, max, finite: Moments::default() }
    }
}

impl Column {
    /// Adds a batch of fields, NaN where one is missing.
    pub fn add(&mut self, fields: &[f64], may_miss: bool) {
        if may_miss && fields.iter().any(|field| field.is_nan()) {
            let values: Vec<f64> = fields.iter().copied().filter(|field| !field.is_nan()).collect();
            self.missing += (fields.len() - values.len()) as u64;
            self.add_values(&values);
        } else {
            self.add_values(fields);
        }
    }

    fn add_values(&mut self, values: &[f64]) {
        let (min, max) = extremes(values);
        self.min = self.min.min(min);
        self.max = self.max.max(max);
        if min.is_finite() && max.is_finite() {
            self.finite = self.finite.merged(Moments::of(values, min.abs().max(max.abs())));
            return;
        }
        self.infinite += values.iter().filter(|value| **value == f64::INFINITY).count() as u64;
        self.negative_infinite += values.iter().filter(|value| **value == f64::NEG_INFINITY).count() as u64;
        let finite: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
        let (min, max) = extremes(&finite);
        self.finite = self.finite.merged(Moments::of(&finite, min.abs().max(max.abs())));
    }

    /// Fields that are no numbers.
    pub fn missing(&self) -> u64 {
        self.missing
    }

    /// Values that are finite.
    pub fn finite(&self) -> u64 {
        self.finite.count
    }

    /// Whether it can be of so many rows; what travelled may not.
    pub fn is_of(&self, rows: u64) -> bool {
        let counts = [self.missing, self.infinite, self.negative_infinite, self.finite.count];
        let all = counts.into_iter().try_fold(0u64, u64::checked_add);
        all == Some(rows) && (-1..=1).contains(&self.finite.scale)
    }

    /// This and what comes after it.
    pub fn merge(&mut self, after: &Self) {
        self.missing += after.missing;
        self.infinite += after.infinite;
        self.negative_infinite += after.negative_infinite;
        self.min = self.min.min(after.min);
        self.max = self.max.max(after.max);
        self.finite = self.finite.merged(after.finite);
    }

    /// Its statistics.
    pub fn summary(&self) -> ColumnSummary {
        let count = self.finite.count + self.infinite + self.negative_infinite;
        let infinity = match (self.infinite > 0, self.negative_infinite > 0) {
            (false, false) => None,
            (true, false) => Some(f64::INFINITY),
            (false, true) => Some(f64::NEG_INFINITY),
            (true, true) => Some(f64::NAN),
        };
        let finite = &self.finite;
        let (sum, mean) = infinity.map_or_else(|| (finite.sum(), finite.mean()), |infinity| (infinity, infinity));
        let (variance, deviation) = match infinity {
            None => (finite.variance(), finite.deviation()),
            Some(_) => (f64::NAN, f64::NAN),
        };
        let (min, max) = if count == 0 { (f64::NAN, f64::NAN) } else { (self.min, self.max) };
        ColumnSummary { count, missing: self.missing, sum, mean, min, max, variance, deviation }
    }

    /// The variance as that of a sample: divided by the count - 1. NaN for fewer than two values.
    pub fn sample_variance(&self) -> f64 {
        let ColumnSummary { count, variance, .. } = self.summary();
        if count < 2 { f64::NAN } else { variance * (count as f64 / (count - 1) as f64) }
    }

    /// Its root, which may be a double where the variance is none.
    pub fn sample_deviation(&self) -> f64 {
        let ColumnSummary { count, deviation, .. } = self.summary();
        let root = self.sample_variance().sqrt();
        let is_root = root.is_normal() || count < 2;
        if is_root { root } else { deviation * (count as f64 / (count - 1) as f64).sqrt() }
    }

    /// The mean and the deviation of the column after `(x - mean) / deviation`, in closed form: what the rounding of both
    /// to doubles leaves of 0 and 1.
    pub fn normalised(&self) -> (f64, f64) {
        let ColumnSummary { mean, deviation, .. } = self.summary();
        let Moments { count, scale, sum, squares } = self.finite;
        let (mean, deviation) = (unscaled(mean, -scale), unscaled(deviation, -scale));
        let rest = sum.over(count as f64).plus(-mean).value();
        (rest / deviation, (squares.over(count as f64).value().sqrt()) / deviation)
    }
}

/// Whether all values are integers whose sums, in whatever order, are doubles.
fn are_whole(values: &[f64], largest: f64) -> bool {
    /// Doubles beside it differ by one: what is added to it and taken away again is rounded to an integer.
    const UNITS: f64 = 3.0 * power_of_two(51);
    let are_small = largest < power_of_two(51) && largest * values.len() as f64 <= power_of_two(53);
    are_small && values.iter().fold(true, |are_whole, value| are_whole & ((value + UNITS) - UNITS == *value))
}

/// A number times the powers of two that `scale` stands for.
fn unscaled(mut number: f64, scale: i8) -> f64 {
    let step = if scale > 0 { STEP } else { 1.0 / STEP };
    for _ in 0..scale.unsigned_abs() {
        number *= step;
    }
    number
}

impl Moments {
    /// Of at most a batch of finite values of this largest magnitude.
    fn of(values: &[f64], largest: f64) -> Self {
        if values.is_empty() {
            return Self::default();
        }
        if largest >= LARGE {
            let scaled: Vec<f64> = values.iter().map(|value| value * (1.0 / STEP)).collect();
            return Self { scale: 1, ..Self::of_scaled(&scaled) };
        }
        if largest < 1.0 / LARGE && largest > 0.0 {
            let scaled: Vec<f64> = values.iter().map(|value| value * STEP).collect();
            return Self { scale: -1, ..Self::of_scaled(&scaled) };
        }
        let moments = Self::of_scaled(values);
        match are_whole(values, largest) {
            // Exact, where the sum about a mean is rounded.
            true => Self { sum: DoubleDouble::from(sum(values, |value| value)), ..moments },
            false => moments,
        }
    }

    fn of_scaled(values: &[f64]) -> Self {
        let count = values.len() as f64;
        let centre = sum(values, |value| value) / count;
        let rest = sum(values, |value| value - centre);
        let squares = sum(values, |value| (value - centre) * (value - centre));
        Self {
            count: values.len() as u64,
            scale: 0,
            sum: DoubleDouble::product(centre, count).plus(rest),
            squares: DoubleDouble::from(squares).subtract(DoubleDouble::product(rest, rest).over(count)),
        }
    }

    fn merged(self, after: Self) -> Self {
        if self.count == 0 || after.count == 0 {
            return if self.count == 0 { after } else { self };
        }
        let scale = match (self.is_zero(), after.is_zero()) {
            (true, _) => after.scale,
            (_, true) => self.scale,
            _ => self.scale.max(after.scale),
        };
        let (left, right) = (self.at_scale(scale), after.at_scale(scale));
        let (left_count, right_count) = (left.count as f64, right.count as f64);
        let count = left.count + right.count;
        let apart = right.sum.over(right_count).subtract(left.sum.over(left_count));
        let moved = apart.square().times(left_count * (right_count / count as f64));
        Self { count, scale, sum: left.sum.add(right.sum), squares: left.squares.add(right.squares).add(moved) }
    }

    /// The same moments at a scale that is not below theirs. The bits that get lost do not count beside values of that scale.
    fn at_scale(mut self, scale: i8) -> Self {
        if self.is_zero() {
            self.scale = scale;
        }
        while self.scale < scale {
            self.sum = self.sum.scaled(1.0 / STEP);
            self.squares = self.squares.scaled(1.0 / STEP).scaled(1.0 / STEP);
            self.scale += 1;
        }
        self
    }

    fn is_zero(&self) -> bool {
        self.sum == DoubleDouble::default() && self.squares == DoubleDouble::default()
    }

    fn sum(&self) -> f64 {
        unscaled(self.sum.value(), self.scale)
    }

    fn mean(&self) -> f64 {
        unscaled(self.sum.over(self.count as f64).value(), self.scale)
    }

    fn variance(&self) -> f64 {
        unscaled(self.squares.over(self.count as f64).value(), self.scale * 2)
    }

    fn deviation(&self) -> f64 {
        let variance = self.squares.over(self.count as f64).value();
        // Rounding may leave less than nothing; of no values there is none.
        if variance.is_nan() { variance } else { unscaled(variance.max(0.0).sqrt(), self.scale) }
    }
}
