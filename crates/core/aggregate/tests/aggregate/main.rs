//! Plans and refusals of the planner, as its users get them.

#![allow(clippy::unwrap_used, reason = "a broken assumption of a test fails the test")]

mod corpora;
mod plans;
mod refusals;
