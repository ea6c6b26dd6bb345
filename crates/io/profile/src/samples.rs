//! Samples for the tests of this crate.

use forebay_types::{CHUNK_BYTES, ChunkIndex, Generation, Timestamp, ViewPath};
use proptest::prelude::*;

use crate::{Profile, Use};

/// A path that is one.
pub(crate) fn path(text: &str) -> ViewPath {
    ViewPath::new(text.as_bytes()).unwrap()
}

/// A version of a file of `size_bytes`.
pub(crate) fn generation(seed: u64, size_bytes: u64) -> Generation {
    let mtime = Timestamp { seconds: seed as i64, nanos: 5 };
    Generation { ino: seed, size_bytes, mtime, ctime: mtime }
}

fn any_path() -> impl Strategy<Value = ViewPath> {
    proptest::collection::vec("[a-z]{1,8}", 1..5).prop_map(|parts| path(&parts.join("/")))
}

fn any_use() -> impl Strategy<Value = Use> {
    let chunks = proptest::collection::btree_set(0u64..9, 1..5);
    (any_path(), any::<u64>(), proptest::option::of(chunks)).prop_map(|(path, seed, chunks)| match chunks {
        None if seed % 3 == 0 => Use::Absent { path },
        None => Use::Directory { path, generation: generation(seed, 4096) },
        Some(chunks) => {
            let generation = generation(seed, 8 * CHUNK_BYTES + 1 + seed % CHUNK_BYTES);
            Use::File { path, generation, chunks: chunks.into_iter().rev().map(ChunkIndex).collect() }
        }
    })
}

/// Any profile whose paths differ.
pub(crate) fn profile() -> impl Strategy<Value = Profile> {
    let uses = proptest::collection::vec(any_use(), 0..40);
    let exports = proptest::collection::vec(any_path(), 0..4);
    ("[a-zäöü ./-]{0,40}", exports, any::<u64>(), any::<u32>(), uses).prop_map(
        |(command, exports, made_unix_s, starts, mut uses)| {
            let mut seen = std::collections::BTreeSet::new();
            uses.retain(|each| seen.insert(each.path().clone()));
            Profile { command, exports, made_unix_s, starts, uses }
        },
    )
}
