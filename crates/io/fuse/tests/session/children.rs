//! Tests that need a process of their own run this test program again, which then plays the named part.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use crate::{locks, mounting, unprivileged};

const PART: &str = "FOREBAY_FUSE_TEST_PART";
const ARGUMENT: &str = "FOREBAY_FUSE_TEST_ARGUMENT";

/// Exit status of a part that did what it should. Not 0, which is also that of a test program that ran no part.
pub const DONE: i32 = 40;
/// Exit status of a part that was refused a lock.
pub const LOCKED: i32 = 41;

/// Exit status of a part that could not mount.
pub const CANNOT_MOUNT: i32 = 42;

/// A command of which the last argument added by `arg` goes to the part.
pub struct Part(Command);

/// This program, to play `part`.
pub fn command(part: &str) -> Part {
    of_program(&std::env::current_exe().unwrap(), part)
}

/// `program`, a copy of this one, to play `part`.
pub fn of_program(program: &std::path::Path, part: &str) -> Part {
    let mut command = Command::new(program);
    command.args(["--exact", "children::play_a_part", "--nocapture", "--test-threads=1"]).env(PART, part);
    Part(command)
}

impl Part {
    pub fn arg(mut self, argument: impl Into<OsString>) -> Command {
        self.0.env(ARGUMENT, argument.into());
        self.0
    }
}

#[test]
fn play_a_part() {
    let _alone = crate::fixture::alone();
    let Ok(part) = std::env::var(PART) else {
        // Run as a test like any other: a child that cannot play its part must not look like one that did.
        let unknown = command("unknown").arg("").output().unwrap();
        assert_eq!(unknown.status.code(), Some(101));
        return;
    };
    let argument = PathBuf::from(std::env::var_os(ARGUMENT).unwrap_or_default());
    let status = match part.as_str() {
        "lock-records" => locks::lock_records(&argument),
        "mount-and-die" => mounting::mount_and_die(&argument),
        "mount-and-read" => unprivileged::mount_and_read(&argument),
        other => panic!("no part {other}"),
    };
    std::process::exit(status);
}
