//! The query core against exact rational arithmetic and a plain reading of CSV, over files cut anywhere.

#![allow(clippy::unwrap_used, reason = "a broken assumption of a test fails the test")]

mod corpora;
mod cuts;
mod dialect;
mod doubles;
mod exact;
mod objects;
mod plain;
mod reading;
mod reference;
