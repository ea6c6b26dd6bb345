//! What a node knows and what it has asked for.
//!
//! `Objects` keeps answers (listings, attributes, absences, chunks) within one budget of bytes; `InFlight` joins
//! questions for the same thing, so that a node asks once however many wait. Neither does I/O, and neither looks into
//! the bytes of a chunk: a chunk is a handle of the caller's type, shared by cloning.

mod in_flight;
mod key;
mod objects;

pub use in_flight::{CallId, Flight, InFlight, Joined, Waiting};
pub use key::{Key, Object, ObjectKind};
pub use objects::{KindCounters, Objects};
