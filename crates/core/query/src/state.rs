//! The state of some blocks of a file: the partial that nodes make and merge.

use serde::{Deserialize, Serialize};

use crate::byte_counts::ByteCounts;
use crate::co_moments::CoMoments;
use crate::column::Column;
use crate::describe::Described;
use crate::gramian::Gramian;
use crate::groups::Groups;
use crate::limits::{BAD_ROWS_NAMED_MAX, FAULT_TEXT_BYTES_MAX, RECORD_BYTES_MAX};
use crate::schema::Schema;
use crate::text_fields::TextFields;

/// The state of neighbouring blocks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// How many bytes.
    pub bytes: u64,
    /// How many of them are newlines.
    pub lines: u64,
    /// How often each byte occurs, if asked for.
    pub byte_counts: Option<ByteCounts>,
    /// Their rows, if asked for.
    pub rows: Option<Rows>,
}

/// The rows that begin in some blocks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rows {
    /// Rows that count.
    pub good: u64,
    /// Rows that do not.
    pub bad: u64,
    /// Rows that a filter leaves out.
    pub filtered: u64,
    /// The first of those.
    pub named: Vec<BadRow>,
    /// The chosen columns.
    pub columns: Vec<Column>,
    /// Of each of them the fields that are no numbers.
    pub texts: Vec<TextFields>,
    /// Their Gramian, if asked for.
    pub gramian: Option<Gramian>,
    /// Their covariances, if asked for.
    pub covariance: Option<CoMoments>,
    /// The chosen columns by groups of rows, if asked for.
    pub groups: Option<Groups>,
    /// The columns that are described, if asked for.
    pub described: Described,
    /// Bytes of good rows and empty lines: all others behind the header are those of bad rows.
    pub kept_bytes: u64,
    /// Newlines among them.
    pub kept_lines: u64,
}

/// A row that is left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BadRow {
    /// Newlines before it, from where its state begins.
    pub lines_before: u64,
    /// Lines that it covers; 0 where its end is not known (`Fault::TooLong`).
    pub lines: u64,
    /// Bytes that it has; 0 likewise.
    pub bytes: u64,
    /// The reason.
    pub fault: Fault,
}

/// The reason why a row is bad.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fault {
    /// It has another number of fields than the first record.
    Fields {
        /// As many.
        has: u32,
        /// As many as the first.
        expected: u32,
    },
    /// A field of a numeric column is no number.
    Text {
        /// The column, from 0 on.
        column: u32,
        /// The beginning of what stands there.
        text: String,
    },
    /// A comment has an odd number of quotes.
    CommentQuote,
    /// It has more bytes than a record may have.
    TooLong,
    /// The file ends within quotes.
    OpenQuote,
    /// A quote inside an unquoted field, or text behind a closing quote.
    MisplacedQuote {
        /// The field, from 0 on.
        column: u32,
    },
    /// A line of a file of JSON objects is none.
    NoObject,
}

impl Fault {
    /// Whether it shows no more than a message does: any byte may have become a replacement character.
    fn is_short(&self) -> bool {
        match self {
            Self::Text { text, .. } => text.len() <= FAULT_TEXT_BYTES_MAX * char::REPLACEMENT_CHARACTER.len_utf8(),
            _ => true,
        }
    }
}

impl State {
    /// Newlines and bytes that bad rows cover, if this is the state of a whole file with that schema.
    pub fn bad_extent(&self, schema: &Schema) -> (u64, u64) {
        let Some(rows) = &self.rows else { return (0, 0) };
        let rest = |all: u64, before: u64, kept: u64| all.saturating_sub(before).saturating_sub(kept);
        (
            rest(self.lines, schema.lines_before_rows, rows.kept_lines),
            rest(self.bytes, schema.rows_from, rows.kept_bytes),
        )
    }

    /// This and what comes after it in the file.
    pub fn merge(mut self, after: &Self) -> Self {
        if let (Some(rows), Some(more)) = (&mut self.rows, &after.rows) {
            rows.merge(more, self.lines);
        }
        if let (Some(counts), Some(more)) = (&mut self.byte_counts, &after.byte_counts) {
            counts.merge(more);
        }
        self.bytes += after.bytes;
        self.lines += after.lines;
        self
    }

    /// The same blocks without the rows that begin in them.
    pub(crate) fn without_rows(mut self) -> Self {
        if let Some(rows) = &mut self.rows {
            let columns = rows.columns.len();
            let gramian = rows.gramian.as_ref().map(|_| Gramian::new(columns));
            let covariance = rows.covariance.as_ref().map(|_| CoMoments::new(columns));
            let groups = rows.groups.as_ref().map(|_| Groups::default());
            let described = Described::of(rows.described.numbers.len(), rows.described.texts.len());
            *rows = Rows { gramian, covariance, groups, described, ..Rows::of(columns) };
        }
        self
    }

    /// Whether both are partials of one query.
    pub fn is_like(&self, other: &Self) -> bool {
        let shape = |state: &Self| {
            let described = |rows: &Rows| (rows.described.numbers.len(), rows.described.texts.len());
            let optional = |rows: &Rows| (rows.gramian.is_some(), rows.covariance.is_some(), rows.groups.is_some());
            let rows = state.rows.as_ref().map(|rows| (rows.columns.len(), optional(rows), described(rows)));
            (state.byte_counts.is_some(), rows)
        };
        shape(self) == shape(other) && self.is_sound() && other.is_sound()
    }

    /// Whether its parts fit each other; one from the network may not. No count in a sound state exceeds its bytes, so
    /// counts of sound states add up without overflow wherever their bytes do.
    pub fn is_sound(&self) -> bool {
        let counts = |counts: &ByteCounts| counts.are_of(self.bytes, self.lines);
        let rows = |rows: &Rows| rows.are_sound(self.bytes, self.lines);
        self.lines <= self.bytes && self.byte_counts.as_ref().is_none_or(counts) && self.rows.as_ref().is_none_or(rows)
    }
}

impl Rows {
    /// No rows of so many columns.
    pub fn of(columns: usize) -> Self {
        let (columns, texts) = (vec![Column::default(); columns], vec![TextFields::default(); columns]);
        Self { columns, texts, ..Self::default() }
    }

    /// Which of the columns, by their places, are not columns of numbers: they have no number, or text beside numbers.
    pub fn not_numeric(&self) -> Vec<usize> {
        let is_none = |place: &usize| self.columns[*place].missing() == self.good || self.texts[*place].texts > 0;
        (0..self.columns.len()).filter(is_none).collect()
    }

    /// The same rows with these columns alone, by their places; without their Gramian and covariances, which other rows may count for.
    #[must_use]
    pub fn of_columns(mut self, places: &[usize]) -> Self {
        self.columns = places.iter().map(|place| self.columns[*place].clone()).collect();
        self.texts = places.iter().map(|place| self.texts[*place].clone()).collect();
        (self.gramian, self.covariance) = (None, None);
        self.groups = self.groups.map(|groups| groups.of_columns(places));
        self
    }

    /// Whether they can be of so many bytes and lines: each row begins at a byte of its own.
    fn are_sound(&self, bytes: u64, lines: u64) -> bool {
        let all = self.good.checked_add(self.bad).and_then(|all| all.checked_add(self.filtered));
        // Each good row begins at a byte of its own, and ends behind these bytes perhaps.
        let kept = self.kept_lines <= self.kept_bytes && self.kept_bytes <= bytes.saturating_mul(RECORD_BYTES_MAX);
        let is_row =
            |row: &BadRow| row.lines_before <= lines && row.bytes <= RECORD_BYTES_MAX && row.lines <= row.bytes + 1;
        let named = self.named.len() <= BAD_ROWS_NAMED_MAX && self.named.len() as u64 <= self.bad;
        let gramian = |gramian: &Gramian| gramian.has_columns(self.columns.len()) && gramian.rows() <= self.good;
        let covariance = |of: &CoMoments| of.has_columns(self.columns.len()) && of.rows() <= self.good;
        all.is_some_and(|all| all <= bytes)
            && named
            && kept
            && self.named.iter().all(|row| is_row(row) && row.fault.is_short())
            && self.columns.iter().all(|column| column.is_of(self.good))
            && self.texts.len() == self.columns.len()
            && self.texts.iter().zip(&self.columns).all(|(texts, column)| texts.is_of(column.missing(), lines))
            && self.gramian.as_ref().is_none_or(gramian)
            && self.covariance.as_ref().is_none_or(covariance)
            && self.groups.as_ref().is_none_or(|groups| groups.are_of(self.good, self.columns.len()))
            && self.described.is_of(self.good, lines)
    }

    fn merge(&mut self, after: &Self, lines: u64) {
        self.good += after.good;
        self.bad += after.bad;
        self.filtered += after.filtered;
        self.kept_bytes = self.kept_bytes.saturating_add(after.kept_bytes);
        self.kept_lines = self.kept_lines.saturating_add(after.kept_lines);
        let room = BAD_ROWS_NAMED_MAX.saturating_sub(self.named.len());
        let moved = |row: &BadRow| BadRow { lines_before: row.lines_before + lines, ..row.clone() };
        self.named.extend(after.named.iter().take(room).map(moved));
        for (column, more) in self.columns.iter_mut().zip(&after.columns) {
            column.merge(more);
        }
        for (texts, more) in self.texts.iter_mut().zip(&after.texts) {
            texts.merge(more, lines);
        }
        if let (Some(gramian), Some(more)) = (&mut self.gramian, &after.gramian) {
            gramian.merge(more);
        }
        if let (Some(covariance), Some(more)) = (&mut self.covariance, &after.covariance) {
            covariance.merge(more);
        }
        if let (Some(groups), Some(more)) = (&mut self.groups, &after.groups) {
            groups.merge(more, self.columns.len());
        }
        self.described.merge(&after.described, lines);
    }
}
