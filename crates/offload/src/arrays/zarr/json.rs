//! JSON as Zarr's documents have it: Python writes numbers that JSON has none for as bare words (`NaN`, `Infinity`).

use serde_json::Value;

/// A document.
///
/// # Errors
/// It is none.
pub fn parse(bytes: &[u8]) -> serde_json::Result<Value> {
    serde_json::from_slice(bytes).or_else(|error| serde_json::from_slice(&with_quoted_words(bytes)).map_err(|_| error))
}

/// The same with words for numbers in quotes, where they stand bare.
fn with_quoted_words(bytes: &[u8]) -> Vec<u8> {
    const WORDS: [&[u8]; 3] = [b"-Infinity", b"Infinity", b"NaN"];
    let mut quoted = Vec::with_capacity(bytes.len() + 64);
    let (mut rest, mut is_text) = (bytes, false);
    while let Some(first) = rest.first() {
        let word = WORDS.iter().find(|word| !is_text && rest.starts_with(word));
        let len = match (word, first) {
            (Some(word), _) => {
                quoted.push(b'"');
                quoted.extend_from_slice(word);
                quoted.push(b'"');
                rest = &rest[word.len()..];
                continue;
            }
            (None, b'\\') if is_text => 2,
            (None, b'"') => {
                is_text = !is_text;
                1
            }
            (None, _) => 1,
        };
        let (taken, behind) = rest.split_at(len.min(rest.len()));
        quoted.extend_from_slice(taken);
        rest = behind;
    }
    quoted
}

/// A number, as JSON has it or by a word; 1 and 0 for true and false.
pub fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::Bool(is_true) => Some(f64::from(u8::from(*is_true))),
        Value::String(word) => match word.as_str() {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

/// The numbers of an attribute: one, or a list. Of doubles that xarray writes as text, too: their eight bytes in base 64.
pub fn numbers(value: &Value) -> Option<Vec<f64>> {
    let one = |value: &Value| number(value).or_else(|| f64_of_base64(value.as_str()?));
    match value {
        Value::Null => Some(vec![]),
        Value::Array(values) => values.iter().map(one).collect(),
        value => one(value).map(|number| vec![number]),
    }
}

fn f64_of_base64(text: &str) -> Option<f64> {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let letters: &[u8; 11] = text.strip_suffix('=')?.as_bytes().try_into().ok()?;
    let mut bits = 0_u128;
    for letter in letters {
        bits = bits << 6 | LETTERS.iter().position(|known| known == letter)? as u128;
    }
    // 66 bits, of which the last two fill up.
    Some(f64::from_le_bytes(((bits >> 2) as u64).to_be_bytes()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a broken assumption of a test fails the test")]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn bare_words_are_numbers_and_those_within_text_are_text() {
        let said = parse(br#"{"a": NaN, "b": [-Infinity, Infinity], "c": "NaN \" NaN", "NaN": 1}"#).unwrap();
        assert_eq!(said, json!({"a": "NaN", "b": ["-Infinity", "Infinity"], "c": "NaN \" NaN", "NaN": 1}));
        for damaged in ["{\"a\": NaN", "[Nan]", "\"\\", "", "[\"a\\"] {
            assert!(parse(damaged.as_bytes()).is_err(), "{damaged}");
        }
    }

    #[test]
    fn numbers_of_attributes_are_found() {
        assert_eq!(numbers(&json!([1, 2.5, true, "-Infinity"])).unwrap(), [1.0, 2.5, 1.0, f64::NEG_INFINITY]);
        assert!(numbers(&json!("AAAAAAAA+H8=")).unwrap()[0].is_nan());
        // base64.b64encode(struct.pack("<d", -999.5))
        assert_eq!(numbers(&json!("AAAAAAA8j8A=")).unwrap(), [-999.5]);
        assert_eq!(numbers(&json!(null)).unwrap(), [0.0; 0]);
        for other in [json!("none"), json!({}), json!(["x"]), json!("AAAAAAA8j8*=")] {
            assert_eq!(numbers(&other), None, "{other}");
        }
    }
}
