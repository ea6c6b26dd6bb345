//! The read path of one node, composed of the state machines beside it.
//!
//! `state` has them all and is the one that asks the dispatch. Each other file takes one kind of input, and calls only those
//! before it: `ends`, `prefetch`, `operations` of the kernel, `prefill` with parcels, `refresh`, `answers`, `peers`,
//! `kernel`, `settings`; `events` carries out what the dispatch has decided. No file here has state of its own.

mod answers;
mod ends;
mod events;
mod kernel;
mod operations;
mod peers;
mod prefetch;
mod prefill;
mod refresh;
mod settings;
mod state;

pub use state::{Counters, Options, ReadPath};
