//! The double nearest to `digits` times a power of ten (D. Lemire, "Number parsing at a gigabyte per second", 2021; the
//! idea is M. Eisel's).
//!
//! A number's first 64 bits times a power of five of 128 bits give the nearest double wherever the product does not end
//! too near to half of its last place; those few cases, and powers outside of `POWER_MAX`, are left to the standard
//! library. Its parser computes the same, but wants the whole text of one number, whose end is not known here yet: that
//! costs a pass twice the time.

/// Powers of ten up to this, either way: 5^54 fits 127 bits, so the table is computed by plain division. Numbers of
/// measurements lie between 1e-54 and 1e54.
const POWER_MAX: i32 = 54;

const POWERS: usize = 2 * POWER_MAX as usize + 1;

/// Bits of a double behind its point.
const MANTISSA_BITS: u32 = 52;

/// The exponent of 1.0 as it is stored.
const BIAS: i32 = 1023;

/// 5^q for q from -`POWER_MAX` on: the first 128 bits, rounded up where it is no integer.
static FIVES: [u128; POWERS] = fives();

const fn fives() -> [u128; POWERS] {
    let mut fives = [0; POWERS];
    let mut power = 1u128;
    let mut exponent = 0;
    while exponent <= POWER_MAX as usize {
        fives[POWER_MAX as usize + exponent] = power << power.leading_zeros();
        fives[POWER_MAX as usize - exponent] = reciprocal(power);
        power = power.wrapping_mul(5);
        exponent += 1;
    }
    fives
}

/// The first 128 bits of 1 / `divisor`, rounded up; exact for 1.
const fn reciprocal(divisor: u128) -> u128 {
    if divisor == 1 {
        return 1 << 127;
    }
    let (mut rest, mut quotient) = (1u128, 0u128);
    while quotient >> 127 == 0 {
        rest <<= 1;
        quotient <<= 1;
        if rest >= divisor {
            rest -= divisor;
            quotient |= 1;
        }
    }
    quotient + 1
}

/// The double nearest to `digits` * 10^`power`; None where this way cannot tell.
#[inline(always)]
pub fn nearest(digits: u64, power: i32) -> Option<f64> {
    if digits == 0 {
        return Some(0.0);
    }
    let five = FIVES.get((power.checked_add(POWER_MAX)?) as usize)?;
    let zeros = digits.leading_zeros();
    let (low, high) = product(digits << zeros, *five);
    let top = (high >> 63) as u32;
    let behind = 64 - MANTISSA_BITS - 3 + top;
    // The product is right but for one unit of its last place. A rounding bit and nothing behind it, or that but for a
    // unit, does not tell which of two doubles is the nearest.
    let is_half = high << (63 - behind) == 1 << 63;
    if is_half && low <= 1 || low == u64::MAX {
        return None;
    }
    let rounded = ((high >> behind) + 1) >> 1;
    // A carry out of the mantissa makes it 0 and the exponent one greater, as it should.
    let exponent = floor_log2_of_ten_to(power) + 63 + top as i32 - zeros as i32 + BIAS;
    Some(f64::from_bits((rounded - (1 << MANTISSA_BITS)) + ((exponent as u64) << MANTISSA_BITS)))
}

/// The first 128 bits of a product: the lower half, and the upper one.
#[inline(always)]
fn product(digits: u64, five: u128) -> (u64, u64) {
    let upper = u128::from(digits) * (five >> 64);
    let lower = u128::from(digits) * u128::from(five as u64);
    let all = upper + (lower >> 64);
    (all as u64, (all >> 64) as u64)
}

/// Exact for powers within +-350.
#[inline(always)]
fn floor_log2_of_ten_to(power: i32) -> i32 {
    (power * 217_706) >> 16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn agrees(digits: u64, power: i32) -> bool {
        let wanted = format!("{digits}e{power}").parse::<f64>().unwrap();
        nearest(digits, power).is_none_or(|found| found.to_bits() == wanted.to_bits())
    }

    #[test]
    fn edges() {
        for power in -60..=60 {
            for digits in [0, 1, 2, 5, 9, 10, (1 << 53) - 1, 1 << 53, (1 << 53) + 1, u64::MAX, u64::MAX - 1, 1 << 63] {
                assert!(agrees(digits, power), "{digits}e{power}");
            }
        }
        assert_eq!((nearest(1, POWER_MAX + 1), nearest(1, -POWER_MAX - 1), nearest(1, i32::MAX)), (None, None, None));
        assert_eq!(nearest(123, -2), Some(1.23), "not everything is left to others");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn the_nearest_or_none(digits in any::<u64>(), shift in 0..64u32, power in -POWER_MAX..=POWER_MAX) {
            prop_assert!(agrees(digits >> shift, power), "{}e{power}", digits >> shift);
        }

        #[test]
        fn halves_are_told_from_what_is_near_them(mantissa in 0..1u64 << 52, bits in 1..11u32, near in -1..=1i64) {
            // An integer half way between two doubles, and its neighbours.
            let half = ((((1 << 52) | mantissa) << 1 | 1) << (bits - 1)).wrapping_add_signed(near);
            for power in [-3, -1, 0, 1, 3] {
                prop_assert!(agrees(half, power), "{half}e{power}");
            }
        }
    }
}
