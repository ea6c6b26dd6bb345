//! What a node knows: answers (listings, attributes, absences, chunks), kept within one budget of bytes.
//!
//! Does no I/O and never looks into the bytes of a chunk: a chunk is a handle of the caller's type, shared by cloning.

mod key;
mod objects;

pub use key::{Key, Object, ObjectKind};
pub use objects::{KindCounters, Objects};
