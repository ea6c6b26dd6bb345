//! Requests, their attempts and sources, from outside and in virtual time.

#![allow(clippy::unwrap_used, reason = "a broken assumption of a test fails the test")]

mod line;
mod lost;
mod patience;
mod sources;
