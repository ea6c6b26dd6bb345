//! What a file's first records say of all: how many fields, their names, which columns are numeric.
//!
//! A column is numeric if its first field that is not missing is a number, so the search goes on until every column has
//! one; usually that is one record.

use crate::error::QueryError;
use crate::limits::{FIELDS_MAX, RECORD_BYTES_MAX};
use crate::number::{Field, bare, field};
use crate::record::Dialect;

/// Whether the first record has names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// It has if none of its fields that are not empty is a number.
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
    /// Of each column whether it is numeric; None while all its fields were missing.
    pub numeric: Vec<Option<bool>>,
    /// Where the first row begins, bytes.
    pub rows_from: u64,
}

impl Schema {
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
    schema: Option<Schema>,
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

impl Probe {
    /// A search that begins.
    pub fn new(dialect: Dialect, header: Header) -> Self {
        Self { dialect, header, offset: 0, begin: 0, schema: None }
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
            if !record.is_ended && !is_end {
                if record.len as u64 > RECORD_BYTES_MAX {
                    return Err(QueryError::FirstRecordTooLong);
                }
                break;
            }
            at += record.len;
            if record.is_empty() {
                continue;
            }
            if record.has_too_many_fields {
                return Err(QueryError::TooManyFields);
            }
            self.take(&record.fields, self.offset + at as u64)?;
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
        self.schema
    }

    fn is_known(&self) -> bool {
        self.schema.as_ref().is_some_and(|schema| schema.numeric.iter().all(Option::is_some))
    }

    /// Takes a record that ends at `end`.
    fn take(&mut self, fields: &[&[u8]], end: u64) -> Result<(), QueryError> {
        let Some(schema) = &mut self.schema else {
            self.schema = Some(self.first(fields, end)?);
            return Ok(());
        };
        if fields.len() != schema.numeric.len() {
            return Ok(());
        }
        learn(&mut schema.numeric, fields);
        Ok(())
    }

    fn first(&self, fields: &[&[u8]], end: u64) -> Result<Schema, QueryError> {
        if fields.iter().any(|field| field.contains(&0)) {
            return Err(QueryError::NotText);
        }
        let is_number = |text: &&[u8]| matches!(field(text), Field::Number(_));
        let has_header = match self.header {
            Header::Auto => !fields.iter().any(is_number) && fields.iter().any(|text| !bare(text).is_empty()),
            Header::Yes => true,
            Header::No => false,
        };
        let number = |index: usize| (index + 1).to_string();
        let name = |(index, text): (usize, &&[u8])| match bare(text) {
            [] => number(index),
            text if has_header => String::from_utf8_lossy(text).replace("\"\"", "\""),
            _ => number(index),
        };
        let names = fields.iter().enumerate().map(name).collect();
        let mut numeric = vec![None; fields.len()];
        if !has_header {
            learn(&mut numeric, fields);
        }
        let rows_from = if has_header { end } else { self.begin };
        Ok(Schema { dialect: self.dialect, names, has_header, numeric, rows_from })
    }
}

fn learn(numeric: &mut [Option<bool>], fields: &[&[u8]]) {
    for (numeric, text) in numeric.iter_mut().zip(fields).filter(|(numeric, _)| numeric.is_none()) {
        *numeric = match field(text) {
            Field::Missing => None,
            Field::Number(_) => Some(true),
            Field::Text => Some(false),
        };
    }
}
