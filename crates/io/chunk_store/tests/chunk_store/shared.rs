//! Processes that share a store, and die in it.

use std::process::{Command, Stdio};

use crate::{body, has, key, look, open};

/// Names the store in the environment of a process that works on it.
const STORE: &str = "FOREBAY_TEST_CHUNK_STORE";

/// Chunks that the processes use, more than half of which fit.
const CHUNKS: u64 = 48;

/// The length of a chunk, bytes.
const LEN: usize = 900_000;

/// Puts and gets for as long as it lives, or for so many rounds.
fn work(path: &std::path::Path, rounds: u64) {
    let store = open(path);
    for round in 0..rounds {
        for step in 0..CHUNKS {
            let index = (step * 7 + round * 5) % CHUNKS;
            // Both processes change versions, each at its own pace.
            let version = 1 + round % 3;
            if !has(&store, version, index, LEN) {
                store.put(&key(version, index), &body(version, index, LEN));
            }
        }
        store.tend();
    }
}

#[test]
fn child_that_works_on_a_store() {
    let Some(path) = std::env::var_os(STORE) else { return };
    work(path.as_ref(), u64::MAX);
}

#[test]
fn processes_share_a_store_and_one_that_is_killed_leaves_no_lock() {
    let place = tempfile::tempdir().unwrap();
    for _ in 0..3 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "shared::child_that_works_on_a_store"])
            .env(STORE, place.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // `has` compares every chunk that is found.
        work(place.path(), 4);
        assert!(child.try_wait().unwrap().is_none(), "it has not failed");
        child.kill().unwrap();
        let _ = child.wait().unwrap();
        let store = open(place.path());
        assert!(store.counters().used_bytes <= 65 << 20, "{:?}", store.counters());
        store.put(&key(9, 0), &body(9, 0, LEN));
        assert!(has(&store, 9, 0, LEN));
    }
}

#[test]
fn threads_that_read_while_chunks_are_replaced_get_right_bytes() {
    let place = tempfile::tempdir().unwrap();
    let store = open(place.path());
    let (store, done) = (&store, &std::sync::atomic::AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(move || {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    (1..6).for_each(|version| look(store, version, 0, LEN));
                }
            });
        }
        for round in 0..60 {
            let version = 1 + round % 5;
            store.put(&key(version, 0), &body(version, 0, LEN));
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    store.put(&key(7, 0), &body(7, 0, LEN));
    assert!(has(store, 7, 0, LEN));
}
