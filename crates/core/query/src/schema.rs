//! The columns of a table, and what was found out about how it is written.

use std::collections::BTreeMap;

use crate::dialect::{Dialect, Separator};
use crate::limits::FAULT_TEXT_BYTES_MAX;
use crate::words::Words;

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
    /// Of each column whether it is numeric; None where all its fields at the beginning of the file were missing.
    pub numeric: Vec<Option<bool>>,
    /// Of columns that are not, the first value: the reason.
    pub first_texts: BTreeMap<usize, String>,
    /// Where the first row begins, bytes.
    pub rows_from: u64,
    /// Newlines before that.
    pub lines_before_rows: u64,
    /// Whether the bytes before that have an odd number of quotes, which count for nothing.
    pub turns_quoting: bool,
    /// Properties that were found out and are not as in most files.
    pub findings: Vec<Finding>,
}

/// A property of a file that was found out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Fields are separated so.
    Separator(Separator),
    /// A comma stands before fractions.
    DecimalComma,
    /// So many lines before the table are comments.
    Comments(u64),
    /// The names stand in the last of those.
    NamesInComment,
    /// So many lines before the table have fewer fields than it.
    Preamble(u64),
    /// The row below the header has units, which are these.
    Units(Vec<String>),
    /// Rows have one field more than the header: their names, at the beginning.
    RowNames,
    /// Each line is a JSON object.
    Objects,
    /// Rows end with a separator behind which nothing stands; the header does not.
    EmptyLastField,
    /// The columns are data sets of this shape; these have others.
    DataSets {
        /// Elements along each axis.
        shape: Vec<u64>,
        /// Name and shape of each.
        others: Vec<String>,
    },
    /// These data sets are not read, for a reason each.
    NotNumbers(Vec<String>),
    /// These columns are not read, for a reason each.
    NotText(Vec<String>),
    /// Values of these were stored as others, and are taken as attributes say, such as `scale_factor` and `_FillValue`.
    Unpacked(Vec<String>),
    /// Attributes bound the values of these, and others are taken, too.
    Bounded(Vec<String>),
}

impl Schema {
    /// As much of one as a pass over rows needs.
    pub fn of_rows(dialect: Dialect, fields: usize, rows_from: u64) -> Self {
        Self {
            dialect,
            names: vec![],
            has_header: false,
            is_header_in_doubt: false,
            numeric: vec![None; fields],
            first_texts: BTreeMap::new(),
            rows_from,
            lines_before_rows: 0,
            turns_quoting: false,
            findings: vec![],
        }
    }

    /// One of data sets, whose columns have these names.
    pub fn of_data_sets(names: Vec<String>, missing: Words, findings: Vec<Finding>) -> Self {
        let dialect = Dialect { separator: Separator::Doubles, missing, ..Dialect::default() };
        let numeric = vec![Some(true); names.len()];
        Self { names, has_header: true, numeric, findings, ..Self::of_rows(dialect, 0, 0) }
    }

    /// Whether its rows are doubles.
    pub fn is_of_doubles(&self) -> bool {
        self.dialect.separator == Separator::Doubles
    }

    /// The columns that may be numeric, by index.
    pub fn numeric_columns(&self) -> Vec<usize> {
        self.numeric
            .iter()
            .enumerate()
            .filter(|(_, numeric)| **numeric != Some(false))
            .map(|(index, _)| index)
            .collect()
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let lines = |count: &u64| if *count == 1 { "1 line".to_owned() } else { format!("{count} lines") };
        match self {
            Self::Separator(separator) => write!(out, "the delimiter is {}", separator.name()),
            Self::DecimalComma => out.write_str("a comma stands before fractions"),
            Self::Comments(count) => write!(out, "{} before the table: comments", lines(count)),
            Self::NamesInComment => out.write_str("the last comment before the table has the names"),
            Self::Preamble(count) => write!(out, "{} before the table, with fewer fields: left out", lines(count)),
            Self::Units(units) => write!(out, "the row below the header has units ({}): left out", units.join(", ")),
            Self::RowNames => out.write_str("rows have a field more than the header: their names"),
            Self::Objects => out.write_str("each line is a JSON object, whose keys name the columns"),
            Self::EmptyLastField => out.write_str("rows end with a delimiter, the header does not"),
            Self::DataSets { shape, others } => {
                write!(out, "the table is of data sets of shape {}", shown_shape(shape))?;
                match &others[..] {
                    [] => Ok(()),
                    others => write!(out, "; --columns names others: {}", few(others)),
                }
            }
            Self::NotNumbers(names) => write!(out, "data sets that are left out: {}", few(names)),
            Self::NotText(names) => write!(out, "columns that are left out: {}", few(names)),
            Self::Unpacked(names) => {
                write!(out, "attributes such as scale_factor and _FillValue were applied to {}", few(names))
            }
            Self::Bounded(names) => {
                write!(out, "valid_range, valid_min and valid_max were not applied to {}", few(names))
            }
        }
    }
}

/// A name as people see it: control characters would move the cursor of a terminal, or worse, and a name may be as long as a
/// record.
pub fn shown_name(name: &str) -> String {
    /// As a column of a table has room for.
    const LETTERS_MAX: usize = 60;
    let mut letters = name.chars();
    let mut shown = String::new();
    for letter in letters.by_ref().take(LETTERS_MAX) {
        match letter.is_control() {
            true => shown.extend(letter.escape_default()),
            false => shown.push(letter),
        }
    }
    if letters.next().is_some() {
        shown.push_str("...");
    }
    shown
}

/// A shape, as `12 x 180 x 360`.
pub fn shown_shape(shape: &[u64]) -> String {
    match shape {
        [] => "one value".to_owned(),
        shape => shape.iter().map(u64::to_string).collect::<Vec<_>>().join(" x "),
    }
}

/// The first of some names, and how many more there are.
fn few(names: &[String]) -> String {
    /// As many as a line has room for.
    const SHOWN_MAX: usize = 8;
    let shown = names.iter().take(SHOWN_MAX).map(|name| shown_name(name)).collect::<Vec<_>>().join(", ");
    match names.len().checked_sub(SHOWN_MAX) {
        Some(more) if more > 0 => format!("{shown} and {more} more"),
        _ => shown,
    }
}

/// The beginning of a field, for a message.
pub fn shown_text(text: &[u8]) -> String {
    String::from_utf8_lossy(&text[..text.len().min(FAULT_TEXT_BYTES_MAX)]).into_owned()
}
