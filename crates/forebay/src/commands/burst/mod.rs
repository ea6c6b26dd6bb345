//! The burst tier: what is on its way to the backing file system, and what a store holds without its job.

pub mod drain;
pub mod landed;
pub mod look;
mod names;
pub mod salvage;
