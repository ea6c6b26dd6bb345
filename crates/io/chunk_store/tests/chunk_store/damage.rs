//! A store whose bytes were changed has the chunk or misses it.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use forebay_body::Pool;
use forebay_chunk_store::{Area, ChunkStore, MemoryDisk};
use forebay_random::Random;
use forebay_types::CHUNK_BYTES;

use crate::{WHOLE, body, has, key, look, open};

const SLOT_BYTES: u64 = CHUNK_BYTES + 4096;

fn chunks(path: &Path) -> File {
    File::options().read(true).write(true).open(path.join("forebay-cache-chunks")).unwrap()
}

fn on(disk: &MemoryDisk) -> ChunkStore {
    ChunkStore::open(Box::new(disk.clone()), 64 * CHUNK_BYTES, Pool::new(8), Path::new("memory")).unwrap()
}

/// Where the one slot lies that has contents.
fn only_slot(disk: &MemoryDisk) -> u64 {
    disk.blocks(Area::Chunks)[0] / SLOT_BYTES * SLOT_BYTES
}

#[test]
fn a_slot_that_is_torn_anywhere_is_a_miss_and_is_emptied() {
    // The magic, the place, the identity, the length, a checksum, that of the header; first, middle and last bytes of pieces.
    let header = [0, 9, 12, 40, 60, 70, 92];
    let pieces = (0..8).flat_map(|piece| [0, 1, 77_777, (128 << 10) - 1].map(|at| 4096 + (piece << 17) + at));
    for at in header.into_iter().chain(pieces) {
        let disk = MemoryDisk::new(1 << 30);
        let store = on(&disk);
        store.put(&key(1, 3), &body(1, 3, WHOLE));
        assert!(has(&store, 1, 3, WHOLE));
        disk.flip(Area::Chunks, only_slot(&disk) + at);
        assert!(!has(&store, 1, 3, WHOLE), "byte {at}");
        let counters = store.counters();
        assert_eq!((counters.damaged, counters.chunks, counters.used_bytes), (1, 0, 0), "byte {at}");
        store.put(&key(1, 3), &body(1, 3, WHOLE));
        assert!(has(&store, 1, 3, WHOLE), "it is put anew");
    }
}

#[test]
fn a_write_that_ends_anywhere_leaves_the_old_chunk_or_none() {
    // Of two versions of one length, cut at each class of offsets.
    for cut in [0, 1, 95, 4095, 4096, 4097, 128 << 10, (128 << 10) + 4096, WHOLE as u64, SLOT_BYTES - 1, SLOT_BYTES] {
        let place = tempfile::tempdir().unwrap();
        let store = open(place.path());
        store.put(&key(1, 3), &body(1, 3, WHOLE));
        let file = chunks(place.path());
        let slot = (0..).find(|slot| {
            let mut magic = [0; 8];
            file.read_exact_at(&mut magic, slot * SLOT_BYTES).unwrap();
            magic == *b"FBcacheS"
        });
        let at = slot.unwrap() * SLOT_BYTES;
        let mut old = vec![0; SLOT_BYTES as usize];
        file.read_exact_at(&mut old, at).unwrap();
        store.put(&key(2, 3), &body(2, 3, WHOLE));
        assert!(has(&store, 2, 3, WHOLE));
        let mut new = vec![0; SLOT_BYTES as usize];
        file.read_exact_at(&mut new, at).unwrap();
        for (first, second) in [(&old, &new), (&new, &old)] {
            file.write_all_at(&first[..cut as usize], at).unwrap();
            file.write_all_at(&second[cut as usize..], at + cut).unwrap();
            let found = [1, 2].map(|version| has(&store, version, 3, WHOLE));
            assert!(found != [true, true]);
            if cut > 95 && cut < SLOT_BYTES - 1 {
                assert_eq!(found, [false, false], "cut at {cut}");
            }
            // Its entry may be gone.
            store.put(&key(2, 3), &body(2, 3, WHOLE));
            assert!(has(&store, 2, 3, WHOLE));
        }
    }
}

#[test]
fn a_loss_of_power_leaves_no_wrong_byte() {
    for seed in 0..40 {
        let (disk, mut random) = (MemoryDisk::new(1 << 30), Random::new(seed));
        let mut kept = 0;
        for version in 1..4 {
            let store = on(&disk);
            kept += (0..12).filter(|index| (1..version).any(|old| has(&store, old, *index, 200_000))).count();
            (0..12).for_each(|index| store.put(&key(version, index), &body(version, index, 200_000)));
            assert!((0..12).all(|index| has(&store, version, index, 200_000)));
            let chance = [0, 2, 500, 998][random.below(4) as usize];
            disk.lose_power(&mut || random.below(1000) >= chance);
        }
        // `has` compares what is found.
        assert!(kept <= 24);
        let store = on(&disk);
        (0..12).for_each(|index| look(&store, 3, index, 200_000));
    }
}

#[test]
fn garbage_in_the_index_is_a_miss_or_the_chunk() {
    for seed in 0..20 {
        let place = tempfile::tempdir().unwrap();
        {
            let store = open(place.path());
            (0..20).for_each(|index| store.put(&key(1, index), &body(1, index, 300_000)));
        }
        let (path, mut random) = (place.path().join("forebay-cache-index"), Random::new(seed));
        let mut bytes = fs::read(&path).unwrap();
        // Without the head's magic and version: another version is refused.
        for _ in 0..[3, 300, 30_000][seed as usize % 3] {
            let at = 16 + random.below(bytes.len() as u64 - 16) as usize;
            bytes[at] = random.next() as u8;
        }
        fs::write(&path, bytes).unwrap();
        let store = open(place.path());
        (0..20).for_each(|index| look(&store, 1, index, 300_000));
        // It goes on to work, however full of nothing the index is.
        (0..20).for_each(|index| store.put(&key(2, index), &body(2, index, 300_000)));
        (0..20).for_each(|index| look(&store, 2, index, 300_000));
        assert!(store.counters().used_bytes <= 64 * CHUNK_BYTES);
    }
}

#[test]
fn files_that_are_cut_or_zero_are_an_empty_store() {
    for name in ["forebay-cache-index", "forebay-cache-chunks"] {
        for cut in [0, 1, 4096, 8192] {
            let place = tempfile::tempdir().unwrap();
            open(place.path()).put(&key(1, 1), &body(1, 1, WHOLE));
            File::options().write(true).open(place.path().join(name)).unwrap().set_len(cut).unwrap();
            let store = open(place.path());
            assert!(!has(&store, 1, 1, WHOLE), "{name} of {cut} bytes");
            store.put(&key(1, 1), &body(1, 1, WHOLE));
            assert!(has(&store, 1, 1, WHOLE), "{name} of {cut} bytes");
        }
    }
}

#[test]
fn a_slot_of_another_chunk_is_a_miss() {
    let disk = MemoryDisk::new(1 << 30);
    let store = on(&disk);
    store.put(&key(1, 3), &body(1, 3, WHOLE));
    let from = only_slot(&disk);
    store.put(&key(1, 4), &body(1, 4, WHOLE));
    let mut slots = disk.blocks(Area::Chunks).into_iter().map(|at| at / SLOT_BYTES * SLOT_BYTES);
    let to = slots.rfind(|slot| *slot != from).unwrap();
    disk.copy(from, to, SLOT_BYTES);
    assert!(has(&store, 1, 3, WHOLE) && !has(&store, 1, 4, WHOLE));
    assert_eq!(store.counters().damaged, 1, "its entry is emptied");
}
