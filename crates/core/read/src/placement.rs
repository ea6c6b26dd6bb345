//! Which tree serves what.
//!
//! All that belongs to a directory goes one way: its listing, pages and names, and the small files in it, so that one node
//! learns what programs do there, and prefetches. Large files are striped chunk by chunk.
//!
//! A request leads only to requests of the same tree at other nodes, or nodes might wait for each other in a circle. A parcel leads to
//! listings and chunks of all trees, and none of these to a parcel.

use std::hash::BuildHasher;

use forebay_cache::Key;
use forebay_overlay::Class;
use forebay_types::{Hasher, limits};

/// The class of trees that serves `key`, and its number there: the same at every node.
#[must_use]
pub fn placement(key: &Key) -> (Class, u64) {
    match key {
        Key::Chunk { file, generation, index } if generation.size_bytes > limits::SMALL_FILE_BYTES_MAX => {
            (Class::Stripes, hash(file.as_bytes()).wrapping_add(index.0))
        }
        Key::Chunk { file, .. } | Key::Recheck { file, .. } => (Class::Directories, hash(file.directory_bytes())),
        Key::Listing { dir } | Key::Page { dir, .. } | Key::Name { dir, .. } => {
            (Class::Directories, hash(dir.as_bytes()))
        }
        Key::Parcel { index } => (Class::Stripes, u64::from(*index)),
        Key::FileSystem { path } => (Class::Directories, hash(path.as_bytes())),
    }
}

fn hash(path: &[u8]) -> u64 {
    Hasher::default().hash_one(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_types::{ChunkIndex, Generation, Name, ViewPath};
    use forebay_wire::ListingVersion;
    use std::collections::BTreeSet;

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
            let of_listing = placement(&Key::Listing { dir });
            assert!(keys.iter().all(|key| placement(key) == of_listing));
        }
    }

    #[test]
    fn a_large_file_is_striped() {
        let row = |index| placement(&chunk("a/large", 100 << 20, index));
        let numbers: BTreeSet<u64> = (0..8).map(|index| row(index).1 % 8).collect();
        assert_eq!(numbers.len(), 8, "each of eight chunks in another tree");
        assert_eq!(row(3).0, Class::Stripes);
        assert_eq!(placement(&chunk("a/small", limits::SMALL_FILE_BYTES_MAX, 0)).0, Class::Directories);
    }

    #[test]
    fn directories_are_spread() {
        let mut counts = [0; 8];
        for number in 0..800 {
            let dir = ViewPath::new(format!("usr/lib/python3/dist-packages/p{number}").as_bytes()).unwrap();
            counts[(placement(&Key::Listing { dir }).1 % 8) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (60..140).contains(count)), "{counts:?}");
    }
}
