//! The tree: directories, files, and which operation does what to them.
//!
//! Entries are apart from the files that they name, so that a directory is renamed by moving one entry, and a file may have
//! several names. A directory that is there on the backing file system too is imported before any decision in it. All its entries
//! get a name of ours, so that from then on the tree alone says what is there. Until then it refuses by `Refusal::Unlisted`, and
//! the caller lists it and asks again.
//!
//! An operation is carried out whole or not at all: each one checks everything before its first change.

mod apply;
mod attributes;
mod contents;
mod create;
mod drained;
mod extended;
mod import;
mod landed;
mod lost;
mod nodes;
mod parts;
pub(crate) mod permissions;
mod questions;
mod remove;
mod removed;
mod rename;
mod seek;
mod sent;
mod sound;
mod state;
mod table;
mod touched;

pub use drained::{Ahead, Drain};
pub use landed::Turn;
pub use lost::{LostFile, gone_from, is_gone, node_of_gone};
pub use nodes::{OwnExtended, SentStripes, blocks_of};
pub use questions::{Listed, ToLand, Way};
pub use state::{Refusal, Released, Tree};
