//! The word of a user about how a table is written; the rest is found out (`probe`, `keys`).

use crate::dialect::Separator;
use crate::words::Words;

/// Whether the first record has names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Header {
    /// By what stands in it and below it (`names_or_data`).
    #[default]
    Auto,
    /// It has.
    Yes,
    /// It has not.
    No,
}

/// A user's word about a table; the rest is found out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// The text between fields.
    pub separator: Option<Separator>,
    /// The byte before fractions.
    pub point: Option<u8>,
    /// A line that begins with it is no record, wherever it stands.
    pub comment: Option<u8>,
    /// Lines at the beginning that are left out.
    pub skipped_lines: u64,
    /// Words that stand for a missing value.
    pub missing: Words,
    /// Whether the first record has names.
    pub header: Header,
    /// The columns that are wanted, by name or number; all without one. A file of data sets has its table by them.
    pub columns: Vec<String>,
}

pub const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
