//! The answer to a query, before anybody has seen it: neither text nor JSON nor a plot.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use forebay_offload::{Makings, Written};
use forebay_query::{Operator, Schema, State};

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
    /// Of the columns that were asked for.
    pub names: Vec<String>,
    /// Outputs, if a column was normalised, and who wrote them.
    pub normalised: Vec<(PathBuf, Written)>,
    pub makings: Makings,
    /// Whether it is to be shown who read, and why.
    pub explains: bool,
    pub took: Duration,
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

    /// Whether it was asked for.
    pub fn has(&self, operator: Operator) -> bool {
        self.operators.contains(&operator)
    }
}
