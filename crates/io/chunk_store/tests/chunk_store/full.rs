//! Disks that are full, small or read-only.

use std::io::ErrorKind;
use std::path::Path;

use forebay_body::Pool;
use forebay_chunk_store::{ChunkStore, MemoryDisk};
use forebay_types::CHUNK_BYTES;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

use crate::{WHOLE, body, has, key, open_with};

fn on(disk: &MemoryDisk) -> ChunkStore {
    ChunkStore::open(Box::new(disk.clone()), 16 * CHUNK_BYTES, Pool::new(8), Path::new("memory")).unwrap()
}

#[test]
fn a_full_disk_admits_nothing_until_it_has_room() {
    let disk = MemoryDisk::new(1 << 30);
    let store = on(&disk);
    store.put(&key(1, 1), &body(1, 1, WHOLE));
    disk.fail_writes(Some(ErrorKind::StorageFull));
    store.put(&key(1, 2), &body(1, 2, WHOLE));
    assert!(has(&store, 1, 1, WHOLE) && !has(&store, 1, 2, WHOLE));
    disk.fail_writes(None);
    store.put(&key(1, 2), &body(1, 2, WHOLE));
    assert!(!has(&store, 1, 2, WHOLE), "not before the next look");
    store.tend();
    store.put(&key(1, 2), &body(1, 2, WHOLE));
    assert!(has(&store, 1, 2, WHOLE));
}

#[test]
fn a_disk_that_fails_is_read_on() {
    let disk = MemoryDisk::new(1 << 30);
    let store = on(&disk);
    store.put(&key(1, 1), &body(1, 1, WHOLE));
    disk.fail_writes(Some(ErrorKind::Other));
    store.put(&key(1, 2), &body(1, 2, WHOLE));
    disk.fail_writes(None);
    store.tend();
    store.put(&key(1, 3), &body(1, 3, WHOLE));
    assert!(has(&store, 1, 1, WHOLE), "it is read");
    assert!(!has(&store, 1, 3, WHOLE), "and nothing is put into it");
    assert_eq!(store.counters().refused, 2);
}

/// Mounts a small disk in a mount namespace of the calling thread; `None` where that is not possible.
fn small_disk(path: &Path, options: &str) -> Option<()> {
    if !rustix::process::geteuid().is_root() {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "would be skipped: a small disk needs root");
        eprintln!("skipped: a small disk needs root");
        return None;
    }
    let none: Option<&str> = None;
    unshare(CloneFlags::CLONE_NEWNS).unwrap();
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
    mount(Some("tmpfs"), path, Some("tmpfs"), MsFlags::empty(), Some(options)).unwrap();
    Some(())
}

#[test]
fn a_small_disk_keeps_its_reserve_and_gets_room_back() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().to_owned();
    let done = std::thread::spawn(move || {
        let Some(()) = small_disk(&path, "size=32m,mode=700") else { return };
        let store = open_with(&path, 32 * CHUNK_BYTES).unwrap();
        (0..40).for_each(|index| store.put(&key(1, index), &body(1, index, WHOLE)));
        let counters = store.counters();
        // A twentieth is left, and the slot that was last admitted.
        assert!((28..=30).contains(&counters.chunks) && counters.refused >= 10, "{counters:?}");
        // Another takes what was left.
        std::fs::write(path.join("other"), vec![1; WHOLE * 3 / 2]).unwrap();
        (0..40).for_each(|_| store.tend());
        let free = rustix::fs::statvfs(&path).unwrap();
        assert!(free.f_bavail * free.f_frsize >= (32 << 20) / 20, "{:?}", store.counters());
        let now = store.counters().chunks;
        assert!(now < counters.chunks && now + 5 > counters.chunks, "it gives back what is needed: {now}");
        assert_eq!((0..40).filter(|index| has(&store, 1, *index, WHOLE)).count() as u64, now);
    });
    done.join().unwrap();
}

#[test]
fn a_read_only_disk_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().to_owned();
    let done = std::thread::spawn(move || {
        let Some(()) = small_disk(&path, "size=32m,mode=700,ro") else { return };
        let said = open_with(&path, 8 * CHUNK_BYTES).err().expect("an error").to_string();
        assert!(said.contains("read-only file system"), "{said}");
        let said = open_with(&path.join("below"), 8 * CHUNK_BYTES).err().expect("an error").to_string();
        assert!(said.contains("read-only file system"), "{said}");
    });
    done.join().unwrap();
}
