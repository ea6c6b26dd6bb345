//! The answer to a query, before anybody has seen it: neither text nor JSON nor a plot.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use forebay_offload::{Makings, Written};
use forebay_query::{NumberColumn, Operator, Schema, State};

/// The answer of a query.
pub struct Answer {
    pub operators: Vec<Operator>,
    /// The files in a caption.
    pub named: String,
    pub files: usize,
    /// Of all files.
    pub state: State,
    /// Lines and bytes that bad rows cover.
    pub bad_extent: (u64, u64),
    /// Whether the first record of each file was taken for names or for data.
    pub first_records: Vec<FirstRecord>,
    /// Columns that are not numeric, with their first values; None if columns were named, or none is shown.
    pub left_out: Option<Vec<(String, Option<String>)>>,
    /// Findings about the files, fields that count as missing, and columns that are left out.
    pub notes: Vec<String>,
    /// Of the columns that are summed.
    pub names: Vec<String>,
    /// Whether a condition leaves out rows.
    pub is_filtered: bool,
    /// The column whose values make groups of rows.
    pub by: Option<String>,
    /// Of those that are described, in their order in the file.
    pub described: Vec<(String, DescribedAs)>,
    pub details: Details,
    /// Outputs, if a column was normalised, and who wrote them.
    pub normalised: Vec<(PathBuf, Written)>,
    pub makings: Makings,
    /// Whether it is to be shown who read, and why.
    pub explains: bool,
    pub took: Duration,
}

/// The place of a column among those that are described.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum DescribedAs {
    /// Among those of numbers.
    Number(usize),
    /// Among those of text.
    Text(usize),
}

/// How much is told of a column that is described.
pub struct Details {
    /// The shares that quantiles are of.
    pub quantiles: Vec<f64>,
    /// Frequent values.
    pub top: usize,
    /// Bins of a histogram, at most.
    pub bins: usize,
}

/// A file's first record.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FirstRecord {
    /// It has the names of the columns; else it is a row.
    pub has_names: bool,
    /// It may be the other thing.
    pub is_in_doubt: bool,
}

impl FirstRecord {
    /// That of a file.
    pub fn of(schema: &Schema) -> Self {
        Self { has_names: schema.has_header, is_in_doubt: schema.is_header_in_doubt }
    }
}

impl Answer {
    /// Bytes of the files whose values each node made; None is this host.
    pub fn values_made_by(&self) -> BTreeMap<Option<u32>, u64> {
        let mut all = BTreeMap::new();
        for (node, bytes) in self.normalised.iter().flat_map(|(_, written)| &written.made.bytes) {
            *all.entry(*node).or_default() += bytes;
        }
        all
    }

    /// The columns of numbers that are described: the place among all that are, the name, and what they hold.
    pub fn described_numbers(&self) -> impl Iterator<Item = (usize, &str, &NumberColumn)> {
        let numbers = self.state.rows.as_ref().map_or(&[][..], |rows| &rows.described.numbers);
        self.described.iter().enumerate().filter_map(move |(index, (name, held))| match held {
            DescribedAs::Number(place) => Some((index, name.as_str(), &numbers[*place])),
            DescribedAs::Text(_) => None,
        })
    }

    /// Whether it was asked for.
    pub fn has(&self, operator: Operator) -> bool {
        self.operators.contains(&operator)
    }
}
