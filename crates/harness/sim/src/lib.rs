//! Whole jobs in virtual time: the nodes' drivers as they ship, and a world around them that does what worlds do.
//!
//! It breaks things, and checks every answer. How long a start takes is asked elsewhere, by a model that only counts bytes
//! and time (`crates/harness/scale`).
//!
//! Every node runs the driver that daemons run (`forebay_daemon::Driver`), with its endpoint on a network within the
//! process, all in one runtime whose clock is set: one seed is one history, and can be run again with a log of it. `model` is the backing
//! file system, whose every byte, attribute and absence is known, `contents` makes its bytes; `world` is what stands outside of the nodes. A
//! `node` has a `kernel` that speaks FUSE to the daemon's session, and a `machine` with `threads` that read its `exports`. `program`
//! is what asks, `walk` asks and checks; `faults` is what goes wrong; `shared` lets it happen, and `refreshes`, `shown` and `floors` know
//! what a node may not be behind, `waits` who must be heard, `history` what stood where, and `troubles` what that explains; `oracle` compares,
//! and `reached` counts what a history has met. `job` runs all of it, and `scenario` makes it from a seed and says what was not as it must be.

// The harness trusts its own tables; what it finds wrong with the cores goes into the report.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::missing_panics_doc)]

mod cache_store;
mod check;
mod contents;
mod exports;
pub mod faults;
mod floors;
mod history;
pub mod job;
mod kept_inodes;
mod kernel;
mod machine;
pub mod model;
mod node;
mod oracle;
mod profile;
pub mod program;
mod promised_order;
pub mod reached;
mod refreshes;
pub mod scenario;
pub mod setup;
mod shared;
mod shown;
mod threads;
mod troubles;
mod waits;
mod walk;
mod world;

/// A node of the simulated job, by its index.
pub type NodeIndex = usize;
