//! A node's log on real file systems: what it promises, through crashes, full and failing disks and other openers.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod appends;
mod corpora;
mod crashes;
mod failures;
mod fixture;
mod image;
mod killed;
mod room;
mod stores;
