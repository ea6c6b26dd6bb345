//! The view of programs when daemons die, are replaced, or lack resources: a pause, or the backing file system's own
//! error, and never a wrong byte.
//!
//! Daemons are killed for real, under readers that compare every byte with what was put into the source.

#![allow(clippy::unwrap_used, reason = "a broken assumption of a test fails the test")]

mod deadlines;
mod deaths;
mod ends;
mod hangs;
mod programs;
mod readers;
mod replaced;
mod scarce;
mod signals;
mod spoiled;
