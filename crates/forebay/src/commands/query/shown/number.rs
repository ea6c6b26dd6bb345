//! Numbers: short for people, whole for programs.

use serde_json::{Value, json};

/// Up to here every integer is a double.
const INTEGERS_MAX: f64 = 9_007_199_254_740_992.0;

/// Digits that count of a number in a table.
const DIGITS: i32 = 7;

/// From this power of ten on, and below that one, a number has an exponent.
const PLAIN: std::ops::Range<i32> = -5..15;

fn integer(value: f64) -> Option<String> {
    // The sum of nothing may be -0.
    (value == value.trunc() && value.abs() < INTEGERS_MAX).then(|| format!("{:.0}", value + 0.0))
}

/// A number in a table: an integer with all its digits, any other with seven that count, without zeros at its end; `-` for none.
pub fn short(value: f64) -> String {
    if value.is_nan() {
        return "-".to_owned();
    }
    if !value.is_finite() {
        return value.to_string();
    }
    if let Some(integer) = integer(value) {
        return integer;
    }
    let scientific = format!("{value:.*e}", DIGITS as usize - 1);
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    match exponent.parse::<i32>() {
        Ok(power) if PLAIN.contains(&power) => {
            let places = (DIGITS - 1 - power).max(0) as usize;
            without_zeros(&format!("{value:.places$}")).to_owned()
        }
        _ => format!("{}e{exponent}", without_zeros(mantissa)),
    }
}

/// The fewest digits that tell a number from every other one; nothing for none.
pub fn exact(value: f64) -> String {
    if value.is_nan() {
        return String::new();
    }
    integer(value).unwrap_or_else(|| format!("{value:?}"))
}

/// A number, or a word where JSON has none.
pub fn in_json(value: f64) -> Value {
    match value {
        f64::INFINITY => json!("inf"),
        f64::NEG_INFINITY => json!("-inf"),
        value => json!(value),
    }
}

/// Without zeros behind the point, and without the point behind which nothing is left.
fn without_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a broken assumption of a test fails the test")]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_integers_whole_and_others_with_seven_digits() {
        let numbers = [
            (1234.0, "1234"),
            (-0.0, "0"),
            (9_007_199_254_740_991.0, "9007199254740991"),
            (9_007_199_254_740_992.0, "9.007199e15"),
            (1.5, "1.5"),
            (1.0 / 3.0, "0.3333333"),
            (-1_234_567.89, "-1234568"),
            (9.999_999_96, "10"),
            (0.000_012_345_678_9, "0.00001234568"),
            (0.000_001_25, "1.25e-6"),
            (1e300, "1e300"),
            (f64::INFINITY, "inf"),
            (f64::NAN, "-"),
        ];
        numbers.iter().for_each(|(value, shown)| assert_eq!(short(*value), *shown));
    }

    #[test]
    fn programs_get_the_number_itself() {
        assert_eq!([1234.0, 0.1, 1e300, f64::NEG_INFINITY, f64::NAN].map(exact), ["1234", "0.1", "1e300", "-inf", ""]);
        for value in [0.1 + 0.2, f64::MIN_POSITIVE, f64::MAX, 9_007_199_254_740_993.0, -1.5e-7] {
            assert_eq!(exact(value).parse::<f64>().unwrap().to_bits(), value.to_bits());
        }
    }
}
