//! Whole jobs of the daemon's driver in virtual time: histories by seed, and single promises.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a broken assumption of a test fails the test")]

mod faults;
mod job;
mod promises;
mod refresh;
