//! The query path of a node: files read in blocks by several threads, through the core of queries.
//!
//! `source` is a file in one generation, `blocks` reads it block by block and says of each what came before, `collect` makes
//! partials of it, and `normalised` writes a column. The core (`forebay_query`) knows what to do with a block; nothing here
//! decides. A node of a job and the command without a job read files by the same way.

mod blocks;
mod collect;
mod normalised;
mod source;

pub use collect::{PassOptions, collect};
pub use normalised::{NormalisedColumn, write_normalised};
pub use source::{FileSource, block_count};
