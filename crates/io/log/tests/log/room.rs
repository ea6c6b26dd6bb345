//! Room: data stop before notes do, nothing is written of what does not fit, and what is released comes back.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use forebay_log::{Appended, Log, LogError, Recovery, StoreError};
use forebay_types::{Errno, LogPosition};
use forebay_wire::log_record::RecordData;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

use crate::fixture::{FILE, SEGMENT_BYTES, all, contents, directory, open, owner, settings, store};

const BYTES: usize = 7000;

/// Appends data until the store is full.
fn fill(log: &Log) -> Vec<Appended> {
    let mut appended = Vec::new();
    loop {
        match log.append_data(RecordData::written(FILE, 0), &contents(appended.len() as u64, BYTES)) {
            Ok(one) => appended.push(one),
            Err(error) => {
                assert_eq!((error, error.errno()), (LogError::Full, Errno::ENOSPC));
                return appended;
            }
        }
    }
}

/// Another thread removes segments that are freed.
fn await_absence(log: &Log, position: LogPosition) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while log.read_record(position).map(drop) != Err(LogError::Absent(position)) {
        assert!(Instant::now() < deadline, "the segment of {position:?} stays");
        thread::yield_now();
    }
}

fn segments(path: &Path) -> usize {
    let names = fs::read_dir(path).unwrap().map(|file| file.unwrap().file_name());
    names.filter(|name| name.to_str().unwrap().starts_with("segment-")).count()
}

#[test]
fn data_stop_before_notes_and_go_on_after_a_release() {
    let directory = directory();
    let path = store(&directory);
    let log = open(&path, 6);
    let appended = fill(&log);
    assert_eq!(appended.len(), 5 * 4, "all segments but that for notes, four records in each");
    let (end, space) = (log.end(), log.space());
    assert_eq!(log.append_data(RecordData::written(FILE, 0), &contents(1, BYTES)), Err(LogError::Full));
    assert_eq!(log.end(), end, "nothing was written");
    assert_eq!((space.capacity_bytes, space.used_bytes), (6 * 32768, 5 * 32768));
    assert_eq!(space.live_bytes, appended.len() as u64 * BYTES as u64);
    let mut notes = 0;
    while log.append_note(&contents(notes, 1000)).is_ok() {
        notes += 1;
    }
    assert!(notes >= 27, "{notes}: a segment for notes");
    for one in &appended[4..8] {
        log.release(one.position, BYTES as u64).unwrap();
    }
    log.append_note(b"goes on").unwrap();
    assert_eq!(log.space().live_bytes, (appended.len() as u64 - 4) * BYTES as u64);
    log.read_record(appended[8].position).unwrap();
    await_absence(&log, appended[4].position);
    assert!(segments(&path) <= 6);
}

#[test]
fn a_log_that_has_room_takes_data_and_a_full_one_has_none() {
    let directory = directory();
    let log = open(&store(&directory), 6);
    while log.has_room(2 * BYTES as u64) {
        log.append_data(RecordData::written(FILE, 0), &contents(1, BYTES)).unwrap();
    }
    let _ = fill(&log);
    assert!(!log.has_room(BYTES as u64));
}

/// Notes that have come to the segment that is kept back for them keep it: data beside them would leave the next without room.
#[test]
fn data_do_not_follow_notes_into_their_segment() {
    let directory = directory();
    let log = open(&store(&directory), 6);
    let last = fill(&log).last().unwrap().position.segment;
    while log.append_note(&contents(1, 1000)).unwrap().position.segment == last {}
    assert_eq!(log.append_data(RecordData::written(FILE, 0), &contents(1, 10)), Err(LogError::Full));
    for number in 0..25 {
        log.append_note(&contents(number, 1000)).unwrap();
    }
}

/// Data that come and go for ever: the store never holds more than its capacity, and never says that it is full.
#[test]
fn a_small_store_takes_any_amount_that_is_released() {
    let directory = directory();
    let path = store(&directory);
    let log = open(&path, 4);
    let mut before = None;
    for tag in 0..500 {
        let appended = log.append_data(RecordData::written(FILE, 0), &contents(tag, BYTES)).unwrap();
        if let Some(position) = before.replace(appended.position) {
            log.release(position, BYTES as u64).unwrap();
        }
        assert!(segments(&path) <= 4);
    }
    assert_eq!(log.release(before.unwrap(), BYTES as u64 + 1), Err(LogError::NotLive(before.unwrap())));
}

#[test]
fn a_checkpoint_frees_what_only_notes_keep() {
    let directory = directory();
    let path = store(&directory);
    let log = open(&path, 4);
    let mut notes = 0;
    while log.append_note(&contents(notes, 1000)).is_ok() {
        notes += 1;
    }
    assert_eq!(log.space().kept_by_notes_bytes, 3 * u64::from(SEGMENT_BYTES), "all but the last");
    let end = log.end();
    log.checkpoint(end, b"all of them").unwrap();
    assert_eq!(log.checkpoint(forebay_wire::log_record::Sequence(1), b""), Err(LogError::Outdated));
    for _ in 0..20 {
        log.append_data(RecordData::written(FILE, 0), &contents(0, 1000)).unwrap();
    }
    log.append_note(b"after").unwrap();
    drop(log);
    let mut recovery = Recovery::open(&path, &owner(1), &settings(4)).unwrap();
    assert_eq!(recovery.checkpoint().unwrap().contents, &b"all of them"[..]);
    assert_eq!(all(&mut recovery).len(), 21);
}

/// A full store may be opened, so that it can be drained.
#[test]
fn a_full_store_is_recovered() {
    let directory = directory();
    let path = store(&directory);
    let log = open(&path, 4);
    let appended = fill(&log);
    while log.append_note(&[7; 500]).is_ok() {}
    drop(log);
    let recovery = Recovery::open(&path, &owner(2), &settings(4)).unwrap();
    let log = recovery.finish(appended[1..].iter().map(|one| (one.position, BYTES as u64))).unwrap();
    assert_eq!(log.space().live_bytes, (appended.len() as u64 - 1) * BYTES as u64);
    log.append_note(b"landed").unwrap();
    let end = log.end();
    log.checkpoint(end, b"").unwrap();
    for one in &appended[1..] {
        log.release(one.position, BYTES as u64).unwrap();
    }
    assert_eq!(fill(&log).len(), 3 * 4);
}

/// Each begins a segment, and the one before is cut off where its records end.
#[test]
fn daemons_that_come_and_go_take_the_room_of_what_they_write() {
    let directory = directory();
    let path = store(&directory);
    let mut live = vec![];
    for tag in 0..20 {
        let recovery = Recovery::open(&path, &owner(1), &settings(4)).unwrap();
        let log = recovery.finish(live.iter().map(|at| (*at, 500))).unwrap();
        live.push(log.append_data(RecordData::written(FILE, 0), &contents(tag, 500)).unwrap().position);
    }
    let recovery = Recovery::open(&path, &owner(1), &settings(4)).unwrap();
    let log = recovery.finish(live.iter().map(|at| (*at, 500))).unwrap();
    let space = log.space();
    assert_eq!((space.live_bytes, space.capacity_bytes), (20 * 500, 4 * u64::from(SEGMENT_BYTES)));
    assert!(space.used_bytes < 2 * u64::from(SEGMENT_BYTES), "{space:?}");
    assert_eq!(fill(&log).len(), 2 * 4, "a segment is what was written, and one is for notes");
    for at in live {
        log.release(at, 500).unwrap();
    }
    let _ = log.append_note(b"landed").unwrap();
    log.checkpoint(log.end(), b"").unwrap();
    let all_whole = |space: forebay_log::Space| space.used_bytes.is_multiple_of(SEGMENT_BYTES.into());
    let deadline = Instant::now() + Duration::from_secs(60);
    while !all_whole(log.space()) {
        assert!(Instant::now() < deadline, "{:?}", log.space());
        thread::yield_now();
    }
}

#[test]
fn a_full_disk_is_said_before_anything_is_written() {
    if !rustix::process::geteuid().is_root() {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "would be skipped: a small disk needs root");
        eprintln!("skipped: a small disk needs root");
        return;
    }
    let directory = directory();
    let on_a_small_disk = || {
        unshare(CloneFlags::CLONE_NEWNS).unwrap();
        let none = None::<&str>;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
        mount(Some("tmpfs"), directory.path(), Some("tmpfs"), MsFlags::empty(), Some("size=200k")).unwrap();
        let path = store(&directory);
        let log = open(&path, 100);
        let appended = fill(&log);
        assert_eq!(appended.len(), 5 * 4, "200 KiB hold the head, five segments and that for notes");
        for one in &appended {
            assert_eq!(log.read_record(one.position).unwrap().1.len(), BYTES);
        }
        log.append_note(&[1; 5000]).unwrap();
        log.commit(log.end()).unwrap();
        assert_eq!(log.checkpoint(log.end(), &vec![1; 100_000]), Err(LogError::Full));
        log.commit(log.append_note(b"the log goes on").unwrap().sequence.next()).unwrap();
        fs::write(directory.path().join("filler"), vec![0; 1 << 20]).unwrap_err();
        let one = appended[0];
        (0..4).for_each(|index| log.release(appended[index].position, BYTES as u64).unwrap());
        log.append_data(RecordData::written(FILE, 0), &contents(0, BYTES)).unwrap();
        await_absence(&log, one.position);
        let other = directory.path().join("other");
        let refused = Recovery::open(&other, &owner(1), &settings(4)).unwrap().finish([]).err();
        assert!(matches!(refused, Some(StoreError::Io { .. })), "{refused:?}");
    };
    thread::scope(|scope| scope.spawn(on_a_small_disk).join()).unwrap();
}
