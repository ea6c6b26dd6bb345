//! The formats of the wire, against their committed corpora and by random values.

#![allow(clippy::unwrap_used, reason = "a broken assumption of a test fails the test")]

mod corpora;
mod limits;
mod stripes;
mod write_corpus;
