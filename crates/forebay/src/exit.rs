//! Exit statuses beside 0 (done) and 1 (failed).

/// Of a command that was called wrongly; clap's own.
pub const WRONG_USAGE: u8 = 2;

/// Of a command that did only part of its work.
pub const DONE_IN_PART: u8 = 3;

/// There is no such command, and it cannot be run: as shells and `env(1)` have them.
pub const NOT_FOUND: u8 = 127;
/// The second.
pub const NOT_RUN: u8 = 126;
