//! The query path of a node: files read in blocks by several threads, through the core of queries.
//!
//! `source` is a file in one generation, `blocks` reads it block by block and says of each what came before, `collect` makes
//! partials of it, and `normalised` writes a column, on a device by `drafts`. The core (`forebay_query`) knows what to do with a block; nothing here
//! decides. A node of a job and the command without a job read files by the same way: a node makes parts for others
//! (`node_parts`) of files that it holds (`held`), and knows how fast (`speeds`, `processors`). SQL is not known here:
//! `fragments` has `program` carry out what it says.

mod blocks;
mod collect;
mod contents;
mod drafts;
mod fragments;
mod held;
mod node_parts;
mod normalised;
mod processors;
mod program;
mod source;
mod speeds;

pub use collect::{PassOptions, Table, collect, collect_part, state_of_nothing};
pub use contents::Contents;
pub use drafts::draft_path;
pub use node_parts::{Holder, Holds, bytes_of, decode_part};
pub(crate) use node_parts::{QueryParts, collected, text_of};
pub use normalised::{
    NormalisedColumn, Run, Unfinished, column_mode, encoded_values, lines_of_encoded, write_normalised,
};
pub use processors::cores_for;
pub use program::sql_program;
pub use source::{FileSource, block_count};
pub use speeds::seconds_per_byte;
