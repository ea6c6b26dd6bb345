//! What is asked for before a program does, and what is asked for together: habits of start-ups, chunks of a file that is
//! read in order, small files beside each other.
//!
//! Nothing here is ever needed: each part decides only what is asked for, how much, and in which order. The read path tells
//! them what programs do and issues the requests.

mod bundle;
mod habits;
mod read_ahead;

pub use bundle::{neighbours, suffix_of};
pub use habits::{Candidate, Habits};
pub use read_ahead::ReadAhead;
