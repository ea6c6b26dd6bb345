//! Access to stores, and the files that they leave.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;

use forebay_log::{Capacity, Log, LogError, Owner, Recovery, Settings, StoreError, boot_identity, carry, whose};
use forebay_types::{Errno, NodeRank};
use forebay_wire::log_record::RecordData;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::fixture::{FILE, all, contents, directory, open, owner, settings, store};

fn refusal(path: &Path) -> String {
    Recovery::open(path, &owner(1), &settings(4)).err().unwrap().to_string()
}

#[test]
fn a_store_is_its_owners_alone() {
    let directory = directory();
    let path = store(&directory);
    let log = open(&path, 4);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o700);
    for file in fs::read_dir(&path).unwrap() {
        assert_eq!(file.unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
    assert!(refusal(&path).contains("in use by another daemon"));
    drop(log);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).unwrap();
    assert!(refusal(&path).contains("open to others (mode 0750)"));
}

#[test]
fn two_open_one_store_and_one_of_them_gets_it() {
    let directory = directory();
    let path = store(&directory);
    let open = || Recovery::open(&path, &owner(1), &settings(4));
    let opened: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(opened.iter().filter(|opened| opened.is_ok()).count(), 1);
    let refused = opened.iter().filter_map(|opened| opened.as_ref().err());
    assert!(refused.into_iter().all(|error| matches!(error, StoreError::Busy { .. })));
}

#[test]
fn another_jobs_store_is_refused_by_name() {
    let directory = directory();
    let path = store(&directory);
    drop(open(&path, 4));
    let other = Owner { job: "4712".into(), ..owner(1) };
    let refused = Recovery::open(&path, &other, &settings(4)).err().unwrap().to_string();
    assert!(refused.contains("belongs to job 4711, not to 4712, and holds up to "), "{refused}");
    let other = Owner { node: NodeRank(1), ..owner(1) };
    let refused = Recovery::open(&path, &other, &settings(4)).err().unwrap().to_string();
    assert!(refused.contains("belongs to node 3 of the job, not to node 1"), "{refused}");
    let other = Owner { landing: "/elsewhere".into(), ..owner(1) };
    let refused = Recovery::open(&path, &other, &settings(4)).err().unwrap().to_string();
    assert!(refused.contains("lands in /lustre/run, not in /elsewhere"), "{refused}");
    let long = Owner { job: "x".repeat(256), ..owner(1) };
    assert!(matches!(Recovery::open(&path, &long, &settings(4)), Err(StoreError::JobName { bytes: 256 })));
}

#[test]
fn a_store_says_whose_it_is() {
    let directory = directory();
    let path = store(&directory);
    assert_eq!(whose(&path).unwrap(), None);
    fs::create_dir(&path).unwrap();
    assert_eq!(whose(&path).unwrap(), None);
    fs::remove_dir(&path).unwrap();
    let log = open(&path, 4);
    assert!(matches!(whose(&path), Err(StoreError::Busy { .. })));
    drop(log);
    assert_eq!(whose(&path).unwrap(), Some(owner(1)));
    drop(Recovery::open(&path, &Owner { nodes: 5, ..owner(2) }, &settings(4)).unwrap().finish([]).unwrap());
    assert_eq!(whose(&path).unwrap(), Some(Owner { nodes: 5, ..owner(2) }));
}

/// In a job's epilogue root waits for the process that opens a store.
#[test]
fn pipes_in_a_store_are_not_waited_for_and_huge_files_not_read() {
    let directory = directory();
    let path = store(&directory);
    let log = open(&path, 4);
    let appended = log.append_data(RecordData::written(FILE, 0), &contents(1, 100)).unwrap();
    log.checkpoint(appended.sequence, b"core").unwrap();
    drop(log);
    let segment = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let segment = segment.filter(|name| name.starts_with("segment-")).min().unwrap();
    let to = directory.path().join("elsewhere");
    for name in ["head", "lock", "checkpoint", &segment] {
        let (there, aside) = (path.join(name), directory.path().join("aside"));
        fs::rename(&there, &aside).unwrap();
        mknodat(CWD, &there, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        for error in [refusal(&path), carry(&path, &to).unwrap_err().to_string()] {
            assert!(error.contains("is not a regular file"), "{name}: {error}");
        }
        fs::remove_file(&there).unwrap();
        if ["head", "checkpoint"].contains(&name) {
            fs::File::create(&there).unwrap().set_len(200 << 30).unwrap();
            for error in [refusal(&path), carry(&path, &to).unwrap_err().to_string()] {
                assert!(error.contains(&format!("{name} is longer than ")), "{error}");
            }
        }
        fs::rename(&aside, &there).unwrap();
        assert!(!to.exists(), "{name}");
    }
    assert_eq!(whose(&path).unwrap(), Some(owner(1)), "it is as it was");
}

#[test]
fn another_users_store_is_refused() {
    if !rustix::process::geteuid().is_root() {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "would be skipped: chown needs root");
        eprintln!("skipped: chown needs root");
        return;
    }
    let directory = directory();
    let path = store(&directory);
    drop(open(&path, 4));
    chown(&path, Some(1234), None).unwrap();
    assert!(refusal(&path).contains("belongs to user 1234"));
}

#[test]
fn another_version_and_a_spoiled_head_are_told_apart() {
    let directory = directory();
    let path = store(&directory);
    drop(open(&path, 4));
    let head = fs::read(path.join("head")).unwrap();
    let mut newer = head.clone();
    newer[8] = 9;
    let body = newer.len() - 4;
    let checksum = crc32c::crc32c(&newer[..body]).to_le_bytes();
    newer[body..].copy_from_slice(&checksum);
    fs::write(path.join("head"), newer).unwrap();
    let refused = refusal(&path);
    assert!(refused.contains("has version 9 of its layout; this program reads version 8"), "{refused}");
    assert!(refused.contains("`forebay salvage` of the forebay that wrote it"), "{refused}");
    fs::write(path.join("head"), &head[..20]).unwrap();
    assert!(refusal(&path).contains("head: "));
    fs::remove_file(path.join("head")).unwrap();
    assert!(refusal(&path).contains("head: it is missing"));
    fs::write(path.join("head"), head).unwrap();
    fs::write(path.join("checkpoint"), b"nonsense").unwrap();
    assert!(refusal(&path).contains("checkpoint: "));
}

#[test]
fn a_directory_of_other_files_is_left_alone() {
    let directory = directory();
    let path = store(&directory);
    fs::create_dir(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(path.join("thesis.tex"), b"").unwrap();
    assert!(refusal(&path).contains("is not a store and not empty (thesis.tex is in it)"));
    assert!(refusal(&directory.path().join("no/such")).contains("cannot create"));
    fs::remove_file(path.join("thesis.tex")).unwrap();
    open(&path, 4);
}

#[test]
fn a_store_has_room_for_a_log() {
    let directory = directory();
    let path = store(&directory);
    let refused = Recovery::open(&path, &owner(1), &settings(2)).err().unwrap();
    assert!(matches!(refused, StoreError::TooSmall { capacity_bytes: 65536, min_bytes: 98304, .. }), "{refused}");
    let full_size = Settings::new(100 << 20);
    assert!(matches!(Recovery::open(&path, &owner(1), &full_size), Err(StoreError::TooSmall { .. })));
}

#[test]
fn a_wiped_store_leaves_nothing() {
    let directory = directory();
    let path = store(&directory);
    let log = open(&path, 4);
    for tag in 0..8 {
        let appended = log.append_data(RecordData::written(FILE, 0), &contents(tag, 7000)).unwrap();
        log.release(appended.position, 7000).unwrap();
    }
    log.checkpoint(log.end(), b"nothing").unwrap();
    assert_eq!(log.space().live_bytes, 0);
    log.wipe().unwrap();
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    // A wipe that is killed leaves a part of the files.
    let log: Log = open(&path, 4);
    log.append_note(b"of the store that is wiped").unwrap();
    drop(log);
    fs::rename(path.join("head"), path.join("wiped")).unwrap();
    let mut recovery = Recovery::open(&path, &owner(1), &settings(4)).unwrap();
    assert_eq!(all(&mut recovery), []);
    recovery.finish([]).unwrap().wipe().unwrap();
}

#[test]
fn the_machines_run_has_an_identity() {
    assert_eq!(boot_identity().unwrap(), boot_identity().unwrap());
    assert_ne!(boot_identity().unwrap(), [0; 16]);
}

/// A store that was carried is not carried again, and another store of the same node is neither taken for it nor written over.
#[test]
fn a_store_is_carried_over_no_other_one() {
    let directory = directory();
    let (path, to) = (store(&directory), directory.path().join("3"));
    drop(open(&path, 4));
    let first = fs::read(path.join("head")).unwrap();
    carry(&path, &to).unwrap();
    assert!(!path.exists());
    let log = open(&path, 4);
    let position = log.append_data(RecordData::written(FILE, 0), b"of the second run").unwrap().position;
    log.commit(log.end()).unwrap();
    drop(log);
    let refused = carry(&path, &to).unwrap_err();
    assert!(matches!(refused, StoreError::OtherLog { .. }), "{refused}");
    assert!(
        refused.to_string().contains("stays where it is") && refused.to_string().contains("another run"),
        "{refused}"
    );
    assert_eq!(fs::read(to.join("head")).unwrap(), first);
    let log = Recovery::open(&path, &owner(1), &settings(4)).unwrap().finish([(position, 17)]).unwrap();
    let mut bytes = [0; 17];
    log.read(position, 0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"of the second run");
    drop(log);
    // Cut short after it had its name there: the same one is removed here.
    fs::remove_dir_all(&to).unwrap();
    fs::create_dir(&to).unwrap();
    for file in fs::read_dir(&path).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
    carry(&path, &to).unwrap();
    assert!(!path.exists() && to.join("head").exists());
}

/// A place of a store that is gone is none in the one that comes after it.
#[test]
fn a_new_store_has_no_place_of_the_one_before() {
    let directory = directory();
    let path = store(&directory);
    let log = open(&path, 4);
    let position = log.append_data(RecordData::written(FILE, 0), &contents(1, 5000)).unwrap().position;
    log.wipe().unwrap();
    drop(log);
    let log = open(&path, 4);
    let appended = log.append_data(RecordData::written(FILE, 0), &contents(2, 5000)).unwrap();
    assert_eq!(log.read(position, 0, &mut [0; 8]), Err(LogError::Absent(position)));
    log.read(appended.position, 0, &mut [0; 8]).unwrap();
}

#[test]
fn a_store_that_somebody_removes_has_failed_at_the_next_commit() {
    let directory = directory();
    let path = store(&directory);
    let log = open(&path, 4);
    let before = log.append_note(b"before").unwrap().sequence.next();
    log.commit(before).unwrap();
    // The thread that makes the next segments may put one there meanwhile, and may be the one that notices it.
    while fs::remove_dir_all(&path).is_err_and(|error| error.kind() != ErrorKind::NotFound) {}
    let is_gone = |outcome| matches!(outcome, Err(LogError::Failed(Errno::ESTALE | Errno::ENOENT)));
    assert!(is_gone(log.append_note(b"after").and_then(|after| log.commit(after.sequence.next()))));
    assert!(is_gone(log.append_note(b"later").map(drop)));
}

#[test]
fn a_store_that_is_moved_away_has_failed_at_the_next_commit_whatever_takes_its_place() {
    for is_replaced in [false, true] {
        let directory = directory();
        let path = store(&directory);
        let log = open(&path, 4);
        log.commit(log.append_note(b"before").unwrap().sequence.next()).unwrap();
        let aside = path.with_extension("aside");
        fs::rename(&path, &aside).unwrap();
        if is_replaced {
            fs::create_dir(&path).unwrap();
        }
        let after = log.append_note(b"after").unwrap().sequence.next();
        assert_eq!(log.commit(after), Err(LogError::Failed(Errno::ESTALE)));
        assert_eq!(log.append_note(b"later").map(drop), Err(LogError::Failed(Errno::ESTALE)));
        drop(log);
        assert_eq!((aside.is_dir(), path.is_dir()), (true, is_replaced), "neither is removed");
        drop(open(&aside, 4));
    }
}

#[test]
fn a_store_that_could_not_be_made_leaves_no_directory() {
    let directory = directory();
    let path = store(&directory);
    let too_small = Settings { capacity: Capacity::Bytes(1), ..settings(4) };
    assert!(Recovery::open(&path, &owner(1), &too_small).is_err());
    assert!(!path.exists(), "nothing is in it");
    fs::create_dir(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(path.join("notes.txt"), b"somebody's").unwrap();
    assert!(Recovery::open(&path, &owner(1), &too_small).is_err());
    assert_eq!(fs::read(path.join("notes.txt")).unwrap(), b"somebody's");
    fs::remove_file(path.join("notes.txt")).unwrap();
    drop(open(&path, 4));
    assert!(Recovery::open(&path, &owner(1), &too_small).is_err());
    assert!(path.join("head").exists(), "a store");
}

/// The large files of a store were removed, and the small ones were left.
#[test]
fn a_store_that_lost_all_its_segments_gives_none_of_their_places_again() {
    let directory = directory();
    let path = store(&directory);
    let log = open(&path, 4);
    let position = log.append_data(RecordData::written(FILE, 0), &contents(1, 5000)).unwrap().position;
    drop(log);
    let remove_segments = || {
        for file in fs::read_dir(&path).unwrap().map(Result::unwrap) {
            if file.file_name().to_str().unwrap().starts_with("segment-") {
                fs::remove_file(file.path()).unwrap();
            }
        }
    };
    remove_segments();
    let log = open(&path, 4);
    log.append_data(RecordData::written(FILE, 0), &contents(2, 5000)).unwrap();
    assert_eq!(log.read(position, 0, &mut [0; 8]), Err(LogError::Absent(position)));
    log.checkpoint(log.end(), b"stands for all").unwrap();
    drop(log);
    remove_segments();
    let refused = Recovery::open(&path, &owner(1), &settings(4)).err().expect("its records are gone");
    assert!(refused.to_string().contains("the segments that it belongs to are missing"), "{refused}");
}

/// A store that was copied, and not removed, goes on: what it has now is not in the copy.
#[test]
fn a_store_is_not_removed_in_favour_of_an_older_copy() {
    let directory = directory();
    let (path, to) = (store(&directory), directory.path().join("3"));
    drop(open(&path, 4));
    fs::create_dir(&to).unwrap();
    for file in fs::read_dir(&path).unwrap().map(Result::unwrap) {
        fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
    drop(open(&path, 4));
    let refused = carry(&path, &to).unwrap_err();
    assert!(matches!(refused, StoreError::OtherLog { .. }), "{refused}");
    assert!(path.exists());
}
