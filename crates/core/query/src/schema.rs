//! The schema of a file, by its first records: how many fields, their names, which columns are numeric.
//!
//! A column is numeric if its first field that is not missing is a number, so the search goes on until every column has
//! one; usually that is one record.

use std::collections::BTreeMap;

use memchr::{memchr_iter, memchr2_iter};

use crate::error::QueryError;
use crate::limits::{FAULT_TEXT_BYTES_MAX, FIELDS_MAX, RECORD_BYTES_MAX};
use crate::number::{Field, bare, field};
use crate::record::{Dialect, Record, turns_quoting};

/// Whether the first record has names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// It has if none of its fields that are not empty is a number; a word such as `inf` is none here.
    Auto,
    /// It has.
    Yes,
    /// It has not.
    No,
}

/// The columns of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    /// How its records are told apart.
    pub dialect: Dialect,
    /// A name for each column: the header's, or the column's number from 1 on.
    pub names: Vec<String>,
    /// Whether the file has a header.
    pub has_header: bool,
    /// Whether the first record may be the other thing, and nobody said which: it has text and numbers, or words that are numbers.
    pub is_header_in_doubt: bool,
    /// Of each column whether it is numeric; None while all its fields were missing.
    pub numeric: Vec<Option<bool>>,
    /// Of columns that are not, the first value: the reason.
    pub first_texts: BTreeMap<usize, String>,
    /// Where the first row begins, bytes.
    pub rows_from: u64,
    /// Newlines before that.
    pub lines_before_rows: u64,
}

impl Schema {
    /// As much of one as a pass over rows needs.
    pub fn of_rows(dialect: Dialect, numeric: Vec<Option<bool>>, rows_from: u64) -> Self {
        let (names, first_texts) = (vec![], BTreeMap::new());
        let (has_header, is_header_in_doubt, lines_before_rows) = (false, false, 0);
        Self { dialect, names, has_header, is_header_in_doubt, numeric, first_texts, rows_from, lines_before_rows }
    }

    /// The numeric columns, by index.
    pub fn numeric_columns(&self) -> Vec<usize> {
        self.numeric.iter().enumerate().filter(|(_, numeric)| **numeric == Some(true)).map(|(index, _)| index).collect()
    }
}

/// Finds the schema of a file from its beginning. Feed it what stands at `offset` until it is done.
pub struct Probe {
    dialect: Dialect,
    header: Header,
    offset: u64,
    /// Behind the byte order mark.
    begin: u64,
    /// Newlines up to the end of the first record, while that is looked for.
    lines: u64,
    schema: Option<Schema>,
    /// The same by what badly quoted rows hold: for a table that has no others, so that these are named.
    doubtful: Option<Schema>,
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

impl Probe {
    /// A search that begins.
    pub fn new(dialect: Dialect, header: Header) -> Self {
        Self { dialect, header, offset: 0, begin: 0, lines: 0, schema: None, doubtful: None }
    }

    /// Where the bytes are that it wants to see.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Takes whole records from `window`, which stands at `offset`; `is_end` if the file ends with it. True when done:
    /// every column is known, or the file is at its end. A window that has no whole record must come again, larger.
    pub fn feed(&mut self, window: &[u8], is_end: bool) -> Result<bool, QueryError> {
        let mut at = 0;
        if self.offset == 0 && window.starts_with(BYTE_ORDER_MARK) {
            at = BYTE_ORDER_MARK.len();
            self.begin = at as u64;
        }
        while at < window.len() {
            let rest = &window[at..];
            let record = self.dialect.record(rest, FIELDS_MAX);
            if self.schema.is_none() && has_lone_return(&rest[..record.len]) {
                let is_text = !rest[..record.len].contains(&0);
                return Err(if is_text { QueryError::CarriageReturns } else { QueryError::NotText });
            }
            if !record.is_ended && !is_end {
                if record.len as u64 > RECORD_BYTES_MAX {
                    return Err(QueryError::FirstRecordTooLong);
                }
                break;
            }
            at += record.len;
            let is_open = !record.is_ended && turns_quoting(rest);
            if self.schema.is_none() {
                self.lines += memchr_iter(b'\n', &rest[..record.len]).count() as u64;
            }
            if record.is_empty() {
                continue;
            }
            if record.has_too_many_fields {
                return Err(QueryError::TooManyFields);
            }
            self.take(&record, is_open, self.offset + at as u64)?;
            if self.is_known() {
                self.offset += at as u64;
                return Ok(true);
            }
        }
        self.offset += at as u64;
        Ok(is_end)
    }

    /// The schema; None if there was no record.
    pub fn finish(self) -> Option<Schema> {
        let is_unknown = |schema: &Schema| schema.numeric.iter().all(Option::is_none);
        match self.schema {
            Some(schema) if is_unknown(&schema) => self.doubtful.or(Some(schema)),
            schema => schema,
        }
    }

    fn is_known(&self) -> bool {
        self.schema.as_ref().is_some_and(|schema| schema.numeric.iter().all(Option::is_some))
    }

    /// Takes a record that ends at `end`, perhaps with its quotes open.
    fn take(&mut self, record: &Record<'_>, is_open: bool, end: u64) -> Result<(), QueryError> {
        let Some(schema) = &mut self.schema else {
            match record.misplaced_quote {
                _ if is_open => return Err(QueryError::OpenQuote),
                Some(field) => return Err(QueryError::MisplacedQuote(field + 1)),
                None => self.schema = Some(self.first(&record.fields, end)?),
            }
            return Ok(());
        };
        // Other bad rows say nothing about columns.
        if record.fields.len() == schema.numeric.len() {
            let is_bad = record.misplaced_quote.is_some() || is_open;
            let doubtful = is_bad.then(|| self.doubtful.get_or_insert_with(|| schema.clone()));
            learn(doubtful.unwrap_or(schema), &record.fields);
        }
        Ok(())
    }

    fn first(&self, fields: &[&[u8]], end: u64) -> Result<Schema, QueryError> {
        if fields.iter().any(|field| field.contains(&0)) {
            return Err(QueryError::NotText);
        }
        let evidence: Vec<Evidence> = fields.iter().map(|text| Evidence::of(text)).collect();
        let has = |kind| evidence.contains(&kind);
        let (has_header, is_header_in_doubt) = match self.header {
            Header::Auto if has(Evidence::Number) => (false, has(Evidence::Text)),
            Header::Auto => (has(Evidence::Text) || has(Evidence::Word), has(Evidence::Word)),
            Header::Yes => (true, false),
            Header::No => (false, false),
        };
        let number = |index: usize| (index + 1).to_string();
        let name = |(index, text): (usize, &&[u8])| match bare(text) {
            [] => number(index),
            text if has_header => String::from_utf8_lossy(text).replace("\"\"", "\""),
            _ => number(index),
        };
        let names = fields.iter().enumerate().map(name).collect();
        let (rows_from, lines_before_rows) = if has_header { (end, self.lines) } else { (self.begin, 0) };
        let rows = Schema::of_rows(self.dialect, vec![None; fields.len()], rows_from);
        let mut schema = Schema { names, has_header, is_header_in_doubt, lines_before_rows, ..rows };
        if !has_header {
            learn(&mut schema, fields);
        }
        Ok(schema)
    }
}

/// Evidence of one field for or against a header.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Evidence {
    /// An empty field.
    Empty,
    /// It is no name.
    Number,
    /// `inf` or `nan`: a number, and perhaps a name.
    Word,
    /// It is no number.
    Text,
}

impl Evidence {
    fn of(text: &[u8]) -> Self {
        let bare = bare(text);
        match field(text) {
            _ if bare.is_empty() => Self::Empty,
            Field::Text => Self::Text,
            Field::Number(_) if bare.iter().any(u8::is_ascii_digit) => Self::Number,
            Field::Number(_) | Field::Missing => Self::Word,
        }
    }
}

fn learn(schema: &mut Schema, fields: &[&[u8]]) {
    let Schema { numeric, first_texts, .. } = schema;
    let unknown = numeric.iter_mut().zip(fields).enumerate().filter(|(_, (numeric, _))| numeric.is_none());
    for (index, (numeric, text)) in unknown {
        match field(text) {
            Field::Missing => {}
            Field::Number(_) => *numeric = Some(true),
            Field::Text => {
                *numeric = Some(false);
                first_texts.insert(index, shown_text(bare(text)));
            }
        }
    }
}

/// The beginning of a field, for a message.
pub fn shown_text(text: &[u8]) -> String {
    String::from_utf8_lossy(&text[..text.len().min(FAULT_TEXT_BYTES_MAX)]).into_owned()
}

/// Whether a record contains a carriage return that stands neither within quotes nor at its end: it is many lines.
fn has_lone_return(record: &[u8]) -> bool {
    let end = record.iter().rposition(|byte| !b"\r\n".contains(byte)).map_or(0, |last| last + 1);
    let mut is_quoted = false;
    memchr2_iter(b'"', b'\r', &record[..end]).any(|at| {
        is_quoted ^= record[at] == b'"';
        record[at] == b'\r' && !is_quoted
    })
}
