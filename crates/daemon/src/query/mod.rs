//! The query path of a node: parts of files that it holds, made for others (`node_parts`).
//!
//! `forebay_offload::files` reads them, wherever their bytes lie (`held`); `drafts` are columns that a device writes. SQL is not
//! known here: `statements` starts `workers`, processes of `forebay-sql`, and carries `streams` of bytes between them.

mod drafts;
mod held;
mod node_parts;
mod statements;
mod streams;
mod workers;

pub use drafts::draft_path;
pub(crate) use node_parts::{QueryParts, collected};
pub(crate) use statements::Statements;
