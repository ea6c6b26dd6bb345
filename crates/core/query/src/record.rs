//! Records of CSV (RFC 4180): where one ends and where its fields are.
//!
//! Every quote turns quoting on or off, wherever it stands. So whether a place is quoted follows from the number of quotes
//! before it alone, and a file can be cut anywhere. Readers differ about a quote within a field that does not begin with one: a
//! record that has one has an end, but no fields that can be relied on.

use memchr::{memchr_iter, memchr2};

/// How fields and records are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dialect {
    /// The byte between fields.
    pub(crate) delimiter: u8,
}

/// Fields that there is room for from the beginning.
const USUAL_FIELDS: usize = 16;

/// One record.
pub struct Record<'a> {
    /// Its fields as they stand, quotes included.
    pub fields: Vec<&'a [u8]>,
    /// More fields than are kept.
    pub has_too_many_fields: bool,
    /// Bytes up to the next record.
    pub len: usize,
    /// A newline ends it, not the end of the bytes.
    pub is_ended: bool,
    /// Without quotes it has no newline but the one at its end.
    pub may_have_quotes: bool,
    /// The first field with a quote that neither opens it, nor closes it, nor is one of two that stand for one.
    pub misplaced_quote: Option<usize>,
}

/// Where the record that contains the beginning of `bytes` ends: the place behind its newline. None if not in them.
pub fn end(bytes: &[u8], mut is_quoted: bool) -> Option<usize> {
    let mut at = 0;
    loop {
        at += memchr2(b'"', b'\n', &bytes[at..])? + 1;
        match bytes[at - 1] {
            b'"' => is_quoted = !is_quoted,
            _ if is_quoted => {}
            _ => return Some(at),
        }
    }
}

/// Whether quoting is another after the bytes than before.
pub fn turns_quoting(bytes: &[u8]) -> bool {
    memchr_iter(b'"', bytes).count() % 2 == 1
}

impl Dialect {
    /// The byte between fields.
    pub fn delimiter(&self) -> u8 {
        self.delimiter
    }

    /// A dialect with a delimiter that no number, quote or line end has.
    pub fn new(delimiter: u8) -> Option<Self> {
        let is_taken = delimiter.is_ascii_alphanumeric() || b"\"\r\n.+-\0".contains(&delimiter);
        (delimiter.is_ascii() && !is_taken).then_some(Self { delimiter })
    }

    /// The record at the beginning of `bytes`. Without a newline behind it, it ends with them.
    pub fn record<'a>(&self, bytes: &'a [u8], fields_max: usize) -> Record<'a> {
        let end = end(bytes, false);
        let (len, is_ended) = (end.unwrap_or(bytes.len()), end.is_some());
        let text = &bytes[..len];
        let text = text.strip_suffix(b"\n").unwrap_or(text);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        let mut fields = Vec::with_capacity(USUAL_FIELDS);
        let (mut may_have_quotes, mut misplaced_quote, mut has_too_many_fields) = (false, None, false);
        let (mut from, mut is_quoted, mut last_quote) = (0, false, None);
        for at in memchr::memchr2_iter(b'"', self.delimiter, text) {
            if text[at] == b'"' {
                (may_have_quotes, is_quoted) = (true, !is_quoted);
                if is_quoted && !may_open(text, from, last_quote, at) {
                    misplaced_quote.get_or_insert(fields.len());
                }
                last_quote = Some(at);
            } else if !is_quoted {
                if last_quote.is_some_and(|last| !is_blank(&text[last + 1..at])) {
                    misplaced_quote.get_or_insert(fields.len());
                }
                fields.push(&text[from..at]);
                (from, last_quote) = (at + 1, None);
                if fields.len() == fields_max {
                    (has_too_many_fields, may_have_quotes) = (true, true);
                    break;
                }
            }
        }
        if !has_too_many_fields {
            if last_quote.is_some_and(|last| !is_quoted && !is_blank(&text[last + 1..])) {
                misplaced_quote.get_or_insert(fields.len());
            }
            fields.push(&text[from..]);
        }
        Record { fields, has_too_many_fields, len, is_ended, may_have_quotes, misplaced_quote }
    }
}

/// Whether a quote at `at` may open quotes, in a field that begins at `from`: it opens the field, or doubles the quote before it.
fn may_open(text: &[u8], from: usize, last_quote: Option<usize>, at: usize) -> bool {
    match last_quote {
        None => is_blank(&text[from..at]),
        Some(last) => last + 1 == at,
    }
}

fn is_blank(text: &[u8]) -> bool {
    text.trim_ascii_start().is_empty()
}

impl Record<'_> {
    /// An empty line, which is no row.
    pub fn is_empty(&self) -> bool {
        self.fields.len() == 1 && self.fields[0].is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(text: &str) -> (Vec<String>, usize) {
        let record = Dialect { delimiter: b',' }.record(text.as_bytes(), 100);
        (record.fields.iter().map(|field| String::from_utf8(field.to_vec()).unwrap()).collect(), record.len)
    }

    #[test]
    fn quotes_hide_delimiters_and_newlines() {
        let said = |parts: &[&str], len| (parts.iter().map(|part| part.to_string()).collect::<Vec<_>>(), len);
        assert_eq!(fields("a,b\nc"), said(&["a", "b"], 4));
        assert_eq!(fields("a,b\r\nc"), said(&["a", "b"], 5));
        assert_eq!(fields("\"a,\nb\",\"\"\"\"\n1"), said(&["\"a,\nb\"", "\"\"\"\""], 12));
        assert_eq!(fields(",,"), said(&["", "", ""], 2));
        assert_eq!(fields("\r\n"), said(&[""], 2));
        assert_eq!(fields("a\rb\n"), said(&["a\rb"], 4));
        assert_eq!(fields("\"open\n1\n"), said(&["\"open\n1"], 8));
        assert!(Dialect { delimiter: b',' }.record(b",,,,", 3).has_too_many_fields);
    }

    #[test]
    fn an_end_depends_on_what_came_before() {
        assert_eq!(end(b"a\nb\"\nc\n", false), Some(2));
        assert_eq!(end(b"a\nb\"\nc\n", true), Some(5));
        assert_eq!(end(b"abc", false), None);
        assert!(turns_quoting(b"a\"b") && !turns_quoting(b"\"\""));
    }
}
