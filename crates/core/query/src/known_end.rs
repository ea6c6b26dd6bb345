//! Numbers whose ends are known: the nearest double to a field as a whole, read from its end backwards.
//!
//! A point is taken out by two looks that are one byte apart: digits behind it come from the one, those before it from the other. So a
//! number waits for nothing but its bounds. Columns mostly have as many places in each row, so no point is looked for where the last one
//! was. Digits become the nearest double as `number` says.

use crate::decimal::nearest;
use crate::number::{DIGITS_MAX, TENS, ZEROS, double_of, not_digits, number_of_eight, signed};

/// Bytes before the end that are looked at: 24 digits, a point, and an exponent.
pub const TAIL_BYTES: usize = 29;

/// Those of an exponent as most programs write it, such as e+02.
const EXPONENT_BYTES: usize = 4;

/// Digits and a point.
const MANTISSA_BYTES: usize = TAIL_BYTES - EXPONENT_BYTES;

const ONES: u64 = 0x0101_0101_0101_0101;

/// The byte before fractions, eight times, less `ZEROS`.
#[derive(Clone, Copy)]
struct Point(u64);

impl Point {
    fn new(point: u8) -> Self {
        Self(ONES * u64::from(point ^ b'0'))
    }

    /// Of eight bytes less `ZEROS`, the highest bit of each that is a point. Another byte may count as one if a point is right before it.
    #[inline(always)]
    fn among(self, eight: u64) -> u64 {
        let differing = eight ^ self.0;
        differing.wrapping_sub(ONES) & !differing & (ONES << 7)
    }
}

/// Parses the numbers of a column, most of which have as many places as the one before.
pub struct Parser {
    point: u8,
    points: Point,
    places: &'static Places,
    /// Numbers whose places were not those of the one before.
    misses: usize,
}

/// How many digits are behind the point of a number of at most eight digits, and all that follows from it.
struct Places {
    /// The place of the point among the eight bytes before the last; 0 without one.
    byte: usize,
    has_point: bool,
    /// Bytes that the number has, at least, and how many more it may have.
    len_min: usize,
    more_max: usize,
    /// Of the last eight bytes those behind the point.
    behind: u64,
    divisor: f64,
}

/// By the place of the point.
static PLACES: [Places; 8] = {
    const NONE: Places = Places { byte: 0, has_point: false, len_min: 1, more_max: 7, behind: u64::MAX, divisor: 1.0 };
    let mut all = [NONE; 8];
    let (mut byte, mut divisor) = (7, 10.0);
    while byte > 0 {
        let behind = u64::MAX << (8 * byte);
        all[byte] = Places { byte, has_point: true, len_min: 9 - byte, more_max: byte, behind, divisor };
        (byte, divisor) = (byte - 1, divisor * 10.0);
    }
    all
};

impl Parser {
    /// Of numbers with this byte before their fractions.
    pub fn new(point: u8) -> Self {
        Self { point, points: Point::new(point), places: &PLACES[0], misses: 0 }
    }

    /// The number whose last bytes these are, and of which so many are all of it, if it is one of those that this way takes.
    #[inline(always)]
    pub fn number(&mut self, tail: &[u8; TAIL_BYTES], len: usize) -> Option<f64> {
        let is_negative = *tail.get(TAIL_BYTES.wrapping_sub(len))? == b'-';
        let len = len - usize::from(is_negative);
        // The first has none before it.
        if self.misses > 1 {
            self.places = self.found(tail, len);
        }
        let magnitude = match self.short(tail, len) {
            Some(magnitude) => magnitude,
            None => self.other(tail, len)?,
        };
        Some(signed(magnitude, is_negative))
    }

    /// A number with as many places as the one before, without its minus.
    #[inline(always)]
    fn short(&self, tail: &[u8; TAIL_BYTES], len: usize) -> Option<f64> {
        let Places { byte, has_point, len_min, more_max, behind, divisor } = *self.places;
        // Before the digits of an integer, any byte may be.
        let has_other = has_point & (tail[TAIL_BYTES - 9 + (byte & 7)] != self.point);
        if len.wrapping_sub(len_min) > more_max || has_other {
            return None;
        }
        let (last, before) = (eight(tail, TAIL_BYTES), eight(tail, TAIL_BYTES - 1));
        let unused_bits = 8 * (8 + u32::from(has_point) - len as u32);
        let digits = (before ^ (before ^ last) & behind) >> (unused_bits & 63) << (unused_bits & 63);
        (not_digits(digits) == 0).then(|| double_of(number_of_eight(digits)) / divisor)
    }

    /// The places of a number of at most nine bytes.
    #[inline(always)]
    fn found(&self, tail: &[u8; TAIL_BYTES], len: usize) -> &'static Places {
        let before = eight(tail, TAIL_BYTES - 1);
        let byte = (self.points.among(before) & !0xff | 1).ilog2() as usize / 8;
        &PLACES[if byte + len >= 9 { byte & 7 } else { 0 }]
    }

    /// One that has not as many places as the one before, or is no short one.
    #[inline(never)]
    fn other(&mut self, tail: &[u8; TAIL_BYTES], len: usize) -> Option<f64> {
        if len > 9 {
            return long(tail, len, self.points);
        }
        self.misses += 1;
        self.places = self.found(tail, len);
        self.short(tail, len).or_else(|| long(tail, len, self.points))
    }
}

/// The eight bytes up to `end`, less `ZEROS`.
#[inline(always)]
fn eight<const N: usize>(bytes: &[u8; N], end: usize) -> u64 {
    // Always there; an array made byte by byte would not be one load.
    bytes[end - 8..end].first_chunk().map_or(0, |eight| u64::from_le_bytes(*eight)) ^ ZEROS
}

/// A number of up to 19 digits, with an exponent of two if it has one, without its minus.
#[inline(never)]
fn long(tail: &[u8; TAIL_BYTES], len: usize, point: Point) -> Option<f64> {
    if tail[MANTISSA_BYTES] | 0x20 == b'e' {
        let power = exponent(tail)?;
        return mantissa(tail.first_chunk()?, len.wrapping_sub(EXPONENT_BYTES), point, power);
    }
    mantissa(tail.last_chunk()?, len, point, 0)
}

/// An exponent with its sign and two digits, the last three bytes.
#[inline(always)]
fn exponent(tail: &[u8; TAIL_BYTES]) -> Option<i32> {
    let [sign, tens, ones] = *tail.last_chunk::<3>()?;
    let (tens, ones) = (tens.wrapping_sub(b'0'), ones.wrapping_sub(b'0'));
    if tens > 9 || ones > 9 {
        return None;
    }
    let exponent = i32::from(tens * 10 + ones);
    match sign {
        b'+' => Some(exponent),
        b'-' => Some(-exponent),
        _ => None,
    }
}

/// The number of these digits, so many with their point, times a power of ten.
#[inline(always)]
fn mantissa(bytes: &[u8; MANTISSA_BYTES], len: usize, point: Point, power: i32) -> Option<f64> {
    let (mut low, mut middle, mut high) = (eight(bytes, 25), eight(bytes, 17), eight(bytes, 9));
    let before = [eight(bytes, 24), eight(bytes, 16), eight(bytes, 8)];
    let places = places(before, len, point);
    let mixed = |last: u64, before: u64, places: usize| {
        let behind = u64::MAX << (64 - 8 * places);
        last & behind | before & !behind
    };
    match places {
        0 => {}
        1..=8 => (low, middle, high) = (mixed(low, before[0], places), before[1], before[2]),
        9..=16 => (middle, high) = (mixed(middle, before[1], places - 8), before[2]),
        _ => high = mixed(high, before[2], places - 16),
    }
    let count = len.wrapping_sub(usize::from(places > 0));
    match count {
        16..=DIGITS_MAX => high &= last_digits(count - 16),
        8..16 => (middle, high) = (middle & last_digits(count - 8), 0),
        1..8 => (low, middle, high) = (low & last_digits(count), 0, 0),
        _ => return None,
    }
    if not_digits(low) | not_digits(middle) | not_digits(high) != 0 {
        return None;
    }
    let digits = (number_of_eight(high) * TENS[8] + number_of_eight(middle)) * TENS[8] + number_of_eight(low);
    nearest(digits, power - places as i32)
}

/// How many bytes are behind a point, if it is among so many bytes.
#[inline(always)]
fn places([low, middle, high]: [u64; 3], len: usize, point: Point) -> usize {
    // Most numbers of so many digits have it there. Where another one is, those are not all digits.
    let places = |eight: u64, behind: usize| {
        let points = point.among(eight);
        let places = behind + 1 + points.leading_zeros() as usize / 8;
        (points != 0 && places < len).then_some(places)
    };
    places(middle, 8).or_else(|| places(low, 0)).or_else(|| places(high, 16)).unwrap_or(0)
}

/// A mask of the last so many of eight digits, fewer than eight.
#[inline(always)]
fn last_digits(count: usize) -> u64 {
    !(u64::MAX >> (8 * count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The numbers of fields in a row, parsed one by one.
    fn parsed(parser: &mut Parser, fields: &[String]) -> Vec<Option<u64>> {
        let mut bytes = vec![b'\n'; TAIL_BYTES];
        let number = |field: &String| {
            bytes.extend(field.bytes());
            let number = parser.number(bytes.last_chunk().unwrap(), field.len());
            bytes.push(b';');
            number.map(f64::to_bits)
        };
        fields.iter().map(number).collect()
    }

    fn of(text: &str) -> Option<f64> {
        parsed(&mut Parser::new(b'.'), &[text.to_owned()])[0].map(f64::from_bits)
    }

    #[test]
    fn the_whole_field_is_a_number_or_none() {
        for text in ["0", "-0", "7", "12345678", "-1.5", ".5", "-.25", "123.4567", "0.12345678", "1e-05", "-2.5E+10"] {
            assert_eq!(of(text).map(f64::to_bits), Some(text.parse::<f64>().unwrap().to_bits()), "{text}");
        }
        let long = "1234567890123456789012345678.5";
        for text in ["", "-", ".", "-.", "--1", "1-", "1.2.3", "./5", "1,5", "1e5", "e+05", "1e+5x", "1 2", "+1", long]
        {
            assert_eq!(of(text), None, "{text:?}");
        }
        assert_eq!(
            parsed(&mut Parser::new(b','), &["1,5".to_owned(), "-,5".to_owned(), "1.5".to_owned()]),
            [Some(1.5f64.to_bits()), Some((-0.5f64).to_bits()), None]
        );
    }

    #[test]
    fn a_point_of_the_field_before_is_none_of_an_integer() {
        let fields = ["1.5", "42", "0.25", "1234567890", "5.", "12", "1234.5", "5678"].map(str::to_owned);
        let wanted = fields.clone().map(|field| (field != "5.").then(|| field.parse::<f64>().unwrap().to_bits()));
        assert_eq!(parsed(&mut Parser::new(b'.'), &fields), wanted);
    }

    fn field() -> impl Strategy<Value = String> {
        let usual = "-?[0-9]{1,5}(\\.[0-9]{1,4})?";
        let long = "-?[0-9]{0,4}\\.?[0-9]{0,18}(e[-+][0-9]{2})?";
        let odd = "[-+.0-9eE/]{0,24}";
        prop_oneof![4 => usual.prop_map(|text| text), 3 => long.prop_map(|text| text), 1 => odd.prop_map(|text| text)]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn fields_are_what_the_standard_library_says(fields in proptest::collection::vec(field(), 1..40)) {
            for (text, number) in fields.iter().zip(parsed(&mut Parser::new(b'.'), &fields)) {
                let wanted = text.parse::<f64>().ok();
                if let Some(number) = number {
                    prop_assert_eq!(Some(number), wanted.map(f64::to_bits), "{}", text);
                }
                // Fewer digits than lie half way between two doubles.
                let digits = text.bytes().filter(u8::is_ascii_digit).count();
                let is_plain = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'-' | b'.'));
                let is_usual = is_plain && wanted.is_some() && digits < 16 && !text.ends_with('.');
                prop_assert!(!is_usual || number.is_some(), "{} takes no closer look", text);
            }
        }
    }
}
