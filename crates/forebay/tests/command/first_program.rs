//! The first program of a node makes the parts that all share; the others wait for it.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use rustix::fs::{FlockOperation, flock};

use crate::place::Place;

/// The first program is this test: it has begun, and hangs.
#[test]
fn waiters_for_a_hanging_program_hear_its_name() {
    let Some(place) = Place::with_views() else { return };
    place.succeeds(&["up", "--job", "first", "--export", &place.source()]);
    let held = File::create(place.job("first").join("enter-0.lock")).unwrap();
    flock(&held, FlockOperation::LockExclusive).unwrap();
    let file = format!("{}/file", place.source());
    let mut command = place.command(&["run", "--job", "first", "--", "cat", &file]);
    let mut waiting = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(waiting.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    let whom = format!("forebay: waiting for process {} (", std::process::id());
    assert!(line.starts_with(&whom) && line.contains("ending that process"), "{line}");
    assert!(waiting.try_wait().unwrap().is_none(), "it waits");
    drop(held);
    let mut read = String::new();
    waiting.stdout.take().unwrap().read_to_string(&mut read).unwrap();
    assert_eq!(read, "contents of file\n");
    assert!(waiting.wait().unwrap().success());
    line.clear();
    assert_eq!(said.read_line(&mut line).unwrap(), 0, "nothing more is said: {line}");
    place.succeeds(&["down", "--job", "first"]);
    place.assert_clean();
}
