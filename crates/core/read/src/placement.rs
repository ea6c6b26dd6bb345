//! Which tree serves what.
//!
//! All that belongs to a directory goes one way: its listing, pages and names, and the small files in it, so that one node
//! learns what programs do there, and prefetches. Large files are spread over all nodes, or striped over the trees of all roots.
//! Libraries are striped in any case: programs open hundreds of them at once, and a root knows the directories on the way there already.
//!
//! A request leads only to requests of the same tree at other nodes, or nodes might wait for each other in a circle. A parcel leads to
//! listings and chunks of all trees, and none of these to a parcel.

use std::hash::BuildHasher;

use forebay_cache::Key;
use forebay_overlay::{Class, Forest, Tree};
use forebay_types::{CHUNK_BYTES, Hasher, ViewPath, limits};

/// Chunks of a file that has one home, at most: most samples and files of a program's start are looked up and opened by one node then.
const CHUNKS_OF_SAMPLE: u64 = 4;

/// The tree that serves `key`: the same at every node.
#[must_use]
pub fn tree_of(forest: &Forest, key: &Key) -> Tree {
    let (class, number) = placement(forest, key);
    forest.tree_of(class, number)
}

/// The class of trees that serves `key`, and its number there.
pub(crate) fn placement(forest: &Forest, key: &Key) -> (Class, u64) {
    match key {
        Key::Chunk { file, generation, index } if generation.size_bytes > limits::SMALL_FILE_BYTES_MAX => {
            let row = hash(file.as_bytes()).wrapping_add(index.0 / forest.row_chunks());
            match forest.has_homes() && !is_library(file) {
                true if homes_of(forest, generation.size_bytes) == 1 => (Class::Bulk, hash(file.as_bytes())),
                true => (Class::Bulk, row),
                false => (Class::Stripes, row),
            }
        }
        Key::Chunk { file, .. } | Key::Recheck { file, .. } => (Class::Directories, hash(file.directory_bytes())),
        Key::Listing { dir } | Key::Page { dir, .. } | Key::Name { dir, .. } => {
            (Class::Directories, hash(dir.as_bytes()))
        }
        Key::Parcel { index } => (Class::Stripes, u64::from(*index)),
        Key::FileSystem { path } => (Class::Directories, hash(path.as_bytes())),
    }
}

/// Homes that the chunks of a large file have, at most.
pub(crate) fn homes_of(forest: &Forest, size_bytes: u64) -> u64 {
    let chunks = size_bytes.div_ceil(CHUNK_BYTES);
    if chunks <= CHUNKS_OF_SAMPLE { 1 } else { chunks.div_ceil(forest.row_chunks()) }
}

/// Whether a file's name is a library's: `libc.so.6`, `_path.cpython-311-x86_64-linux-gnu.so`.
fn is_library(file: &ViewPath) -> bool {
    let name = file.split().map_or(&b""[..], |(_, name)| name);
    let is_version = |rest: &[u8]| rest.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.');
    let mut ends = name.windows(3).enumerate().filter(|(_, part)| *part == b".so").map(|(at, _)| at + 3);
    ends.any(|end| name[end..].is_empty() || name[end] == b'.' && is_version(&name[end..]))
}

fn hash(path: &[u8]) -> u64 {
    Hasher::default().hash_one(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_overlay::Shape;
    use forebay_types::{ChunkIndex, Generation, Name, ViewPath};
    use forebay_wire::ListingVersion;
    use std::collections::BTreeSet;

    /// A forest with 8 roots, or homes.
    fn forest(has_homes: bool) -> Forest {
        Forest::new(Shape { node_count: 16, roots: 8, fan_out: 8, stripe_fan_out: 4, has_homes, row_chunks: 1 })
            .unwrap()
    }

    fn chunk(path: &str, size_bytes: u64, index: u64) -> Key {
        let file = ViewPath::new(path.as_bytes()).unwrap();
        let generation = Generation { size_bytes, ..Generation::default() };
        Key::Chunk { file, generation, index: ChunkIndex(index) }
    }

    #[test]
    fn requests_of_one_directory_go_one_way() {
        for dir in ["", "a", "a/b"] {
            let dir = ViewPath::new(dir.as_bytes()).unwrap();
            let file = dir.join(b"file").unwrap();
            let generation = Generation { size_bytes: 100, ..Generation::default() };
            let keys = [
                Key::Page { dir: dir.clone(), listing: ListingVersion::default(), page: 3 },
                Key::Name { dir: dir.clone(), name: Name::new(b"file").unwrap() },
                Key::Recheck { file: file.clone(), generation },
                Key::Chunk { file, generation, index: ChunkIndex(0) },
            ];
            let forest = forest(true);
            let of_listing = tree_of(&forest, &Key::Listing { dir });
            assert!(keys.iter().all(|key| tree_of(&forest, key) == of_listing));
        }
    }

    #[test]
    fn a_large_file_is_striped_or_has_homes() {
        let roots = |has_homes: bool, size_bytes: u64, count: u64| -> Vec<u32> {
            let forest = forest(has_homes);
            (0..count).map(|index| tree_of(&forest, &chunk("a/file", size_bytes, index)).root().0).collect()
        };
        let distinct = |roots: &[u32]| roots.iter().collect::<BTreeSet<_>>().len();
        assert_eq!(distinct(&roots(false, 100 << 20, 8)), 8, "each of eight chunks in another tree");
        let homes = roots(true, 100 << 20, 64);
        assert_eq!(distinct(&homes), 16);
        assert!(homes.chunks(16).all(|row| distinct(row) == 16), "{homes:?}");
        assert_eq!(distinct(&roots(true, 4 << 20, 4)), 1, "a sample has one home");
        let small = placement(&forest(true), &chunk("a/small", limits::SMALL_FILE_BYTES_MAX, 0));
        assert_eq!(small.0, Class::Directories);
    }

    #[test]
    fn libraries_have_the_roots_of_programs() {
        let class = |path: &str| placement(&forest(true), &chunk(path, 100 << 20, 5)).0;
        for library in ["lib/libopenblas.so", "a/libc.so.6", "_x.cpython-311.so", "libz.so.1.2.13"] {
            assert_eq!(class(library), Class::Stripes, "{library}");
        }
        for other in ["model.safetensors", "a.so/data", "x.sort", "x.so.old", "so", "data.so2"] {
            assert_eq!(class(other), Class::Bulk, "{other}");
        }
    }

    #[test]
    fn directories_are_spread() {
        let mut counts = [0; 8];
        for number in 0..800 {
            let dir = ViewPath::new(format!("usr/lib/python3/dist-packages/p{number}").as_bytes()).unwrap();
            counts[(placement(&forest(true), &Key::Listing { dir }).1 % 8) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (60..140).contains(count)), "{counts:?}");
    }
}
