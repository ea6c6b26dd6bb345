//! The tree of a burst mount.

#![allow(clippy::unwrap_used, reason = "a broken assumption of a test fails the test")]

mod by_hand;
mod drained;
mod holds;
mod landing;
mod others;
mod replay;
mod support;
