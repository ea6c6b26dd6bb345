//! The backing file system below directory descriptors: what is read, what is refused, what lands.

#![allow(clippy::unwrap_used, reason = "a broken assumption of a test fails the test")]

mod bounds;
mod broken_disk;
mod chunks;
mod escapes;
mod exports;
mod fixture;
mod landing;
mod listings;
mod mounted;
