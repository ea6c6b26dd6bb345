//! Why a query cannot be answered. No state changes with any of them.

use crate::limits::{DESCRIBED_COLUMNS_MAX, FIELDS_MAX, GRAMIAN_COLUMNS_MAX, RECORD_BYTES_MAX};

/// The error of a file or of a request about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// The first record has bytes that no text has.
    #[error("it is not a CSV file: its first record contains a NUL byte")]
    NotText,
    /// A file of a known format that is no text table.
    #[error("it is {name}; {remedy}")]
    OtherFormat {
        /// Its format.
        name: &'static str,
        /// The way to make it one.
        remedy: &'static str,
    },
    /// Lines that are to be skipped.
    #[error("it has fewer than the {0} lines that --skip leaves out")]
    FewerLines(u64),
    /// No end of the first record.
    #[error("it is not a CSV file: its first record is longer than {} MiB", RECORD_BYTES_MAX >> 20)]
    FirstRecordTooLong,
    /// Too many fields.
    #[error("a record has more than {FIELDS_MAX} fields; is the delimiter right?")]
    TooManyFields,
    /// Too many keys.
    #[error("its objects have more than {FIELDS_MAX} different keys")]
    TooManyKeys,
    /// The quotes of the first record, in a field from 1 on.
    #[error(
        "its first record has a quote inside an unquoted field, or text behind a closing quote, in field {0}; a quote within a \
         field is doubled, and the field stands in quotes"
    )]
    MisplacedQuote(usize),
    /// No end of the first record's quotes.
    #[error("its first record has a quote that is never closed")]
    OpenQuote,
    /// Lines without newlines.
    #[error(
        "its lines end with carriage returns alone, or an unquoted field of its first record contains one; convert it first \
         (tr '\\r' '\\n' < FILE)"
    )]
    CarriageReturns,
    /// A file without a record.
    #[error("it is empty: it has no columns")]
    Empty,
    /// A file without numeric columns.
    #[error("it has no numeric column (one whose fields are numbers, or missing)")]
    NoNumericColumn,
    /// More columns than are described at once.
    #[error(
        "{0} columns are too many to describe at once: {DESCRIBED_COLUMNS_MAX} is the most; name some with --columns"
    )]
    TooManyDescribed(usize),
    /// A column that was asked for.
    #[error("it has no column {asked:?}; it has {has}")]
    NoSuchColumn {
        /// As asked.
        asked: String,
        /// The columns that there are.
        has: String,
    },
    /// A name that several columns have.
    #[error("it has several columns named {asked:?}; give the number of one: {numbers}")]
    SeveralColumns {
        /// As asked.
        asked: String,
        /// Of the columns, from 1 on.
        numbers: String,
    },
    /// A column that was asked for holds text.
    #[error("column {name:?} is not numeric: its first value is {text:?}")]
    NotNumeric {
        /// Its name.
        name: String,
        /// Its first value.
        text: String,
    },
    /// More columns than a request may name.
    #[error("{0} columns are requested: {FIELDS_MAX} is the most; name fewer with --columns")]
    TooManyColumns(usize),
    /// A Gramian of too many columns.
    #[error("a Gramian of {0} columns is too large: {GRAMIAN_COLUMNS_MAX} is the most; choose some with --columns")]
    GramianTooLarge(usize),
    /// Files that are no one table.
    #[error("its columns are {here}, but those of the first file are {first}")]
    OtherColumns {
        /// Of this file.
        here: String,
        /// Of the first.
        first: String,
    },
}

/// A partial that cannot be merged: its blocks overlap, are missing, or it is of another query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// A block is there twice.
    #[error("block {0} is there twice")]
    Overlap(u64),
    /// A block is not there.
    #[error("block {0} is missing")]
    Missing(u64),
    /// Partials of different operators or columns.
    #[error("it is a partial of another query")]
    OtherQuery,
}
