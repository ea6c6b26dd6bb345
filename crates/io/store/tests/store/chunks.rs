//! Chunks: the bytes, the versions, and what is no file.
use crate::fixture;

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use fixture::{Tree, attributes, generation, is_root, skip, view};
use forebay_body::Body;
use forebay_store::Store;
use forebay_types::{CHUNK_BYTES, ChunkIndex, Errno, Generation, PIECE_BYTES, chunk_bytes};
use rustix::fs::{CWD, FileType, Mode};

fn contents(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at as u32).wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect()
}

fn read(store: &Store, file: &Path, index: u64) -> Result<Vec<u8>, Errno> {
    let body = store.read_chunk(&view(file), &generation(file), ChunkIndex(index), |_| ())?;
    Ok(body.contiguous().unwrap().to_vec())
}

#[test]
fn every_chunk_has_the_bytes_of_the_file() {
    let tree = Tree::new();
    let store = tree.store();
    let chunk = CHUNK_BYTES as usize;
    for len in [0, 1, PIECE_BYTES, PIECE_BYTES + 1, chunk - 1, chunk, chunk + 1, 2 * chunk + PIECE_BYTES + 77] {
        let bytes = contents(len);
        let file = tree.write(&format!("file{len}"), &bytes);
        let parts = (0..3).map(|index| read(&store, &file, index).unwrap());
        assert_eq!(parts.collect::<Vec<_>>().concat(), bytes);
        assert_eq!(read(&store, &file, u64::MAX / CHUNK_BYTES), Ok(Vec::new()));
    }
}

#[test]
fn a_file_of_several_chunks_is_opened_once() {
    let tree = Tree::new();
    let file = tree.write("file", contents(5 << 20));
    let store = tree.store();
    let before = store.counters();
    (0..5).for_each(|index| assert_eq!(read(&store, &file, index).unwrap().len(), 1 << 20));
    let after = store.counters();
    assert_eq!(after.opens - before.opens, 1);
    assert_eq!(after.bytes - before.bytes, 5 << 20);
    assert_eq!((after.reads - before.reads, after.stats - before.stats), (5, 5));
    // As many pieces as a site says are read at once.
    let store = tree.store_that_reads(2 * PIECE_BYTES);
    (0..5).for_each(|index| assert_eq!(read(&store, &file, index).unwrap().len(), 1 << 20));
    assert_eq!(store.counters().reads, 20);
}

#[test]
fn a_sparse_file_of_5_gib_reads_as_zeros_but_for_its_data() {
    const SIZE: u64 = (5 << 30) + 5;
    let tree = Tree::new();
    let file = tree.write("sparse", "");
    let handle = File::options().write(true).open(&file).unwrap();
    handle.set_len(SIZE).unwrap();
    handle.write_all_at(b"end", SIZE - 3).unwrap();
    let store = tree.store();
    assert_eq!(read(&store, &file, 4096), Ok(vec![0; CHUNK_BYTES as usize]));
    let last = ChunkIndex::of(SIZE).0;
    assert_eq!(read(&store, &file, last), Ok(b"\0\0end".to_vec()));
    assert_eq!(attributes(&file).size_bytes, SIZE);
}

#[test]
fn the_body_grows_while_the_chunk_is_read() {
    let tree = Tree::new();
    let file = tree.write("file", contents(CHUNK_BYTES as usize));
    let seen: Arc<Mutex<Vec<usize>>> = Arc::default();
    let (inner, store) = (Arc::clone(&seen), tree.store_that_reads(PIECE_BYTES));
    let started = |body: Arc<Body>| {
        assert_eq!((body.filled_bytes(), body.expected_bytes()), (0, CHUNK_BYTES as usize));
        for end in (1..=8).map(|piece| piece * PIECE_BYTES) {
            let (seen, growing) = (Arc::clone(&inner), Arc::downgrade(&body));
            body.when_filled(end, move |_| seen.lock().unwrap().push(growing.upgrade().unwrap().filled_bytes()));
        }
    };
    store.read_chunk(&view(&file), &generation(&file), ChunkIndex(0), started).unwrap();
    assert_eq!(*seen.lock().unwrap(), (1..=8).map(|piece| piece * PIECE_BYTES).collect::<Vec<_>>());
}

#[test]
fn any_bytes_of_one_version_are_read_and_no_others() {
    let tree = Tree::new();
    let bytes = contents(CHUNK_BYTES as usize + 3 * PIECE_BYTES);
    let (file, store) = (tree.write("file", &bytes), tree.store());
    let right = generation(&file);
    let read = |generation: &Generation, from: usize, len: usize| {
        let mut buffer = vec![0; len];
        store.read_at(&view(&file), generation, &mut buffer, from as u64).map(|()| buffer)
    };
    let mut wanted = 0;
    for (from, len) in
        [(0, 0), (CHUNK_BYTES as usize - 1, 1), (PIECE_BYTES - 5, 2 * PIECE_BYTES), (77, bytes.len() - 77)]
    {
        assert_eq!(read(&right, from, len).as_deref(), Ok(&bytes[from..from + len]));
        wanted += len as u64;
    }
    assert_eq!(store.counters().bytes, wanted);
    assert_eq!(read(&right, bytes.len() - 1, 2), Err(Errno::ESTALE), "the file ends there");
    assert_eq!(read(&Generation { size_bytes: 1, ..right }, 0, 1), Err(Errno::ESTALE));
    fs::write(&file, &bytes[1..]).unwrap();
    assert_eq!(read(&right, 0, 1), Err(Errno::ESTALE));
}

/// The error of reading chunk `index`, and the bytes that have left.
fn refused(store: &Store, file: &Path, generation: &Generation, index: u64) -> (Errno, usize) {
    let begun = Mutex::new(None);
    let started = |body| *begun.lock().unwrap() = Some(body);
    let errno = store.read_chunk(&view(file), generation, ChunkIndex(index), started).unwrap_err();
    let body: Option<Arc<Body>> = begun.into_inner().unwrap();
    (errno, body.map_or(0, |body| body.filled_bytes()))
}

#[test]
fn no_byte_of_another_version_than_asked_for_leaves() {
    let tree = Tree::new();
    let file = tree.write("file", "12345");
    let store = tree.store();
    let right = generation(&file);
    let later = |time: forebay_types::Timestamp| forebay_types::Timestamp { seconds: time.seconds + 1, ..time };
    let wrong = [
        Generation { ino: right.ino + 1, ..right },
        Generation { size_bytes: 4, ..right },
        Generation { mtime: later(right.mtime), ..right },
        Generation { ctime: later(right.ctime), ..right },
    ];
    for wrong in wrong {
        assert_eq!(refused(&store, &file, &wrong, 0), (Errno::ESTALE, 0));
    }
    assert_eq!(read(&store, &file, 0), Ok(b"12345".to_vec()));
}

/// Reads a chunk of `file` and calls `change` once the first `after_bytes` have left.
fn read_while(file: &Path, store: &Store, after_bytes: usize, change: fn(&Path)) -> (Errno, usize) {
    let (path, kept) = (file.to_path_buf(), Mutex::new(None));
    let started = |body: Arc<Body>| {
        body.when_filled(after_bytes, move |_| change(&path));
        *kept.lock().unwrap() = Some(body);
    };
    let errno = store.read_chunk(&view(file), &generation(file), ChunkIndex(0), started).unwrap_err();
    let body = kept.into_inner().unwrap().unwrap();
    assert_eq!(body.failure(), Some(errno));
    (errno, body.filled_bytes())
}

#[test]
fn a_file_that_changes_while_it_is_read_stops_at_the_last_good_piece() {
    let tree = Tree::new();
    let store = tree.store_that_reads(PIECE_BYTES);
    let grow = |path: &Path| File::options().write(true).open(path).unwrap().set_len(9 << 20).unwrap();
    let shrink = |path: &Path| File::options().write(true).open(path).unwrap().set_len(PIECE_BYTES as u64).unwrap();
    let overwrite = |path: &Path| {
        let handle = File::options().write(true).open(path).unwrap();
        handle.write_all_at(b"other", 0).unwrap();
        handle.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1)).unwrap();
    };
    let replace = |path: &Path| {
        fs::write(path.with_extension("new"), "new").unwrap();
        fs::rename(path.with_extension("new"), path).unwrap();
    };
    for (index, change) in [grow, shrink, overwrite, replace].into_iter().enumerate() {
        for after in [0, PIECE_BYTES, 3 * PIECE_BYTES] {
            for len in [CHUNK_BYTES as usize, 2 * CHUNK_BYTES as usize] {
                let file = tree.write(&format!("f{index}-{after}-{len}"), contents(len));
                assert_eq!(read_while(&file, &store, after, change), (Errno::ESTALE, after), "change {index}");
            }
        }
    }
}

#[test]
fn a_file_put_in_the_place_of_an_open_one_is_read_in_its_own_version() {
    let tree = Tree::new();
    let file = tree.write("file", contents(2 << 20));
    let (store, old) = (tree.store(), generation(&file));
    read(&store, &file, 0).unwrap();
    tree.write("new", vec![9; 3 << 20]);
    fs::rename(tree.path("new"), &file).unwrap();
    assert_eq!(read(&store, &file, 2), Ok(vec![9; 1 << 20]));
    assert_eq!(refused(&store, &file, &old, 1), (Errno::ESTALE, 0));
}

#[test]
fn a_file_below_a_directory_that_was_replaced_is_found() {
    let tree = Tree::new();
    tree.make_dir("dir");
    let file = tree.write("dir/file", "old");
    let store = tree.store();
    assert_eq!(read(&store, &file, 0), Ok(b"old".to_vec()));
    fs::rename(tree.path("dir"), tree.path("away")).unwrap();
    tree.make_dir("dir");
    tree.write("dir/file", "newer");
    assert_eq!(read(&store, &file, 0), Ok(b"newer".to_vec()));
}

#[test]
fn only_files_are_opened() {
    let tree = Tree::new();
    let store = tree.store();
    let file = tree.write("file", "x");
    rustix::fs::mknodat(CWD, tree.path("fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    UnixListener::bind(tree.path("socket")).unwrap();
    symlink(&file, tree.path("link")).unwrap();
    tree.make_dir("dir");
    let refusal = |below: &str| {
        let path = tree.path(below);
        store.read_chunk(&view(&path), &generation(&path), ChunkIndex(0), |_| panic!("begun")).err()
    };
    assert_eq!(refusal("fifo"), Some(Errno::EINVAL));
    assert_eq!(refusal("socket"), Some(Errno::EINVAL));
    assert_eq!(refusal("link"), Some(Errno::ESTALE));
    assert_eq!(refusal("dir"), Some(Errno::EISDIR));
    assert_eq!(refusal(""), Some(Errno::EISDIR));
    if !is_root() {
        return skip("making a device file needs root");
    }
    let null = rustix::fs::makedev(1, 3);
    rustix::fs::mknodat(CWD, tree.path("null"), FileType::CharacterDevice, Mode::RUSR, null).unwrap();
    assert_eq!(refusal("null"), Some(Errno::EINVAL));
    assert_eq!(store.listing(&view(&tree.path(""))).unwrap().len(), 6);
    let record = store.lookup(&view(&tree.path("")), &fixture::name("null")).unwrap().unwrap();
    assert_eq!(record.attributes.rdev, 0x103);
}

#[test]
fn chunks_of_many_threads_are_all_right() {
    let tree = Tree::new();
    let bytes = contents(12 << 20);
    let (file, store) = (tree.write("file", &bytes), tree.store());
    let before = store.counters().opens;
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let (store, file, bytes) = (&store, &file, &bytes);
            scope.spawn(move || {
                for index in 0..12 {
                    let index = (index + 2 * thread) % 12;
                    let start = ChunkIndex(index).start_bytes() as usize;
                    let len = chunk_bytes(bytes.len() as u64, ChunkIndex(index));
                    assert!(read(store, file, index).unwrap() == bytes[start..start + len]);
                }
            });
        }
    });
    assert_eq!(store.counters().opens - before, 1);
}
