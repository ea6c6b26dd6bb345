//! The shape of a distribution: skewness and kurtosis, from sums of powers about the mean.
//!
//! Powers are summed about the mean of a batch and moved when batches merge (P. Pébay, "Formulas for robust, one-pass
//! parallel computation of covariances and arbitrary-order statistical moments", 2008). Fourth powers of values above
//! 1e77 are no doubles: then the shape is not a number.

use serde::{Deserialize, Serialize};

use crate::double_double::DoubleDouble;
use crate::lanes::sum;

/// The sums of finite values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Shape {
    count: u64,
    sum: DoubleDouble,
    squares: DoubleDouble,
    cubes: DoubleDouble,
    fourths: DoubleDouble,
}

impl Shape {
    /// Adds a batch, of which values that are not finite count for nothing.
    pub fn add(&mut self, values: &[f64]) {
        if values.iter().all(|value| value.is_finite()) {
            self.merge(&Self::of(values));
            return;
        }
        let finite: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
        self.merge(&Self::of(&finite));
    }

    fn of(values: &[f64]) -> Self {
        if values.is_empty() {
            return Self::default();
        }
        let count = values.len() as f64;
        let centre = sum(values, |value| value) / count;
        let rest = sum(values, |value| value - centre) / count;
        // No `powi`, whose last bits machines round in their own ways.
        let of = |power: fn(f64) -> f64| sum(values, |value| power(value - centre - rest)).into();
        Self {
            count: values.len() as u64,
            sum: DoubleDouble::product(centre, count).plus(rest * count),
            squares: of(|value| value * value),
            cubes: of(|value| value * value * value),
            fourths: of(|value| (value * value) * (value * value)),
        }
    }

    /// This and what comes after it.
    pub fn merge(&mut self, after: &Self) {
        if self.count == 0 || after.count == 0 {
            *self = if self.count == 0 { *after } else { *self };
            return;
        }
        let (left, right) = (self.count as f64, after.count as f64);
        let all = left + right;
        let apart = after.sum.over(right).subtract(self.sum.over(left)).value();
        let (step, product) = (apart / all, left * right);
        let squares = |of: &Self| of.squares.value();
        let cubes = step * step * apart * product * (left - right)
            + 3.0 * step * (left * squares(after) - right * squares(self));
        let fourths = step * step * step * apart * product * (left * left - product + right * right)
            + 6.0 * step * step * (left * left * squares(after) + right * right * squares(self))
            + 4.0 * step * (left * after.cubes.value() - right * self.cubes.value());
        self.fourths = self.fourths.add(after.fourths).plus(fourths);
        self.cubes = self.cubes.add(after.cubes).plus(cubes);
        self.squares = self.squares.add(after.squares).plus(apart * step * product);
        self.sum = self.sum.add(after.sum);
        self.count += after.count;
    }

    /// Whether it can be of so many values; what travelled may not.
    pub fn is_of(&self, count: u64) -> bool {
        self.count == count
    }

    /// The skewness, corrected for the bias of a sample; NaN for fewer than three values, or equal ones.
    pub fn skewness(&self) -> f64 {
        let count = self.count as f64;
        if self.count < 3 || self.squares.value() <= 0.0 {
            return f64::NAN;
        }
        let variance = self.squares.value() / count;
        let plain = self.cubes.value() / count / (variance * variance.sqrt());
        plain * (count * (count - 1.0)).sqrt() / (count - 2.0)
    }

    /// The kurtosis above that of a normal distribution, corrected likewise; NaN for fewer than four values, or equal ones.
    pub fn kurtosis(&self) -> f64 {
        let count = self.count as f64;
        if self.count < 4 || self.squares.value() <= 0.0 {
            return f64::NAN;
        }
        let variance = self.squares.value() / count;
        let plain = self.fourths.value() / count / (variance * variance) - 3.0;
        (count - 1.0) / ((count - 2.0) * (count - 3.0)) * ((count + 1.0) * plain + 6.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[f64]) -> Shape {
        let mut shape = Shape::default();
        values.chunks(7).for_each(|batch| shape.add(batch));
        shape
    }

    fn is_near(found: f64, expected: f64) -> bool {
        (found - expected).abs() <= 1e-9 * expected.abs().max(1.0)
    }

    /// Expected numbers are those of pandas 3.1 (`skew`, `kurt`) for the same values.
    #[test]
    fn shapes_are_those_of_other_programs() {
        let squares: Vec<f64> = (1..=20).map(|value| f64::from(value * value)).collect();
        assert!(is_near(of(&squares).skewness(), 0.658_135_977_093_588_3), "{}", of(&squares).skewness());
        assert!(is_near(of(&squares).kurtosis(), -0.801_912_783_670_772_9), "{}", of(&squares).kurtosis());
        let far: Vec<f64> = squares.iter().map(|value| value + 1e9).collect();
        assert!((of(&far).skewness() - of(&squares).skewness()).abs() < 1e-6);
    }

    #[test]
    fn few_or_equal_values_have_no_shape() {
        assert!(of(&[]).skewness().is_nan() && of(&[1.0, 2.0]).skewness().is_nan());
        assert!(of(&[1.0, 2.0, 4.0]).kurtosis().is_nan() && of(&[3.0; 9]).kurtosis().is_nan());
        assert!(of(&[1.0, f64::INFINITY, 2.0, f64::NAN]).is_of(2));
    }
}
