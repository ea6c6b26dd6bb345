//! Profiles and packs as they lie on disk: what the start-up of a command used, and the contents of that, compressed in
//! one file beside it.
//!
//! Everything about formats is pure: bytes in, values out, nothing in a file is believed before it is checked. Files are
//! the affair of `ProfileDirectory` and `ProfileFiles`, which use none that somebody else could have prepared. A profile
//! is never more than a hint: every directory and file in it, and every piece of a pack, has the generation that was
//! seen, and whoever uses it compares that with the present one.

mod block;
mod bounds;
mod command;
mod directory;
mod error;
#[doc(hidden)]
pub mod exercise;
mod files;
mod index;
pub mod limits;
mod merge;
mod order;
mod pack;
mod profile;
#[cfg(test)]
mod samples;
mod sealed;
mod trusted;
mod unfinished;

pub use block::{Block, BlockBuilder, BlockOpener, LEVEL_DEFAULT, Piece, compress};
pub use command::command_of;
pub use directory::{KeptProfile, ProfileDirectory};
pub use error::{FormatError, ProfileError};
pub use files::ProfileFiles;
pub use index::{BlockEntry, PackIndex, index_range};
pub use merge::{Learned, Start};
pub use order::Wanted;
pub use pack::{PackReader, PackWriter, PackWritten};
pub use profile::{Profile, ProfileKey, Use};
