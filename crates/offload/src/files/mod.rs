//! Files read in blocks by several threads, through the core of queries.
//!
//! `source` is a file in one generation, `blocks` reads any `contents` block by block and says of each what came before, `in_order` does so for
//! compressed files (`packing`), pipes, and those that another program reads (`converted`),
//! `collect` makes partials of it, `normalised` writes a column to an `unfinished` file, and `many` works on several files at once. A node of a job and the command without a job read
//! files in the same way; the core (`forebay_query`) knows what to do with a block.

mod blocks;
mod collect;
mod converted;
mod in_order;
mod input;
mod many;
mod normalised;
mod source;
mod unfinished;

pub use crate::contents::Contents;
pub use crate::packing::Packing;
pub(crate) use collect::begins_quoted;
pub use collect::{PassOptions, Table, WantedRows, collect, collect_file_part, collect_part, state_of_nothing};
pub use input::STANDARD_INPUT;
pub(crate) use many::AT_ONCE;
pub use many::{each_at_once, each_of_many};
pub use normalised::{
    NormalisedColumn, Run, column_mode, each_values, encoded_values, lines, lines_of_encoded, write_normalised,
};
pub use source::{FileSource, block_count};
pub use unfinished::Unfinished;
