//! Whole jobs in virtual time: the cores that the daemon runs, and a world around them that does what worlds do.
//!
//! It moves named contents, breaks things, and checks every answer. How long a start takes is asked elsewhere, by a model
//! that only counts bytes and time (`crates/harness/scale`).
//!
//! `model` is the backing file system, whose every byte, attribute and absence is known; `world` delivers messages, or
//! does not; `job` holds the nodes, `shell` plays the daemon's, and `run` says what happens next; `program` is what asks; `faults` is what goes wrong;
//! `scenario` makes all of it from a seed, runs it, and says what was not as it must be. Nothing here has a clock, a
//! socket or a thread: one seed is one history, and can be run again with a log of it.

// The harness trusts its own tables; what it finds wrong with the cores goes into the report.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::missing_panics_doc)]

mod asked;
pub mod body;
mod event;
pub mod faults;
pub mod job;
mod mishaps;
pub mod model;
mod parcels;
pub mod program;
pub mod random;
mod refresh;
mod run;
pub mod scenario;
mod shell;
mod tables;
mod turns;
mod world;

/// A node of the simulated job, by its index.
pub type NodeIndex = usize;
