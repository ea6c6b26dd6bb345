//! Numbers in text: the nearest double, by a fast way for what tables usually hold.
//!
//! The fast way takes an optional minus, digits, and a point with digits, where all digits make an integer below 2^53 and
//! at most 22 stand behind the point: then one exact division by an exact power of ten is the nearest double (W. D.
//! Clinger, "How to read floating point numbers accurately", 1990). Everything else is the standard library's. A pass spends
//! most of its time here, so numbers of at most eight digits have a way of their own (`short`).

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Field {
    /// Empty, blanks, or NaN.
    Missing,
    /// A number; infinities are.
    Number(f64),
    /// Anything else.
    Text,
}

const POWERS_OF_TEN: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
];

/// Eight digits of zero.
const ZEROS: u64 = 0x3030_3030_3030_3030;

const TENS: [u64; 9] = [1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];

/// Integers up to here are doubles.
const EXACT_MAX: u64 = 1 << 53;

/// Digits that the fast way adds up: no more overflow 64 bits.
const DIGITS_MAX: usize = 19;

/// A field without its quotes and the blanks around it.
pub fn field(text: &[u8]) -> Field {
    let text = bare(text);
    if text.is_empty() {
        return Field::Missing;
    }
    match std::str::from_utf8(text).ok().and_then(|text| text.parse::<f64>().ok()) {
        Some(number) if number.is_nan() => Field::Missing,
        Some(number) => Field::Number(number),
        None => Field::Text,
    }
}

/// The text between a field's quotes and blanks.
pub fn bare(text: &[u8]) -> &[u8] {
    let text = text.trim_ascii();
    match text {
        [b'"', inner @ .., b'"'] => inner.trim_ascii(),
        _ => text,
    }
}

/// The number at the beginning of `bytes` and its length, if it is one of those that the fast way takes; NaN of length 0
/// where no digit, sign or point stands. The caller looks at the bytes behind it. A call for each number would cost a
/// fortieth of the pass.
#[inline(always)]
pub fn leading(bytes: &[u8]) -> Option<(f64, usize)> {
    short(bytes).or_else(|| long(bytes))
}

/// Bytes that a short number is looked for in, and those that are read behind its point.
const SHORT_BYTES: usize = 24;

/// `leading` for numbers of one to eight digits whose point is among the first eight bytes, as most are: one look finds the
/// point and the end, and one conversion takes the digits of both sides. The next number waits for nothing but that look.
#[inline(always)]
fn short(bytes: &[u8]) -> Option<(f64, usize)> {
    let bytes = bytes.first_chunk::<SHORT_BYTES>()?;
    let eight = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk::<8>()?) ^ ZEROS);
    let negative = bytes[0] == b'-';
    let from = usize::from(negative);
    let first = not_digits(eight(0)?) & !(u64::from(negative) << 7);
    let point = first.trailing_zeros() as usize / 8;
    let whole_len = point - from;
    if point == 8 {
        return None;
    }
    if bytes[point] != b'.' {
        if whole_len == 0 {
            return None;
        }
        let magnitude = double_of(number_of_eight(eight(from)? << (64 - 8 * whole_len)));
        return Some((if negative { -magnitude } else { magnitude }, point));
    }
    let behind = first & (first - 1);
    let end =
        if behind == 0 { 64 + not_digits(eight(8)?).trailing_zeros() } else { behind.trailing_zeros() } as usize / 8;
    let places = end - point - 1;
    if places == 0 || whole_len + places > 8 {
        return None;
    }
    let whole = (eight(from)? & ((1 << (8 * whole_len)) - 1)) << (64 - 8 * (whole_len + places));
    let digits = number_of_eight(whole | eight(point + 1)? << (64 - 8 * places));
    let magnitude = double_of(digits) / POWERS_OF_TEN[places];
    Some((if negative { -magnitude } else { magnitude }, end))
}

/// The highest bit of each of eight bytes that is above 9.
#[inline(always)]
fn not_digits(values: u64) -> u64 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    (((values & LOW) + 0x7676_7676_7676_7676) | values) & !LOW
}

/// The double that an integer below 2^52 is. The machine's own conversion (`cvtsi2sd`) waits for what its register held
/// before, which is the number before it: that would cost a third of the pass.
#[inline(always)]
fn double_of(integer: u64) -> f64 {
    const TWO_TO_52: f64 = (1u64 << 52) as f64;
    f64::from_bits(TWO_TO_52.to_bits() | integer) - TWO_TO_52
}

/// Appends the digits from `at` on to a number: it, and how many there are. No more than `DIGITS_MAX` are right.
fn digit_run(bytes: &[u8], at: usize, before: u64) -> Option<(u64, usize)> {
    let (mut number, mut len) = (before, 0);
    loop {
        let (digits, count) = digits_of_eight(*bytes.get(at + len..)?.first_chunk::<8>()?);
        number = number.wrapping_mul(TENS[count]).wrapping_add(digits);
        len += count;
        if count < 8 || len > DIGITS_MAX {
            return Some((number, len));
        }
    }
}

/// `leading` for numbers of any length.
fn long(bytes: &[u8]) -> Option<(f64, usize)> {
    let negative = *bytes.first()? == b'-';
    let mut at = usize::from(negative);
    let (mut digits, whole_len) = digit_run(bytes, at, 0)?;
    at += whole_len;
    let mut count = whole_len;
    let mut places = 0;
    if *bytes.get(at)? == b'.' {
        at += 1;
        (digits, places) = digit_run(bytes, at, digits)?;
        at += places;
        count += places;
    } else if count == 0 {
        return (!negative).then_some((f64::NAN, 0));
    }
    if count == 0 || count > DIGITS_MAX || digits > EXACT_MAX {
        return None;
    }
    let magnitude = digits as f64 / POWERS_OF_TEN[places];
    Some((if negative { -magnitude } else { magnitude }, at))
}

/// The number that the digits at the beginning of eight bytes make, and how many they are; all eight at once.
fn digits_of_eight(eight: [u8; 8]) -> (u64, usize) {
    let values = u64::from_le_bytes(eight) ^ ZEROS;
    // The highest bit of each byte above 9. A carry spoils only bytes behind the first of those.
    let others = (values.wrapping_add(0x7676_7676_7676_7676) | values) & 0x8080_8080_8080_8080;
    let count = others.trailing_zeros() as usize / 8;
    if count == 0 {
        return (0, 0);
    }
    (number_of_eight(values << (64 - 8 * count)), count)
}

/// The number that eight digits make, the highest in the lowest byte.
#[inline(always)]
fn number_of_eight(padded: u64) -> u64 {
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
    fn fields_of_every_kind() {
        for text in ["", "  ", "\"\"", "nan", "NaN", " -nan "] {
            assert_eq!(field(text.as_bytes()), Field::Missing, "{text:?}");
        }
        for text in ["x", "1,2", "0x10", "1e", "--1", "1 2", "\"1", "1\"\"2", "\u{b2}", "."] {
            assert_eq!(field(text.as_bytes()), Field::Text, "{text:?}");
        }
        for (text, number) in [
            ("1", 1.0),
            (" -2.5\t", -2.5),
            ("\" 3 \"", 3.0),
            ("+4e2", 400.0),
            (".5", 0.5),
            ("5.", 5.0),
            ("inf", f64::INFINITY),
        ] {
            assert_eq!(field(text.as_bytes()), Field::Number(number), "{text:?}");
        }
    }

    #[test]
    fn the_fast_way_says_what_it_does_not_take() {
        let lead = |text: &str| {
            leading(format!("{text},{}", " ".repeat(SHORT_BYTES)).as_bytes())
                .map(|(number, len)| (number.to_bits(), len))
        };
        assert_eq!(lead("12.5"), Some((12.5f64.to_bits(), 4)));
        assert_eq!(leading(b"12.5,-------"), Some((12.5, 4)), "not as near the end");
        assert_eq!(lead("-0"), Some(((-0.0f64).to_bits(), 2)));
        assert_eq!(lead(""), Some((f64::NAN.to_bits(), 0)));
        assert_eq!(lead("1e5"), Some((1f64.to_bits(), 1)), "who calls sees the e");
        for text in ["-", ".", "-.", "9007199254740993", "12345678901234567890", "0.00000000000000000000001"] {
            assert_eq!(lead(text), None, "{text}");
        }
        assert_eq!(leading(b"1,2"), None, "too near the end");
    }

    proptest! {
        #[test]
        fn both_ways_agree(
            whole in "[0-9]{0,9}|[0-9]{0,20}",
            places in "(\\.[0-9]{0,9})?|(\\.[0-9]{0,20})?",
            sign in "-?",
            behind in "[,\n;x\t][-.,0-9]{7,30}",
        ) {
            let text = format!("{sign}{whole}{places}");
            let bytes = format!("{text}{behind}").into_bytes();
            prop_assert_eq!(leading(&bytes).map(bits), long(&bytes).map(bits), "{}", text);
            if let Some((number, len)) = leading(&bytes).filter(|(_, len)| *len > 0) {
                prop_assert_eq!(len, text.len());
                prop_assert_eq!(number.to_bits(), text.parse::<f64>().unwrap().to_bits(), "{}", text);
            }
        }
    }
}
