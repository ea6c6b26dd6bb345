//! The burst tier on one node: what programs write is there at once, lands by itself, and survives the death of daemons.

#![allow(clippy::unwrap_used, reason = "a broken assumption of a test fails the test")]

mod bed;
mod deaths;
mod full;
mod refusals;
mod whole;
