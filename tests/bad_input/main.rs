//! Whatever is wrong, the command says so in one message (what, on what, why, what to do), ends with the right status,
//! and leaves nothing behind: no mount, no process, no file.

#![allow(clippy::unwrap_used, reason = "a broken assumption of a test fails the test")]

mod backing;
mod disk;
mod exports;
mod foreign_views;
mod hosts;
mod machine;
mod memory;
mod pending_handshakes;
mod plans;
mod queries;
mod setup;
mod trial;
mod usage;
mod views;

use std::ffi::{OsStr, OsString};

use forebay_tests::{Finished, Sandbox};

/// Exit status of a command that failed.
const FAILED: i32 = 1;

/// Exit status of a command that was called wrongly.
const WRONG_USAGE: i32 = 2;

/// Lines that a message may have: what failed, and its causes, one a line.
const MESSAGE_LINES_MAX: usize = 8;

/// Checks that a command failed with `code`, that its message names all of `words`, and that nothing is left.
#[track_caller]
fn fails(sandbox: &Sandbox, done: &Finished, code: i32, words: &[&str]) {
    assert_eq!(done.status.code(), Some(code), "{}", done.stderr);
    says(&done.stderr, words);
    let left = sandbox.left();
    assert!(left.is_empty(), "left behind: {left:#?}");
}

/// Checks that a message is one people can read, and names all of `words`.
#[track_caller]
fn says(message: &str, words: &[&str]) {
    for word in words {
        assert!(message.contains(word), "the message does not name `{word}`:\n{message}");
    }
    let lines = message.lines().count();
    assert!((1..=MESSAGE_LINES_MAX).contains(&lines), "{lines} lines:\n{message}");
    for line in message.lines() {
        let causes: Vec<&str> = line.split(": ").collect();
        assert!(causes.windows(2).all(|pair| pair[0] != pair[1]), "a cause is told twice:\n{message}");
    }
    for noise in ["panicked", "RUST_BACKTRACE", "Os {", "Err(", "Some("] {
        assert!(!message.contains(noise), "`{noise}` is for developers:\n{message}");
    }
}

/// Arguments of `up --local NODES`, with the sandbox's view.
fn local(sandbox: &Sandbox, nodes: u32, rest: &[&OsStr]) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = vec!["--local".into(), nodes.to_string().into()];
    arguments.extend(["--view".into(), sandbox.view().into_os_string()]);
    arguments.extend(rest.iter().map(|&argument| argument.to_owned()));
    arguments
}

fn up(sandbox: &Sandbox, arguments: &[OsString]) -> Finished {
    let arguments: Vec<&OsStr> = arguments.iter().map(OsString::as_os_str).collect();
    sandbox.up(&arguments)
}
