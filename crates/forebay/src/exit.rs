//! Exit statuses beside 0 (done) and 1 (failed).

/// Of a command that was called wrongly; clap's own.
pub const WRONG_USAGE: u8 = 2;

/// Of a command that did only part of its work.
pub const DONE_IN_PART: u8 = 3;

/// Of the `down` that another host's command runs here (`--must-be-up`): the job has nothing on this host.
pub const NOT_UP: u8 = 4;

/// Of `run`, whose exit status is otherwise its command's: forebay itself failed. As `env(1)` has this and the next two.
pub const RUN_FAILED: u8 = 125;

/// The command was found and cannot be run.
pub const NOT_RUN: u8 = 126;

/// There is no such command.
pub const NOT_FOUND: u8 = 127;
