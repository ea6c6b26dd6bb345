//! Stores in real directories, and on a disk that loses power.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod damage;
mod directories;
mod full;
mod shared;

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use forebay_body::{Body, Pool};
use forebay_chunk_store::{ChunkKey, ChunkName, ChunkStore, ChunkStoreError, FileDisk};
use forebay_types::{CHUNK_BYTES, ChunkIndex, Generation, ViewPath};

/// A whole chunk, bytes.
const WHOLE: usize = CHUNK_BYTES as usize;

/// The key of a chunk of a version of a file.
fn key(version: u64, index: u64) -> ChunkKey {
    let (file, generation) = (ViewPath::new(b"d/file").unwrap(), Generation { ino: version, ..Generation::default() });
    let index = ChunkIndex(index);
    ChunkKey::new(&ChunkName { file_system: "ext4 /dev/x", file: &file, generation: &generation, index })
}

/// Contents that no other chunk has.
fn contents(version: u64, index: u64, len: usize) -> Vec<u8> {
    let mut state = (version << 32 | index).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let words = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    words.flatten().take(len).collect()
}

fn body(version: u64, index: u64, len: usize) -> Arc<Body> {
    Body::whole(Bytes::from(contents(version, index, len)))
}

fn open_with(path: &Path, capacity_bytes: u64) -> Result<ChunkStore, ChunkStoreError> {
    let disk = FileDisk::open(path, None)?;
    ChunkStore::open(Box::new(disk), capacity_bytes, Pool::new(8), path)
}

fn open(path: &Path) -> ChunkStore {
    open_with(path, 64 * CHUNK_BYTES).unwrap()
}

/// Whether the store has a chunk; what it gives is right.
fn has(store: &ChunkStore, version: u64, index: u64, len: usize) -> bool {
    let found = store.get(&key(version, index), len);
    if let Some(body) = &found {
        assert!(body.contiguous().unwrap() == contents(version, index, len), "version {version}, chunk {index}");
    }
    found.is_some()
}

/// Looks a chunk up, for the check that what is found is right.
fn look(store: &ChunkStore, version: u64, index: u64, len: usize) {
    let _ = has(store, version, index, len);
}
