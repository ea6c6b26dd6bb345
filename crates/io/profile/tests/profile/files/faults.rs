//! A full disk leaves what was there; writers at the same time never show anybody half of a file.

use std::sync::atomic::{AtomicBool, Ordering};

use forebay_profile::{BlockOpener, Profile, ProfileDirectory, ProfileError};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use rustix::io::Errno;

use crate::files::place::{AMPLE_BYTES, Place, is_root, pieces, profile, write_pack};

/// Runs `act` on a thread with a mount namespace of its own, in which `place` is a file system of `size`.
fn on_a_small_disk(place: &Place, size: &str, act: impl FnOnce() + Send) {
    let run = || {
        unshare(CloneFlags::CLONE_NEWNS).unwrap();
        let none = None::<&str>;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
        let options = format!("size={size},mode=0700");
        mount(Some("tmpfs"), &place.path(), Some("tmpfs"), MsFlags::empty(), Some(&*options)).unwrap();
        act();
    };
    std::thread::scope(|scope| scope.spawn(run).join()).unwrap();
}

fn is_full<T>(outcome: Result<T, ProfileError>) -> bool {
    let full = |source: &std::io::Error| source.raw_os_error() == Some(Errno::NOSPC.raw_os_error());
    matches!(outcome, Err(ProfileError::Io { source, .. }) if full(&source))
}

#[test]
fn a_full_disk_leaves_what_was_there() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    place.open();
    on_a_small_disk(&place, "256k", || {
        let directory = place.open();
        let (one, files) = (profile("train"), directory.files(profile("train").key()));
        directory.store(&one).unwrap();
        let mut pack = files.begin_pack(1).unwrap();
        let full = pieces().into_iter().try_for_each(|(piece, bytes)| pack.add(piece, &bytes));
        assert!(is_full(full.and_then(|()| pack.finish())));
        assert_eq!(place.names().len(), 1, "the profile is there, and nothing of the pack");
        std::fs::write(place.path().join("filler"), vec![0; 1 << 20]).unwrap_err();
        assert!(is_full(directory.store(&Profile { starts: 7, ..one.clone() })));
        assert_eq!(files.read().unwrap(), Some(one));
        std::fs::remove_file(place.path().join("filler")).unwrap();
        directory.store(&profile("other")).unwrap();
    });
}

#[test]
fn writers_at_the_same_time_show_whole_files_only() {
    let place = Place::new();
    // Room for one pack: they also remove each other's.
    let first = place.open();
    first.store(&profile("a")).unwrap();
    write_pack(&first.files(profile("a").key()));
    let kept = &first.list().unwrap()[0];
    let budget_bytes = kept.profile_bytes * 4 + kept.pack_bytes.unwrap() * 2;
    let is_done = AtomicBool::new(false);
    let open = || ProfileDirectory::open(&place.path(), budget_bytes).unwrap();
    std::thread::scope(|scope| {
        let writers: Vec<_> = ["a", "a", "b", "c"]
            .map(|command| {
                scope.spawn(move || {
                    let directory = open();
                    for starts in 0..10 {
                        directory.store(&Profile { starts, ..profile(command) }).unwrap();
                        write_pack(&directory.files(profile(command).key()));
                    }
                })
            })
            .into_iter()
            .collect();
        for _ in 0..2 {
            scope.spawn(|| {
                let directory = open();
                while !is_done.load(Ordering::Relaxed) {
                    read_all(&directory);
                }
            });
        }
        let outcomes: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        is_done.store(true, Ordering::Relaxed);
        outcomes.into_iter().for_each(|outcome| outcome.unwrap());
    });
    let kept = first.list().unwrap();
    let bytes: u64 = kept.iter().map(|each| each.profile_bytes + each.pack_bytes.unwrap_or(0)).sum();
    assert!(bytes <= budget_bytes && !kept.is_empty(), "{bytes} of {budget_bytes}");
    assert!(place.names().iter().all(|name| !name.contains("unfinished")));
}

/// Whatever is there is whole.
fn read_all(directory: &ProfileDirectory) {
    for command in ["a", "b", "c"] {
        let files = directory.files(profile(command).key());
        if let Some(found) = files.read().unwrap() {
            assert_eq!(found.uses, profile(command).uses);
        }
        if let Some(pack) = files.open_pack().unwrap() {
            (0..pack.index().blocks().len())
                .for_each(|number| drop(pack.read_pieces(number, &mut BlockOpener::new()).unwrap()));
        }
    }
}

#[test]
fn a_directory_that_was_never_made_is_made() {
    let place = Place::new();
    assert!(ProfileDirectory::open_existing(&place.path(), AMPLE_BYTES).is_err());
    assert!(place.open().list().unwrap().is_empty());
}
