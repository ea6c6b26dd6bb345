//! Rows that are JSON objects, one a line (NDJSON): their members by key.
//!
//! A newline never stands within a string of JSON, so rows end at every newline, whatever quotes there are. An object is looked through
//! once; its values stay as they stand, and are taken as fields of CSV are. Objects and arrays in it are text.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use memchr::{memchr, memchr3};

/// The keys of a table, in the order of its columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keys {
    names: Arc<[String]>,
    places: Arc<BTreeMap<Vec<u8>, usize>>,
}

impl Keys {
    /// These, of which each is there once.
    pub fn new(names: &[String]) -> Self {
        let places = names.iter().enumerate().map(|(place, name)| (name.clone().into_bytes(), place)).collect();
        Self { names: names.into(), places: Arc::new(places) }
    }

    /// As columns.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The column of a key as it stands between its quotes. Most objects have their keys in one order: the one at `next` is looked at first,
    /// and is the one behind it afterwards.
    #[inline]
    pub fn find(&self, key: &[u8], next: &mut usize) -> Option<usize> {
        if self.names.get(*next).is_some_and(|name| name.as_bytes() == key) {
            *next += 1;
            return Some(*next - 1);
        }
        let place = match memchr(b'\\', key) {
            None => self.places.get(key),
            Some(_) => self.places.get(&unescaped(key)),
        };
        *next = place? + 1;
        place.copied()
    }
}

/// The object of the line at `at`: gives the key of each member, as it stands between its quotes, and the place of its value, with quotes.
/// That of `null` is empty. Where the next line begins, or the bytes end; None if the line is no object, or has none.
#[inline]
pub fn object<'a>(bytes: &'a [u8], at: usize, mut take: impl FnMut(&'a [u8], Range<usize>)) -> Option<usize> {
    let mut at = blanks(bytes, at);
    if *bytes.get(at)? != b'{' {
        return None;
    }
    at = blanks(bytes, at + 1);
    if *bytes.get(at)? == b'}' {
        return line_end(bytes, at + 1);
    }
    loop {
        if *bytes.get(at)? != b'"' {
            return None;
        }
        let key = at + 1;
        let key_end = string_end(bytes, key)?;
        at = blanks(bytes, key_end);
        if *bytes.get(at)? != b':' {
            return None;
        }
        let value = blanks(bytes, at + 1);
        at = value_end(bytes, value)?;
        let is_null = &bytes[value..at] == b"null";
        take(&bytes[key..key_end - 1], if is_null { value..value } else { value..at });
        at = blanks(bytes, at);
        match *bytes.get(at)? {
            b',' => at = blanks(bytes, at + 1),
            b'}' => return line_end(bytes, at + 1),
            _ => return None,
        }
    }
}

/// The first byte from `at` on that is no blank.
#[inline(always)]
fn blanks(bytes: &[u8], mut at: usize) -> usize {
    while matches!(bytes.get(at), Some(b' ' | b'\t' | b'\r')) {
        at += 1;
    }
    at
}

/// Where the next line begins, if nothing but blanks is left of this one.
#[inline(always)]
fn line_end(bytes: &[u8], at: usize) -> Option<usize> {
    let at = blanks(bytes, at);
    match bytes.get(at) {
        Some(b'\n') => Some(at + 1),
        Some(_) => None,
        None => Some(at),
    }
}

/// Behind the quote that ends the string whose text begins at `at`.
#[inline]
fn string_end(bytes: &[u8], mut at: usize) -> Option<usize> {
    // Most are short.
    for _ in 0..SHORT_BYTES {
        match *bytes.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' | b'\n' => break,
            _ => at += 1,
        }
    }
    loop {
        at += memchr3(b'"', b'\\', b'\n', bytes.get(at..)?)?;
        match bytes[at] {
            b'"' => return Some(at + 1),
            b'\\' if bytes.get(at + 1).is_some_and(|escaped| *escaped != b'\n') => at += 2,
            _ => return None,
        }
    }
}

/// Bytes of a string that are looked at one by one.
const SHORT_BYTES: usize = 12;

/// Behind the value that begins at `at`.
#[inline]
fn value_end(bytes: &[u8], at: usize) -> Option<usize> {
    match *bytes.get(at)? {
        b'"' => string_end(bytes, at + 1),
        b'{' | b'[' => nested_end(bytes, at),
        b'-' | b'0'..=b'9' => {
            let is_of_number = |byte: &&u8| matches!(byte, b'0'..=b'9' | b'.' | b'-' | b'+' | b'e' | b'E');
            let len = bytes[at..].iter().take_while(is_of_number).count();
            // As Python writes it.
            let is_infinite = len == 1 && bytes[at + 1..].starts_with(b"Infinity");
            Some(at + len + if is_infinite { b"Infinity".len() } else { 0 })
        }
        _ => {
            let words: [&[u8]; 5] = [b"null", b"true", b"false", b"NaN", b"Infinity"];
            words.iter().find(|word| bytes[at..].starts_with(word)).map(|word| at + word.len())
        }
    }
}

/// Behind the object or array that begins at `at`: where its brackets close, of whatever kind.
fn nested_end(bytes: &[u8], mut at: usize) -> Option<usize> {
    let mut depth = 0usize;
    loop {
        let byte = *bytes.get(at)?;
        at += 1;
        match byte {
            b'"' => at = string_end(bytes, at)?,
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return Some(at);
                }
            }
            b'\n' => return None,
            _ => {}
        }
    }
}

/// The text that a string of JSON stands for; an escape that is none stays as it is.
pub fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        at += 1;
        if *byte != b'\\' {
            out.push(*byte);
            continue;
        }
        let escape = text.get(at).copied().unwrap_or(b'\\');
        at += 1;
        match escape {
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'u' => {
                let (letter, len) = code_point(&text[at..]);
                out.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
                at += len;
            }
            other => out.push(other),
        }
    }
    out
}

/// The letter of the digits behind `\u`, and how many bytes they and those of its second half take. One that is none is U+FFFD.
fn code_point(text: &[u8]) -> (char, usize) {
    let unit = |at: usize| {
        let digits = std::str::from_utf8(text.get(at..at + 4)?).ok()?;
        digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then(|| u32::from_str_radix(digits, 16).ok())?
    };
    let Some(first) = unit(0) else { return (char::REPLACEMENT_CHARACTER, 0) };
    let second = || (text.get(4..6)? == b"\\u").then(|| unit(6))?.filter(|second| (0xdc00..0xe000).contains(second));
    match (first, (0xd800..0xdc00).contains(&first).then(second).flatten()) {
        (first, Some(second)) => {
            let letter = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
            (char::from_u32(letter).unwrap_or(char::REPLACEMENT_CHARACTER), 10)
        }
        (first, None) => (char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER), 4),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(line: &str) -> Option<Vec<(&str, &str)>> {
        let mut found = vec![];
        let text = |bytes| std::str::from_utf8(bytes).expect("parts of a text");
        let end = object(line.as_bytes(), 0, |key, value| found.push((text(key), &line[value])))?;
        assert_eq!(end, line.len());
        Some(found)
    }

    #[test]
    fn members_are_found_whatever_stands_in_them() {
        assert_eq!(members("{}\n"), Some(vec![]));
        assert_eq!(members(r#"{"a":1,"b":"x"}"#), Some(vec![("a", "1"), ("b", "\"x\"")]));
        assert_eq!(
            members(" { \"a\\\"}\" : null ,\t\"b\":-1.5e+3 , \"c\" : [1,{\"]\":\"}\\\"\"}] } \r\n"),
            Some(vec![("a\\\"}", ""), ("b", "-1.5e+3"), ("c", "[1,{\"]\":\"}\\\"\"}]")])
        );
        assert_eq!(members(r#"{"a":-Infinity,"a":NaN}"#), Some(vec![("a", "-Infinity"), ("a", "NaN")]));
        assert_eq!(members(&format!("{{\"{0}\":\"{0}\\\\\"}}", "k".repeat(50))).map(|found| found.len()), Some(1));
        for broken in [
            "",
            "1",
            "null",
            "[1]",
            "{",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "{\"a\":1 \"b\":2}",
            "{\"a\":1}x",
            "{a:1}",
            "{\"a\":x}",
            "{\"a\":\"x}",
            "{\"a\":[1}",
            "{\"a\":\"x\\",
            "{\"a\":\"x\ny\"}",
            "{\"a\":[\n]}",
            "{\"a\":1}{\"a\":2}",
            "{\"a\":-Inf}",
        ] {
            assert_eq!(members(broken), None, "{broken:?}");
        }
    }

    #[test]
    fn escapes_stand_for_letters() {
        let of = |text: &str| String::from_utf8(unescaped(text.as_bytes())).expect("UTF-8");
        assert_eq!(of(r#"a\"\\\/\b\f\n\r\tz"#), "a\"\\/\u{8}\u{c}\n\r\tz");
        assert_eq!(of(r"\u00e9\uD83D\ude00\u0041"), "\u{e9}\u{1f600}A");
        assert_eq!(of(r"\ud83d!\udc00\u12"), "\u{fffd}!\u{fffd}\u{fffd}12");
    }

    #[test]
    fn a_key_is_found_in_any_order() {
        let keys = Keys::new(&["a", "b", "\u{e9}\""].map(str::to_owned));
        let mut next = 0;
        let mut find = |key: &str| keys.find(key.as_bytes(), &mut next);
        assert_eq!([find("b"), find("a"), find("b"), find(r#"\u00e9\""#)], [Some(1), Some(0), Some(1), Some(2)]);
        assert_eq!([find("c"), find("")], [None, None]);
    }
}
