//! Bounds hold: descriptors and operations at once. One program of its own, because it counts the process's descriptors.
use crate::fixture;

use std::fs::{self, File};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use fixture::{Tree, generation, options, view};
use forebay_store::{Store, StoreOptions};
use forebay_types::{CHUNK_BYTES, ChunkIndex};
use rustix::process::{Resource, getrlimit};

/// The tests of this program take turns.
static TURN: Mutex<()> = Mutex::new(());

fn open_descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn reading_2000_files_keeps_to_the_bound_of_descriptors() {
    let _turn = TURN.lock().unwrap();
    const BOUND: usize = 20;
    const THREADS: usize = 4;
    let tree = Tree::new();
    let files: Vec<_> = (0..2000)
        .map(|index| {
            let dir = tree.make_dir(&format!("dir{}", index % 100));
            let path = dir.join(format!("file{index}"));
            File::create(&path).unwrap().set_len(CHUNK_BYTES + 1).unwrap();
            path
        })
        .collect();
    let before = open_descriptors();
    let options = StoreOptions { descriptors: BOUND, operations_max: THREADS, ..options(&[tree.path("")]) };
    let store = Store::open(options).unwrap();
    let (next, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some(file) = files.get(next.fetch_add(1, Ordering::SeqCst)) {
                    let body = store.read_chunk(&view(file), &generation(file), ChunkIndex(1), |_| ()).unwrap();
                    assert_eq!(body.contiguous().unwrap(), &b"\0"[..]);
                    most.fetch_max(open_descriptors(), Ordering::SeqCst);
                }
            });
        }
    });
    let most = most.into_inner() - before;
    // Both kinds kept, what operations hold beyond that, the store's own, and what counting itself opens.
    let allowed = 2 * BOUND + 3 * THREADS + 8 + THREADS;
    assert!(most <= allowed, "{most} descriptors, {allowed} allowed");
    assert!(most >= 2 * BOUND, "the descriptors are kept for use: {most}");
    let forgotten = store.forget();
    assert!(open_descriptors() - before >= 2 * BOUND, "forgetting closes nothing: closing may block");
    drop(forgotten);
    let left = open_descriptors() - before;
    assert!(left <= 12, "{left} descriptors left");
}

#[test]
fn opening_a_store_raises_the_limit_of_open_files() {
    let _turn = TURN.lock().unwrap();
    let tree = Tree::new();
    drop(tree.store());
    let limit = getrlimit(Resource::Nofile);
    assert_eq!(limit.current, limit.maximum);
}
