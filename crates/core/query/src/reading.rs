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
    /// Rows begin right behind it: no comments, units or other lines stand before them.
    pub is_bare: bool,
    /// The columns that are wanted, by name or number; all without one. A file of data sets has its table by them.
    pub columns: Vec<String>,
}

impl Reading {
    /// The name of an option that only text has a meaning for, if one is given.
    #[must_use]
    pub fn option_of_text(&self) -> Option<&'static str> {
        let given = [
            ("delimiter", self.separator.is_some()),
            ("decimal", self.point.is_some()),
            ("comment", self.comment.is_some()),
            ("skip", self.skipped_lines > 0),
            ("header", self.header == Header::No),
        ];
        given.into_iter().find_map(|(option, is_given)| is_given.then_some(option))
    }
}

pub const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
