//! The tree of a burst mount.

mod by_hand;
mod drained;
mod elsewhere;
mod extended;
mod landing;
mod others;
mod replay;
mod support;
mod unlist;
