//! A view shows the contents of its source: compared on the only node of a job and on a leaf of a real cluster.
//!
//! Each module is one part of what programs expect of a file system. Where a view differs from its source on purpose
//! (it is read-only, its device number and access times are its own), a test says so.

#![allow(clippy::unwrap_used, reason = "a broken assumption of a test fails the test")]

mod asking;
mod big;
mod cache_store;
mod changes;
mod deep;
mod directories;
mod exports;
mod homes;
mod locks;
mod memory;
mod names;
mod options;
mod own_paths;
mod own_paths_elsewhere;
mod permissions;
mod prefill;
mod priority;
mod programs;
mod reading;
mod refresh;
mod refusals;
mod run_alone;
mod striped;
mod warmup;
mod whole;
