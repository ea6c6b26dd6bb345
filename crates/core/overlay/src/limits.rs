//! Limits of this crate that several of its modules, or others, need to know; each with its reason.

/// Fan-out of a tree (options `--fanout`, `--stripe-fanout`).
pub const FAN_OUT_MAX: u32 = 1024;

/// Roots of a job (option `--roots`): eight times the default. More would be more clients of the backing file system and
/// spread nothing further.
pub const ROOTS_MAX: u32 = 64;

/// Nodes of a job in which each is home of a share of the large files: each has connections to all others, and where all want one chunk, all ask its
/// home.
pub const HOMES_MAX: u32 = 64;
