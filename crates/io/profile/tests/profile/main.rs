//! Profiles and packs as files: formats, trust, bounds, faults.

#![allow(clippy::unwrap_used, reason = "a broken assumption of a test fails the test")]

mod corpora;
mod files;
