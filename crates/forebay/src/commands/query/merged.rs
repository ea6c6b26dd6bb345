//! The states of files, merged one after the other: of thousands there is one in memory, beside what the second pass and messages need.

use std::collections::BTreeMap;

use forebay_offload::files::FileSource;
use forebay_offload::{Answered, Reread};
use forebay_query::{Rows, Schema, State, TextFields};

use crate::commands::query::bad_rows::BadRows;

/// The merged state.
#[derive(Default)]
pub struct Merged {
    /// Of all files so far, in their order.
    pub state: Option<State>,
    pub bad_rows: BadRows,
    /// Lines and bytes that bad rows cover.
    pub bad_extent: (u64, u64),
    /// Of each column of numbers, those that are summed before those that are described, the file that has the first text in it, and
    /// the line, from 1 on.
    pub first_texts: BTreeMap<usize, (usize, u64)>,
    /// Notes about the files and their columns.
    pub notes: Vec<String>,
    files: usize,
    /// The needs of the second pass, file by file; empty if there is none.
    pub seconds: Vec<Second>,
}

/// The needs of a second pass over a file.
pub struct Second {
    /// Good rows of the first.
    pub rows: u64,
    /// The nodes that read it again; None: this host.
    pub reread: Option<Reread>,
}

impl Merged {
    /// The same with notes.
    pub fn with(mut self, notes: Vec<String>) -> Self {
        self.notes = notes;
        self
    }

    /// Takes the state of the next file, `rereads` if there will be a second pass.
    pub fn add(&mut self, source: &FileSource, schema: Option<&Schema>, answered: Answered, rereads: bool) {
        let Answered { state, reread } = answered;
        if let Some(schema) = schema {
            self.bad_rows.add(source, &state, schema);
            let (lines, bytes) = state.bad_extent(schema);
            self.bad_extent = (self.bad_extent.0 + lines, self.bad_extent.1 + bytes);
        }
        for (place, texts) in state.rows.iter().flat_map(|rows| numbers_texts(rows).enumerate()) {
            if let Some(first) = &texts.first {
                self.first_texts.entry(place).or_insert((self.files, first.lines_before + 1));
            }
        }
        self.files += 1;
        if rereads {
            self.seconds.push(Second { rows: state.rows.as_ref().map_or(0, |rows| rows.good), reread });
        }
        self.state = Some(match self.state.take() {
            Some(before) => before.merge(&state),
            None => state,
        });
    }
}

/// The fields that are no numbers: of the columns that are summed, then of those of numbers that are described.
pub fn numbers_texts(rows: &Rows) -> impl Iterator<Item = &TextFields> {
    rows.texts.iter().chain(rows.described.numbers.iter().map(|column| &column.texts))
}
