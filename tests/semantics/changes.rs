//! Files that change behind a job: never a mixture of two versions, and no error that stays.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use forebay_tests::{Site, compare, require, tree};

const ESTALE: i32 = 116;

/// Long before the files are made: any access moves it, also on a file system that moves access times rarely.
const LONG_AGO_SECONDS: i64 = 1_000_000_000;

#[test]
fn a_changed_file_is_told_to_who_holds_it_and_found_by_who_opens_it_again() {
    require!(Fuse, Root);
    for nodes in [1, 7] {
        let site = Site::new(nodes, |source| tree::write(&source.join("results"), b"of the first run"));
        let (source, view) = (site.source("results"), site.view("results"));
        let mut held = File::open(&view).unwrap();
        tree::write(&source, b"of the second run, which are longer");
        let mut contents = Vec::new();
        let error = held.read_to_end(&mut contents).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(ESTALE), "{} of {nodes} nodes: {error}", view.display());
        // The kernel is told a moment after the program was.
        let deadline = Instant::now() + Duration::from_secs(20);
        let again = loop {
            match fs::read(&view) {
                Err(error) if error.raw_os_error() == Some(ESTALE) && Instant::now() < deadline => {
                    thread::sleep(Duration::from_millis(1));
                }
                outcome => break outcome.unwrap(),
            }
        };
        assert_eq!(again, b"of the second run, which are longer");
        assert_eq!(held.read_to_end(&mut contents).unwrap_err().raw_os_error(), Some(ESTALE), "the old file stays old");
        compare::trees(&site.source("."), &site.view("."));
    }
}

/// Deleting is a change like any other, also of a directory with all that is in it.
#[test]
fn a_deleted_file_is_told_to_who_holds_it_and_absent_to_who_opens_it_again() {
    require!(Fuse);
    for nodes in [1, 7] {
        let site = Site::new(nodes, |source| {
            tree::write(&source.join("alone"), b"a file");
            fs::create_dir(source.join("old")).unwrap();
            tree::write(&source.join("old/striped"), &vec![7; 1 << 20]);
        });
        for (name, gone) in [("alone", "alone"), ("old/striped", "old")] {
            let mut held = File::open(site.view(name)).unwrap();
            let gone = site.source(gone);
            if gone.is_dir() {
                fs::remove_dir_all(gone).unwrap()
            } else {
                fs::remove_file(gone).unwrap()
            }
            let error = held.read_to_end(&mut Vec::new()).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(ESTALE), "{name} of {nodes} nodes: {error}");
            let deadline = Instant::now() + Duration::from_secs(20);
            let is_absent =
                || matches!(fs::metadata(site.view(name)), Err(error) if error.kind() == ErrorKind::NotFound);
            while !is_absent() {
                assert!(Instant::now() < deadline, "{name} of {nodes} nodes is shown although it is gone");
                thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

/// A read asks for the access time anew, since it could have moved it: what is told is still that of the first look.
#[test]
fn access_times_do_not_move() {
    require!(Fuse);
    for nodes in [1, 7] {
        let site = Site::new(nodes, |source| {
            let file = source.join("read");
            tree::write(&file, b"contents");
            let times = fs::FileTimes::new().set_accessed(UNIX_EPOCH + Duration::from_secs(LONG_AGO_SECONDS as u64));
            File::open(file).unwrap().set_times(times).unwrap();
        });
        let views = [0, site.rank()].map(|rank| site.job().path(rank, &site.source("read")));
        let is_of_first_look = |when: &str| {
            for view in &views {
                let seen = fs::metadata(view).unwrap().atime();
                assert_eq!(seen, LONG_AGO_SECONDS, "{} of {nodes} nodes {when}", view.display());
            }
        };
        is_of_first_look("at first");
        for view in &views {
            assert_eq!(fs::read(view).unwrap(), b"contents");
        }
        is_of_first_look("after it was read");
        let _ = fs::read(site.source("read")).unwrap();
        let now = fs::FileTimes::new().set_accessed(SystemTime::now());
        File::open(site.source("read")).unwrap().set_times(now).unwrap();
        is_of_first_look("after it moved at the source");
    }
}
