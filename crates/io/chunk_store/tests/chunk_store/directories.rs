//! Directories that may hold a store, and the life of a store in one.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;

use forebay_chunk_store::{ChunkStoreError, Neighbour, drop_store, summary};
use forebay_types::CHUNK_BYTES;

use crate::{WHOLE, body, has, key, open, open_with};

/// The files of a store, which its documentation names.
const FILES: [&str; 2] = ["forebay-cache-index", "forebay-cache-chunks"];

fn problem(path: &Path) -> String {
    open_with(path, 64 * CHUNK_BYTES).err().expect("an error").to_string()
}

#[test]
fn chunks_are_there_for_the_next_process_and_take_the_room_of_their_length() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("store");
    let lengths = [1, 4095, 4096, 4097, 300_000, WHOLE - 1, WHOLE];
    {
        let store = open(&path);
        for (index, len) in lengths.into_iter().enumerate() {
            assert!(!has(&store, 1, index as u64, len));
            store.put(&key(1, index as u64), &body(1, index as u64, len));
        }
    }
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
    let store = open(&path);
    for (index, len) in lengths.into_iter().enumerate() {
        assert!(has(&store, 1, index as u64, len), "{len} bytes");
        assert!(!has(&store, 1, index as u64, len + 1), "another length");
        assert!(!has(&store, 2, index as u64, len), "another version");
    }
    let counters = store.counters();
    let blocks: usize = lengths.iter().map(|len| len.div_ceil(4096) + 1).sum();
    assert_eq!((counters.chunks, counters.hits), (7, 7));
    assert!((blocks * 4096..blocks * 4096 + 7 * 4096).contains(&(counters.used_bytes as usize)), "{counters:?}");
    assert_eq!(counters.hit_bytes, lengths.iter().sum::<usize>() as u64);
    assert_eq!(counters.damaged, 0);
}

#[test]
fn a_new_version_takes_the_place_of_the_old_one() {
    let place = tempfile::tempdir().unwrap();
    let store = open(place.path());
    for version in 1..=5 {
        store.put(&key(version, 0), &body(version, 0, WHOLE - version as usize * 5000));
        assert!(has(&store, version, 0, WHOLE - version as usize * 5000));
    }
    assert!(!has(&store, 4, 0, WHOLE - 20_000));
    let counters = store.counters();
    assert_eq!((counters.chunks, counters.damaged), (1, 0));
    assert!(counters.used_bytes < CHUNK_BYTES, "{counters:?}");
}

#[test]
fn a_store_that_may_have_less_gives_back_what_is_too_much() {
    let place = tempfile::tempdir().unwrap();
    {
        let store = open(place.path());
        (0..40).for_each(|index| store.put(&key(1, index), &body(1, index, WHOLE)));
        assert_eq!(store.counters().chunks, 40);
    }
    let store = open_with(place.path(), 10 * CHUNK_BYTES).unwrap();
    // One look gives back one slot of each set.
    (0..40).for_each(|_| store.tend());
    let counters = store.counters();
    assert!(counters.used_bytes <= 10 * CHUNK_BYTES && counters.chunks >= 8, "{counters:?}");
    assert_eq!((0..40).filter(|index| has(&store, 1, *index, WHOLE)).count() as u64, counters.chunks);
    drop(store);
    // A larger one needs more slots, and begins empty.
    let store = open_with(place.path(), 1000 * CHUNK_BYTES).unwrap();
    assert_eq!(store.counters().chunks, 0);
}

#[test]
fn directories_that_cannot_be_trusted_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    fs::write(at("file"), "").unwrap();
    fs::create_dir(at("open")).unwrap();
    fs::set_permissions(at("open"), fs::Permissions::from_mode(0o777)).unwrap();
    symlink(at("open"), at("link")).unwrap();
    fs::create_dir(at("linked")).unwrap();
    fs::set_permissions(at("linked"), fs::Permissions::from_mode(0o700)).unwrap();
    symlink(at("file"), at("linked").join(FILES[0])).unwrap();
    assert!(problem(&at("file")).contains("is not a directory"));
    assert!(problem(&at("link")).contains("is a symbolic link"));
    let said = problem(&at("open"));
    assert!(said.contains("others may write") && said.contains("0777") && said.contains("chmod 700"), "{said}");
    assert!(problem(&at("linked")).contains("not a regular file of yours"));
    assert!(problem(&at("gone/store")).contains("cannot make"));
    assert_eq!(fs::read(at("file")).unwrap(), b"");
}

#[test]
fn another_users_directory_is_refused() {
    let place = tempfile::tempdir().unwrap();
    if chown(place.path(), Some(12345), None).is_err() {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "would be skipped: chown needs root");
        eprintln!("skipped: chown needs root");
        return;
    }
    assert!(problem(place.path()).contains("belongs to user 12345"));
    assert!(matches!(summary(place.path()), Err(ChunkStoreError::OtherUser { found: 12345, .. })));
    assert!(matches!(drop_store(place.path()), Err(ChunkStoreError::OtherUser { found: 12345, .. })));
}

#[test]
fn a_capacity_that_cannot_be_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let problem = |bytes| open_with(place.path(), bytes).err().expect("an error").to_string();
    assert!(problem(CHUNK_BYTES - 1).contains("at least 1MiB"));
    assert!(problem(1 << 62).contains("are possible there"));
}

#[test]
fn another_version_is_named_and_only_drop_removes_it() {
    let place = tempfile::tempdir().unwrap();
    open(place.path()).put(&key(1, 1), &body(1, 1, WHOLE));
    let index = place.path().join(FILES[0]);
    let mut bytes = fs::read(&index).unwrap();
    bytes[8] = 9;
    fs::write(&index, &bytes).unwrap();
    let said = problem(place.path());
    assert!(said.contains("version 9") && said.contains("forebay cache drop"), "{said}");
    assert_eq!(summary(place.path()).unwrap().unwrap().version, 9);
    assert_eq!(fs::read(&index).unwrap(), bytes, "left as it was");
    assert!(drop_store(place.path()).unwrap().unwrap() > CHUNK_BYTES);
    open(place.path());
}

#[test]
fn a_store_is_dropped_under_a_job_and_nothing_else_is() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("mine"), "mine").unwrap();
    let store = open(place.path());
    store.put(&key(1, 1), &body(1, 1, WHOLE));
    let found = summary(place.path()).unwrap().unwrap();
    assert_eq!((found.version, found.capacity_bytes, found.chunks), (1, 64 * CHUNK_BYTES, 1));
    assert!(found.used_bytes > CHUNK_BYTES && found.last_use.elapsed().unwrap().as_secs() < 600);
    assert!(drop_store(place.path()).unwrap().unwrap() > CHUNK_BYTES);
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
    assert_eq!((summary(place.path()).unwrap(), drop_store(place.path()).unwrap()), (None, None));
    assert!(!has(&store, 1, 1, WHOLE));
    store.tend();
    assert!(store.is_off());
    store.put(&key(1, 2), &body(1, 2, WHOLE));
    assert!(!has(&store, 1, 2, WHOLE));
    // The next job's.
    let next = open(place.path());
    next.put(&key(1, 2), &body(1, 2, WHOLE));
    assert!(has(&next, 1, 2, WHOLE) && !has(&store, 1, 2, WHOLE));
    assert_eq!(summary(&place.path().join("gone")).unwrap(), None);
}

#[test]
fn room_that_the_burst_store_may_take_is_left_to_it() {
    let place = tempfile::tempdir().unwrap();
    let (path, burst) = (place.path().join("cache"), place.path().join("burst"));
    fs::create_dir(&burst).unwrap();
    let neighbour = |capacity_bytes| Some(Neighbour { directory: burst.clone(), capacity_bytes });
    let open = |neighbour| {
        let disk = forebay_chunk_store::FileDisk::open(&path, neighbour).unwrap();
        forebay_chunk_store::ChunkStore::open(Box::new(disk), 8 << 20, forebay_body::Pool::new(8), &path).unwrap()
    };
    let store = open(neighbour(1 << 60));
    store.put(&key(1, 1), &body(1, 1, WHOLE));
    assert!(!has(&store, 1, 1, WHOLE));
    assert_eq!(store.counters().refused, 1);
    // Of a capacity that is used there is nothing left to take.
    fs::write(burst.join("segment"), vec![1; WHOLE]).unwrap();
    let store = open(neighbour(CHUNK_BYTES));
    store.put(&key(1, 1), &body(1, 1, WHOLE));
    assert!(has(&store, 1, 1, WHOLE));
}
