//! Nodes that are lost while they answer, files that change meanwhile, and queries that are given up.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use forebay_tests::job::send;
use forebay_tests::program::wait_until;
use rustix::process::Signal;
use serde_json::Value;

use crate::bed::{ALL, Bed, parted, plain_table, read_bytes};

const PATIENCE: Duration = Duration::from_secs(60);

/// How often a query is tried to be met while it is under way.
const TRIALS: usize = 10;

/// A query over a large file of device 2, which the device or this host has begun to read, and the device's process.
fn under_way(bed: &Bed, file: &Path, place: &str) -> (Child, u32) {
    let device = bed.job.daemon(2).unwrap();
    let before = read_bytes(device);
    let child = bed
        .command(ALL, file, &["--json", "--where", place])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let read = || if place == "host" { read_bytes(child.id()) } else { read_bytes(device) - before };
    wait_until("the file is read", PATIENCE, || read() > 16 << 20);
    (child, device)
}

/// A query that is under way, and whoever reads for it, stopped: a busy machine may be over with a query before its time has come.
#[track_caller]
fn met(query: impl Fn() -> (Child, u32)) -> (Child, u32) {
    let begin = |_| {
        let (mut child, reader) = query();
        send(reader, Signal::STOP);
        let is_under_way = child.try_wait().unwrap().is_none();
        if !is_under_way {
            send(reader, Signal::CONT);
        }
        is_under_way.then_some((child, reader))
    };
    (0..TRIALS).find_map(begin).expect("a query that is under way")
}

fn large_file(bed: &Bed) -> std::path::PathBuf {
    let file = bed.file(2, "large.csv");
    let table = plain_table(1_000_000);
    fs::write(&file, table.repeat(12)).unwrap();
    file
}

/// Sends a signal to a device midway. Returns the answer, and the query's messages.
fn lost(signal: Signal) -> (Value, Value, Value, String) {
    let bed = Bed::of_devices();
    let file = large_file(&bed);
    let (here, _) = bed.answer(&file, "host", &[]);
    let (child, device) = under_way(&bed, &file, "data");
    send(device, signal);
    let done = child.wait_with_output().unwrap();
    let said = String::from_utf8(done.stderr).unwrap();
    assert!(done.status.success(), "{said}");
    let (there, by) = parted(&done.stdout);
    bed.job.down();
    (here, there, by, said)
}

#[test]
fn a_device_killed_midway_is_stood_in_for() {
    let (here, there, by, said) = lost(Signal::KILL);
    assert_eq!(there, here);
    assert!(said.contains("node 2") && said.contains("other nodes computed its parts"), "{said}");
    assert!(by.as_array().unwrap().iter().any(|by| by["node"].is_null()), "the host made the rest: {by}");
}

#[test]
fn a_device_that_says_nothing_any_more_is_stood_in_for() {
    let (here, there, _, said) = lost(Signal::STOP);
    assert_eq!(there, here);
    assert!(said.contains("node 2"), "{said}");
}

/// A query of a file of device 2 by who is asked for, and what it says when a row is added after it has read some of it.
#[track_caller]
fn grown(place: &str) -> String {
    let bed = Bed::of_devices();
    let file = large_file(&bed);
    let (child, stopped) = met(|| {
        let (child, device) = under_way(&bed, &file, place);
        let reader = if place == "host" { child.id() } else { device };
        (child, reader)
    });
    fs::OpenOptions::new().append(true).open(&file).unwrap().write_all(b"1,2,3,4,5\n").unwrap();
    send(stopped, Signal::CONT);
    let done = child.wait_with_output().unwrap();
    assert!(!done.status.success() && done.stdout.is_empty(), "{}", String::from_utf8_lossy(&done.stdout));
    bed.job.down();
    String::from_utf8(done.stderr).unwrap()
}

/// Answers from before and after the change do not make one.
#[test]
fn a_file_that_grows_while_it_is_read_has_no_answer() {
    for place in ["host", "data"] {
        let said = grown(place);
        assert!(said.contains("large.csv changed while it was read"), "{place}: {said}");
    }
}

#[test]
fn a_query_that_is_given_up_leaves_nothing_under_way() {
    let bed = Bed::of_devices();
    let file = large_file(&bed);
    let (mut child, device) = met(|| under_way(&bed, &file, "data"));
    send(child.id(), Signal::INT);
    assert!(!child.wait().unwrap().success());
    send(device, Signal::CONT);
    // A part has 32 MiB at most; all of the file are far more.
    let at_end = read_bytes(device);
    let mut last = (0, 0);
    wait_until("the device reads no more", PATIENCE, || {
        std::thread::sleep(Duration::from_millis(50));
        let now = read_bytes(device);
        last = if now < last.0 + (1 << 20) { (last.0, last.1 + 1) } else { (now, 0) };
        last.1 >= 10
    });
    assert!(read_bytes(device) < at_end + (160 << 20), "{} after {at_end}", read_bytes(device));
    bed.job.down();
}
