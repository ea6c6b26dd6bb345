//! Stores for tests: in memory, with small segments; and contents that tell where they belong.

use std::path::{Path, PathBuf};

use forebay_log::{Log, Owner, Recovered, Recovery, Settings};
use forebay_types::{FileId, NodeRank};
use tempfile::TempDir;

/// Bytes of a segment: many in a small test.
pub const SEGMENT_BYTES: u32 = 32 << 10;

pub const FILE: FileId = FileId { creator: NodeRank(3), serial: 14 };

/// A directory in memory, where there is one: tests sync often.
pub fn directory() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { TempDir::new_in(memory).unwrap() } else { TempDir::new().unwrap() }
}

pub fn store(directory: &TempDir) -> PathBuf {
    directory.path().join("store")
}

/// The job in a run of the machine.
pub fn owner(boot: u8) -> Owner {
    Owner { job: "4711".into(), node: NodeRank(3), nodes: 4, landing: "/lustre/run".into(), boot: [boot; 16] }
}

pub fn settings(segments: u64) -> Settings {
    let capacity_bytes = segments * u64::from(SEGMENT_BYTES);
    Settings { segment_bytes: SEGMENT_BYTES, ..Settings::new(capacity_bytes) }
}

/// Opens a store and takes all its records; none is kept live.
pub fn open(path: &Path, segments: u64) -> Log {
    Recovery::open(path, &owner(1), &settings(segments)).unwrap().finish([]).unwrap()
}

/// All that a recovery yields.
pub fn all(recovery: &mut Recovery) -> Vec<Recovered> {
    let mut records = Vec::new();
    while let Some(record) = recovery.next().unwrap() {
        records.push(record);
    }
    records
}

/// Contents that no other record has; no byte is zero.
pub fn contents(tag: u64, length: usize) -> Vec<u8> {
    let mut state = tag.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let byte = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8 | 1
    };
    (0..length).map(byte).collect()
}

/// The file of a segment.
pub fn segment(store: &Path, number: u64) -> PathBuf {
    store.join(format!("segment-{number:012}"))
}
