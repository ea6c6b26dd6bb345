//! Double-double arithmetic: a sum of two doubles that do not overlap, some 106 bits.
//!
//! Error-free sums are Knuth's, products Dekker's (T. J. Dekker, "A floating-point technique for extending the available
//! precision", 1971): no fused operation, so every machine gets the same bits.

use serde::{Deserialize, Serialize};

/// The number `high + low`. Not finite: `low` is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DoubleDouble {
    high: f64,
    low: f64,
}

/// 2^27 + 1, which splits 53 bits into halves.
const SPLIT: f64 = 134_217_729.0;

fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let part = sum - a;
    (sum, (a - (sum - part)) + (b - part))
}

fn split(a: f64) -> (f64, f64) {
    let c = SPLIT * a;
    let high = c - (c - a);
    (high, a - high)
}

/// Exact while no part leaves the range of doubles; operands are below 2^990.
fn two_product(a: f64, b: f64) -> (f64, f64) {
    let product = a * b;
    let ((ah, al), (bh, bl)) = (split(a), split(b));
    (product, ((ah * bh - product) + ah * bl + al * bh) + al * bl)
}

impl DoubleDouble {
    /// The product of two doubles below 2^490.
    pub fn product(a: f64, b: f64) -> Self {
        let (high, low) = two_product(a, b);
        Self::normal(high, low)
    }

    fn normal(high: f64, low: f64) -> Self {
        let sum = high + low;
        if !sum.is_finite() {
            return Self { high: high + low, low: 0.0 };
        }
        Self { high: sum, low: low - (sum - high) }
    }

    /// This and a double.
    pub fn plus(self, other: f64) -> Self {
        self.add(Self::from(other))
    }

    /// This and another.
    pub fn add(self, other: Self) -> Self {
        let (high, error) = two_sum(self.high, other.high);
        if !high.is_finite() {
            return Self { high, low: 0.0 };
        }
        let (low, rest) = two_sum(self.low, other.low);
        let first = Self::normal(high, error + low);
        Self::normal(first.high, first.low + rest)
    }

    /// This without another.
    pub fn subtract(self, other: Self) -> Self {
        self.add(Self { high: -other.high, low: -other.low })
    }

    /// This times a double; both below 2^490.
    pub fn times(self, factor: f64) -> Self {
        let (high, low) = two_product(self.high, factor);
        Self::normal(high, low + self.low * factor)
    }

    /// The square; below 2^490.
    pub fn square(self) -> Self {
        let (high, low) = two_product(self.high, self.high);
        Self::normal(high, low + 2.0 * (self.high * self.low))
    }

    /// This divided by a double that is not 0.
    pub fn over(self, divisor: f64) -> Self {
        let first = self.high / divisor;
        let rest = self.subtract(Self::product(first, divisor));
        let second = rest.high / divisor;
        let rest = rest.subtract(Self::product(second, divisor));
        Self::normal(first, second).plus(rest.high / divisor)
    }

    /// This times a power of two, exactly unless it leaves the range of doubles.
    pub fn scaled(self, power_of_two: f64) -> Self {
        Self::normal(self.high * power_of_two, self.low * power_of_two)
    }

    /// The nearest double.
    pub fn value(self) -> f64 {
        self.high
    }
}

impl From<f64> for DoubleDouble {
    fn from(value: f64) -> Self {
        Self { high: value, low: 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_what_a_double_loses() {
        let sum = DoubleDouble::from(1e16).plus(1.0).plus(-1e16);
        assert_eq!(sum.value(), 1.0);
        let third = DoubleDouble::from(1.0).over(3.0);
        assert!(third.times(3.0).subtract(1.0.into()).value().abs() < 1e-31);
        let odd = DoubleDouble::product(1.0 + f64::EPSILON, 1.0 + f64::EPSILON);
        assert_eq!(odd.subtract((1.0 + 2.0 * f64::EPSILON).into()).value(), f64::EPSILON * f64::EPSILON);
        assert_eq!(DoubleDouble::from(1e16).plus(1.0).square().value(), 1e32 + 2e16);
    }

    #[test]
    fn infinities_stay() {
        let infinite = DoubleDouble::from(f64::INFINITY);
        assert_eq!(infinite.plus(1.0).value(), f64::INFINITY);
        assert!(infinite.plus(f64::NEG_INFINITY).value().is_nan());
        assert_eq!(DoubleDouble::from(f64::MAX).plus(f64::MAX).value(), f64::INFINITY);
    }
}
