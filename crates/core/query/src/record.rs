//! Records of CSV (RFC 4180): where one ends and where its fields are.
//!
//! Every quote turns quoting on or off, wherever it stands. So whether a place is quoted follows from the number of quotes
//! before it alone, and a file can be cut anywhere. Readers differ about a quote within a field that does not begin with one: a
//! record that has one has an end, but no fields that can be relied on.

use memchr::{memchr, memchr_iter, memchr2};

use crate::dialect::{Dialect, Separator};

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
    /// It is a comment, which has no fields.
    pub is_comment: bool,
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
    /// The record at the beginning of `bytes`. Without a newline behind it, it ends with them.
    pub fn record<'a>(&self, bytes: &'a [u8], fields_max: usize) -> Record<'a> {
        let end = end(bytes, false);
        let (len, is_ended) = (end.unwrap_or(bytes.len()), end.is_some());
        let text = &bytes[..len];
        let text = text.strip_suffix(b"\n").unwrap_or(text);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        if self.is_comment(text) {
            // Quotes turn quoting here, too, so an odd number of them takes the next lines along.
            let takes_more = memchr(b'\n', text).is_some() || turns_quoting(text);
            let misplaced_quote = takes_more.then_some(0);
            let (fields, may_have_quotes) = (vec![], true);
            let (is_comment, has_too_many_fields) = (true, false);
            return Record { fields, has_too_many_fields, len, is_ended, may_have_quotes, is_comment, misplaced_quote };
        }
        let Split { fields, has_too_many_fields, has_quotes, misplaced_quote } = match self.separator {
            Separator::Byte(byte) => split_by(byte, text, fields_max),
            // A pass never asks for records of doubles.
            Separator::Blanks | Separator::Doubles => split_by_blanks(text, fields_max),
        };
        let may_have_quotes = has_quotes || has_too_many_fields;
        Record { fields, has_too_many_fields, len, is_ended, may_have_quotes, is_comment: false, misplaced_quote }
    }

    /// Whether a line that begins so is a comment.
    pub fn is_comment(&self, line: &[u8]) -> bool {
        let line = if self.separator == Separator::Blanks { line.trim_ascii_start() } else { line };
        self.comment.is_some_and(|mark| line.first() == Some(&mark))
    }
}

/// The fields of a record.
struct Split<'a> {
    fields: Vec<&'a [u8]>,
    has_too_many_fields: bool,
    has_quotes: bool,
    misplaced_quote: Option<usize>,
}

fn split_by(delimiter: u8, text: &[u8], fields_max: usize) -> Split<'_> {
    let mut fields = Vec::with_capacity(USUAL_FIELDS);
    let (mut has_quotes, mut misplaced_quote, mut has_too_many_fields) = (false, None, false);
    let (mut from, mut is_quoted, mut last_quote) = (0, false, None);
    for at in memchr::memchr2_iter(b'"', delimiter, text) {
        if text[at] == b'"' {
            (has_quotes, is_quoted) = (true, !is_quoted);
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
                has_too_many_fields = true;
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
    Split { fields, has_too_many_fields, has_quotes, misplaced_quote }
}

fn split_by_blanks(text: &[u8], fields_max: usize) -> Split<'_> {
    let is_gap = |byte: u8| matches!(byte, b' ' | b'\t');
    let mut split = Split {
        fields: Vec::with_capacity(USUAL_FIELDS),
        has_too_many_fields: false,
        has_quotes: false,
        misplaced_quote: None,
    };
    let mut at = 0;
    loop {
        at += text[at..].iter().take_while(|byte| is_gap(**byte)).count();
        if at == text.len() {
            break;
        }
        if split.fields.len() == fields_max {
            split.has_too_many_fields = true;
            break;
        }
        let (from, mut is_quoted, mut closed) = (at, false, None);
        while at < text.len() && (is_quoted || !is_gap(text[at])) {
            if text[at] == b'"' {
                split.has_quotes = true;
                is_quoted = !is_quoted;
                let is_well = if is_quoted { at == from || closed == Some(at) } else { true };
                closed = (!is_quoted).then_some(at + 1);
                if !is_well {
                    split.misplaced_quote.get_or_insert(split.fields.len());
                }
            }
            at += 1;
        }
        if closed.is_some_and(|closed| !is_quoted && closed < at) {
            split.misplaced_quote.get_or_insert(split.fields.len());
        }
        split.fields.push(&text[from..at]);
    }
    if split.fields.is_empty() {
        split.fields.push(b"");
    }
    split
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
    /// An empty line or a comment, which is no row.
    pub fn is_none(&self) -> bool {
        self.is_comment || self.fields.len() == 1 && self.fields[0].is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(text: &str) -> (Vec<String>, usize) {
        let record = Dialect::default().record(text.as_bytes(), 100);
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
        assert!(Dialect::default().record(b",,,,", 3).has_too_many_fields);
    }

    #[test]
    fn blanks_separate_words_and_quoted_texts() {
        let dialect = Dialect { separator: Separator::Blanks, comment: Some(b'#'), ..Dialect::default() };
        let record = |text: &'static str| dialect.record(text.as_bytes(), 100);
        let fields =
            |text| record(text).fields.into_iter().map(|field| std::str::from_utf8(field).unwrap()).collect::<Vec<_>>();
        assert_eq!(fields("  1\t 2.5   x \n3"), ["1", "2.5", "x"]);
        assert_eq!(fields("\"a b\" \"c\"\"d\"\r\n"), ["\"a b\"", "\"c\"\"d\""]);
        assert_eq!(record("1 2\"x y\"\n").misplaced_quote, Some(1));
        assert_eq!(record("1 \"x\"y\n").misplaced_quote, Some(1));
        assert_eq!(record("\"x y\" 1\n").misplaced_quote, None);
        assert!(record("  \t\n").is_none() && record("  # x y\n").is_none() && !record("x # y\n").is_none());
        assert!(dialect.record(b"1 2 3 4", 3).has_too_many_fields && !dialect.record(b"1 2 3 ", 3).has_too_many_fields);
    }

    #[test]
    fn a_comment_with_an_open_quote_takes_more_than_its_line() {
        let dialect = Dialect { comment: Some(b'#'), ..Dialect::default() };
        let record = |text: &'static str| dialect.record(text.as_bytes(), 100);
        assert_eq!((record("# a,\"b\"\n1").misplaced_quote, record("# a,\"b\"\n1").len), (None, 8));
        assert_eq!(record("# 5\" pipe\n1,2\n").misplaced_quote, Some(0));
        assert!(!record(" # 1\n").is_comment, "only where blanks separate fields");
    }

    #[test]
    fn an_end_depends_on_what_came_before() {
        assert_eq!(end(b"a\nb\"\nc\n", false), Some(2));
        assert_eq!(end(b"a\nb\"\nc\n", true), Some(5));
        assert_eq!(end(b"abc", false), None);
        assert!(turns_quoting(b"a\"b") && !turns_quoting(b"\"\""));
    }
}
