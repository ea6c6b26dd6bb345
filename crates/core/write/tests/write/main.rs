//! The burst tree and what nodes know of it, against reference models and by hand.

#![allow(clippy::unwrap_used, reason = "a broken assumption of a test fails the test")]

mod corpus;
mod drain_rate;
mod extents;
mod leader_lease;
mod metadata_cache;
mod pages;
mod stripes;
mod tree;
