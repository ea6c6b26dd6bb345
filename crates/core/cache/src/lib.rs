//! The cache of a node: answers (listings, attributes, absences, chunks), kept within one budget of bytes.
//!
//! Does no I/O and never looks into the bytes of a chunk: a chunk is a handle of the caller's type, shared by cloning.
//!
//! # Usage
//! `insert` an answer that is whole and true for the job, with the bytes that a chunk's handle stands for. It may be dropped
//! at once, so a caller that needs it keeps a clone. `get` what a request asks for: it counts, and the counts say what is worth
//! keeping; `peek` for any other reason. `remove` and `remove_where` when it is no longer true, `pin` after `insert` where a user wants it
//! kept, `set_budget` when memory becomes scarce: it drops objects that do not fit before it returns. No answer expires by itself;
//! `age` tells how old something is.

mod key;
mod objects;
mod subset;

pub use key::{Key, Object, ObjectKind};
pub use objects::{KindCounters, Objects};
