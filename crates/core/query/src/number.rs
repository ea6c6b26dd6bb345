//! Numbers in text: the nearest double, by a fast way for what tables usually hold.
//!
//! The fast way takes an optional minus, digits, a point with digits, and an exponent. A pass spends most of its time
//! here, so numbers of at most eight digits, as many tables have, are computed by one exact division (`short`; W. D.
//! Clinger, "How to read floating point numbers accurately", 1990). Those of up to 19 digits, as programs write them
//! that lose nothing, are `long`. All others are the standard library's.

use crate::decimal::nearest;

const POWERS_OF_TEN: [f64; 9] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8];

/// Eight digits of zero.
pub const ZEROS: u64 = 0x3030_3030_3030_3030;

pub const TENS: [u64; 9] = [1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];

/// Digits of a number that are added up: more overflow 64 bits.
pub const DIGITS_MAX: usize = 19;

/// The number at the beginning of `bytes` and its length, if it is one of those that the fast way takes; `point` stands
/// before its fraction. The caller looks at the bytes behind it: where an exponent stands there, `long` takes the whole. A
/// call for each number would cost a fortieth of the pass.
#[inline(always)]
pub fn leading(bytes: &[u8], point: u8) -> Option<(f64, usize)> {
    short(bytes, point).or_else(|| long(bytes, point))
}

/// Bytes that a short number is looked for in, and those that are read behind its point.
const SHORT_BYTES: usize = 24;

/// `leading` for numbers of one to eight digits whose point is among the first eight bytes, as most are: one look finds the
/// point and the end, and one conversion takes the digits of both sides. The next number waits for nothing but that look.
#[inline(always)]
fn short(bytes: &[u8], point: u8) -> Option<(f64, usize)> {
    let bytes = bytes.first_chunk::<SHORT_BYTES>()?;
    let eight = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk::<8>()?) ^ ZEROS);
    let negative = bytes[0] == b'-';
    let from = usize::from(negative);
    // A bit for each of sixteen bytes that is no digit. Where the second of them is depends on the number: a branch would be
    // guessed wrong half of the time.
    let others = (gathered(not_digits(eight(0)?)) | gathered(not_digits(eight(8)?)) << 8) & !u32::from(negative);
    let first = others.trailing_zeros() as usize;
    if first >= 8 {
        return None;
    }
    let whole_len = first - from;
    if bytes[first] != point {
        if whole_len == 0 {
            return None;
        }
        let magnitude = double_of(number_of_eight(eight(from)? << (64 - 8 * whole_len)));
        return Some((signed(magnitude, negative), first));
    }
    let end = (others & (others - 1) | 1 << 16).trailing_zeros() as usize;
    let places = end - first - 1;
    if places == 0 || whole_len + places > 8 {
        return None;
    }
    let whole = (eight(from)? & ((1 << (8 * whole_len)) - 1)) << (64 - 8 * (whole_len + places));
    let digits = number_of_eight(whole | eight(first + 1)? << (64 - 8 * places));
    Some((signed(double_of(digits) / POWERS_OF_TEN[places], negative), end))
}

#[inline(always)]
pub fn signed(magnitude: f64, negative: bool) -> f64 {
    f64::from_bits(magnitude.to_bits() | u64::from(negative) << 63)
}

/// The highest bits of eight bytes side by side, the first byte's lowest; no other bit is set.
#[inline(always)]
fn gathered(bits: u64) -> u32 {
    (bits.wrapping_mul(0x0002_0408_1020_4081) >> 56) as u32
}

/// The highest bit of each of eight bytes that is above 9.
#[inline(always)]
pub fn not_digits(values: u64) -> u64 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    (((values & LOW) + 0x7676_7676_7676_7676) | values) & !LOW
}

/// The double that an integer below 2^52 is. The machine's own conversion (`cvtsi2sd`) waits for what its register held
/// before, which is the number before it: that would cost a third of the pass.
#[inline(always)]
pub fn double_of(integer: u64) -> f64 {
    const TWO_TO_52: f64 = (1u64 << 52) as f64;
    f64::from_bits(TWO_TO_52.to_bits() | integer) - TWO_TO_52
}

/// A number of 19 digits at most, with its exponent if it has one, at the beginning of `bytes`; and its length.
#[inline]
pub fn long(bytes: &[u8], point: u8) -> Option<(f64, usize)> {
    let negative = *bytes.first()? == b'-';
    let mut at = usize::from(negative);
    let (mut digits, whole_len) = digit_run(bytes, at, 0)?;
    at += whole_len;
    let (mut count, mut places) = (whole_len, 0);
    if *bytes.get(at)? == point {
        at += 1;
        (digits, places) = digit_run(bytes, at, digits)?;
        at += places;
        count += places;
    }
    if count == 0 || count > DIGITS_MAX {
        return None;
    }
    let mut power = -(places as i32);
    if *bytes.get(at)? | 0x20 == b'e' {
        let (exponent, len) = exponent(&bytes[at + 1..])?;
        power += exponent;
        at += 1 + len;
    }
    let magnitude = nearest(digits, power)?;
    Some((if negative { -magnitude } else { magnitude }, at))
}

/// Appends the digits from `at` on to a number: it, and how many there are. No more than `DIGITS_MAX` are right.
#[inline(always)]
fn digit_run(bytes: &[u8], at: usize, before: u64) -> Option<(u64, usize)> {
    let (mut number, mut len) = (before, 0);
    loop {
        let values = u64::from_le_bytes(*bytes.get(at + len..)?.first_chunk::<8>()?) ^ ZEROS;
        let count = not_digits(values).trailing_zeros() as usize / 8;
        if count == 8 {
            number = number.wrapping_mul(TENS[8]).wrapping_add(number_of_eight(values));
            len += 8;
            if len > DIGITS_MAX {
                return Some((number, len));
            }
            continue;
        }
        if count > 0 {
            number = number.wrapping_mul(TENS[count]).wrapping_add(number_of_eight(values << (64 - 8 * count)));
        }
        return Some((number, len + count));
    }
}

/// The exponent at the beginning of `bytes`, of three digits at most, and its length.
#[inline(always)]
fn exponent(bytes: &[u8]) -> Option<(i32, usize)> {
    let from = usize::from(matches!(bytes.first()?, b'-' | b'+'));
    let (mut exponent, mut len) = (0, 0);
    while let Some(digit) = bytes.get(from + len).map(|byte| byte.wrapping_sub(b'0')).filter(|digit| *digit <= 9) {
        (exponent, len) = (exponent * 10 + i32::from(digit), len + 1);
        if len > 3 {
            return None;
        }
    }
    let signed = if bytes[0] == b'-' { -exponent } else { exponent };
    (len > 0).then_some((signed, from + len))
}

/// The number that eight digits make, the highest in the lowest byte.
#[inline(always)]
pub fn number_of_eight(padded: u64) -> u64 {
    let pairs = padded.wrapping_mul(10).wrapping_add(padded >> 8);
    let even = (pairs & 0x0000_00ff_0000_00ff).wrapping_mul(0x000f_4240_0000_0064);
    let odd = ((pairs >> 16) & 0x0000_00ff_0000_00ff).wrapping_mul(0x0000_2710_0000_0001);
    even.wrapping_add(odd) >> 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bits((number, len): (f64, usize)) -> (u64, usize) {
        (number.to_bits(), len)
    }

    #[test]
    fn the_fast_way_says_what_it_does_not_take() {
        let lead = |text: &str| leading(format!("{text},{}", " ".repeat(SHORT_BYTES)).as_bytes(), b'.').map(bits);
        assert_eq!(lead("12.5"), Some((12.5f64.to_bits(), 4)));
        assert_eq!(leading(b"12.5,-------", b'.'), Some((12.5, 4)), "not as near the end");
        assert_eq!(leading(b"12,5;-------", b','), Some((12.5, 4)));
        assert_eq!(leading(b"12.5;-------", b','), Some((12.0, 2)), "the caller sees the point");
        assert_eq!(lead("-0"), Some(((-0.0f64).to_bits(), 2)));
        assert_eq!(lead("1e5"), Some((1f64.to_bits(), 1)), "the caller sees the e");
        for text in ["", "-", ".", "-.", "12345678901234567890", "9007199254740993", "123456789e", "123456789e1000"] {
            assert_eq!(lead(text), None, "{text}");
        }
        assert_eq!(leading(b"1,2", b'.'), None, "too near the end");
    }

    proptest! {
        #[test]
        fn both_ways_agree(
            whole in "[0-9]{0,9}|[0-9]{0,20}",
            places in "(\\.[0-9]{0,9})?|(\\.[0-9]{0,20})?",
            exponent in "|[eE][-+]?[0-9]{1,4}",
            sign in "-?",
            behind in "[,\n;x\t][-.,0-9]{7,30}",
        ) {
            let text = format!("{sign}{whole}{places}{exponent}");
            let bytes = format!("{text}{behind}").into_bytes();
            let parsed = |len: usize| text[..len].parse::<f64>().unwrap().to_bits();
            for (number, len) in [leading(&bytes, b'.'), long(&bytes, b'.')].into_iter().flatten() {
                prop_assert!(len == text.len() || text[len..] == exponent, "{}: {len}", text);
                prop_assert_eq!(number.to_bits(), parsed(len), "{}", text);
            }
            let has_digits = !whole.is_empty() || places.len() > 1;
            // Fewer digits than lie half way between two doubles.
            let is_usual = has_digits && whole.len() + places.len() < 16 && exponent.is_empty();
            prop_assert!(!is_usual || long(&bytes, b'.').is_some_and(|(_, len)| len == text.len()), "{}", text);
        }
    }
}
