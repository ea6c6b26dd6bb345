//! Contents of files: bytes that tell which version of which file they are of, and where in it they stand, under whatever name. They are cut
//! out of one random block, so that nothing is copied to make them.

use std::hash::BuildHasher;
use std::sync::LazyLock;

use bytes::Bytes;
use forebay_random::Random;
use forebay_types::{CHUNK_BYTES, ChunkIndex, Extent, Generation, Hasher, ViewPath, chunk_bytes};

/// Places at which a chunk may begin in the block. Two chunks seldom have the same, and none has the contents of another
/// one a little further on.
const PLACES: u64 = 3 << 20;

static BLOCK: LazyLock<Bytes> = LazyLock::new(|| {
    let mut random = Random::new(0);
    let words = (PLACES + CHUNK_BYTES) / 8;
    Bytes::from((0..words).flat_map(|_| random.next().to_ne_bytes()).collect::<Vec<u8>>())
});

/// How a chunk is called in what is written down.
pub(crate) fn chunk_name(file: &ViewPath, generation: &Generation, index: ChunkIndex) -> String {
    format!("Chunk {} of {file}, version {}", index.0, generation.mtime.seconds)
}

/// A whole chunk.
pub(crate) fn chunk(generation: &Generation, index: ChunkIndex) -> Bytes {
    let version = (generation.ino, generation.mtime.seconds, generation.size_bytes);
    let place = (Hasher::default().hash_one((version, index.0)) % PLACES) as usize;
    BLOCK.slice(place..place + chunk_bytes(generation.size_bytes, index))
}

/// Whether these are the bytes of an extent, as far as the file goes.
pub(crate) fn are_right(bytes: &[u8], generation: &Generation, extent: Extent) -> bool {
    let mut rest = bytes;
    for (index, within) in extent.clamped(generation.size_bytes).chunks() {
        let chunk = chunk(generation, index);
        let wanted = &chunk[within.offset_bytes as usize..within.end_bytes() as usize];
        match rest.strip_prefix(wanted) {
            Some(behind) => rest = behind,
            None => return false,
        }
    }
    rest.is_empty()
}
