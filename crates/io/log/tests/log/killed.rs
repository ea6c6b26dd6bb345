//! A daemon that is killed loses nothing that it was told is written.

use std::collections::BTreeMap;
use std::env;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use forebay_log::{Recovered, RecoveredRecord, Recovery};
use forebay_types::LogPosition;
use forebay_wire::log_record::RecordData;
use forebay_wire::log_record::Sequence;

use crate::fixture::{FILE, all, contents, directory, owner, settings, store};

const ROUNDS: u64 = 20;
const SEGMENTS: u64 = 4096;
const THREADS: u64 = 3;

/// Where the child finds its store, and its first tag.
const STORE: &str = "FOREBAY_LOG_TEST_STORE";
const TAG: &str = "FOREBAY_LOG_TEST_TAG";

/// Lengths of contents, by their tags: from none to a few pages.
fn length(tag: u64) -> usize {
    (tag * 977 % 7919) as usize
}

fn live(found: &[Recovered]) -> Vec<(LogPosition, u64)> {
    let bytes = |record: &Recovered| match record.record {
        RecoveredRecord::Data { bytes, .. } => Some((record.position, u64::from(bytes))),
        _ => None,
    };
    found.iter().filter_map(bytes).collect()
}

/// The child: appends from several threads and says what is written, until it is killed.
#[test]
fn appends_until_it_is_killed() {
    let (Some(path), Some(first)) = (env::var_os(STORE), env::var(TAG).ok()) else { return };
    let mut recovery = Recovery::open(Path::new(&path), &owner(1), &settings(SEGMENTS)).unwrap();
    let found = all(&mut recovery);
    let log = recovery.finish(live(&found)).unwrap();
    let first: u64 = first.parse().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let log = &log;
            scope.spawn(move || {
                for tag in (first + thread..).step_by(THREADS as usize) {
                    let bytes = contents(tag, length(tag));
                    let appended = if tag % 5 == 0 {
                        log.append_note(&[&tag.to_le_bytes()[..], &bytes].concat())
                    } else {
                        log.append_data(RecordData::written(FILE, tag), &bytes)
                    };
                    let sequence = appended.unwrap().sequence;
                    if tag % 11 == 0 {
                        log.commit(sequence.next()).unwrap();
                    }
                    // One write, so that lines of threads do not mix.
                    std::io::stderr().write_all(format!("@ {} {tag}\n", sequence.0).as_bytes()).unwrap();
                }
            });
        }
    });
}

/// Starts the child, kills it after it has said so many lines, and adds what it said.
fn kill_after(lines: usize, store: &Path, tag: u64, said: &mut BTreeMap<Sequence, u64>) {
    let arguments = ["--exact", "killed::appends_until_it_is_killed", "--nocapture"];
    let mut child = Command::new(env::current_exe().unwrap())
        .args(arguments)
        .env(STORE, store)
        .env(TAG, tag.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut count = 0;
    for line in BufReader::new(child.stderr.take().unwrap()).lines() {
        let line = line.unwrap();
        let Some((sequence, tag)) = line.strip_prefix("@ ").and_then(|line| line.split_once(' ')) else { continue };
        said.insert(Sequence(sequence.parse().unwrap()), tag.parse().unwrap());
        count += 1;
        if count == lines {
            child.kill().unwrap();
        }
    }
    assert!(count >= lines, "the child ended by itself");
    assert!(!child.wait().unwrap().success());
}

#[test]
fn a_killed_daemon_loses_nothing_that_was_written() {
    let directory = directory();
    let path = store(&directory);
    let mut said = BTreeMap::new();
    for round in 0..ROUNDS {
        kill_after(1 + (round * 53 % 400) as usize, &path, round * 1_000_000, &mut said);
        let mut recovery = Recovery::open(&path, &owner(1), &settings(SEGMENTS)).unwrap();
        let found = all(&mut recovery);
        let log = recovery.finish(live(&found)).unwrap();
        let mut tags = BTreeMap::new();
        for record in &found {
            let (tag, bytes) = match &record.record {
                RecoveredRecord::Note(note) => (u64::from_le_bytes(*note.first_chunk().unwrap()), note.slice(8..)),
                RecoveredRecord::Data { data: RecordData::Written { offset, .. }, .. } => {
                    (*offset, log.read_record(record.position).unwrap().1)
                }
                other => panic!("nobody wrote it: {other:?}"),
            };
            assert_eq!(bytes, contents(tag, length(tag)), "round {round}, tag {tag}");
            tags.insert(record.sequence, tag);
        }
        for (sequence, tag) in &said {
            assert_eq!(tags.get(sequence), Some(tag), "round {round}: {sequence:?} was written");
        }
        assert!(tags.len() as u64 <= said.len() as u64 + THREADS * (round + 1), "no more than what was under way");
    }
}
