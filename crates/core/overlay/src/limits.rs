//! Limits of this crate that several of its modules, or others, need to know; each with its reason.

/// Fan-out of a tree (options `--fanout`, `--stripe-fanout`).
pub const FAN_OUT_MAX: u32 = 1024;

/// Roots of a job (option `--roots`): eight times the default. More would be more clients of the backing file system and
/// spread nothing further.
pub const ROOTS_MAX: u32 = 64;

/// Nodes of a job in which each is home of a share of the large files: a home sends a chunk that all want to each of them, 15 times
/// here.
pub const HOMES_MAX: u32 = 16;
