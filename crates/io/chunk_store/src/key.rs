//! The name of a chunk in a store: hashes, so that a slot's header has one size and a path of 4 KiB costs no room.

use forebay_types::{ChunkIndex, Generation, ViewPath};
use ring::digest::{Context, SHA256};

/// Bytes of the hash that chooses the sets of a chunk.
pub(crate) const PLACE_BYTES: usize = 16;

/// Bytes of the hash that a slot must have to be the chunk.
pub(crate) const IDENTITY_BYTES: usize = 32;

/// The name of a chunk, as its caller knows it.
#[derive(Clone, Copy, Debug)]
pub struct ChunkName<'a> {
    /// The name of the file system that the file lies on. Generations tell versions of one file system apart: their inode numbers are
    /// those of the view.
    pub file_system: &'a str,
    /// The file.
    pub file: &'a ViewPath,
    /// Its version.
    pub generation: &'a Generation,
    /// Which of its chunks.
    pub index: ChunkIndex,
}

/// The hashes of a chunk's name (SHA-256: another user may choose names, and must not be able to choose equal hashes).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ChunkKey {
    /// Of all but the version: a new version of a chunk replaces the old one, because both have the same place.
    pub(crate) place: [u8; PLACE_BYTES],
    /// Of all.
    pub(crate) identity: [u8; IDENTITY_BYTES],
}

impl ChunkKey {
    /// The key of a chunk.
    #[must_use]
    pub fn new(name: &ChunkName<'_>) -> Self {
        let ChunkName { file_system, file, generation, index } = *name;
        let mut of_place = Context::new(&SHA256);
        for part in [file_system.as_bytes(), file.as_bytes()] {
            of_place.update(&(part.len() as u64).to_le_bytes());
            of_place.update(part);
        }
        of_place.update(&index.0.to_le_bytes());
        let of_place = of_place.finish();
        let mut of_all = Context::new(&SHA256);
        of_all.update(of_place.as_ref());
        let Generation { ino, size_bytes, mtime, ctime } = *generation;
        let numbers = [ino, size_bytes, mtime.seconds.cast_unsigned(), mtime.nanos.into()];
        for number in numbers.into_iter().chain([ctime.seconds.cast_unsigned(), ctime.nanos.into()]) {
            of_all.update(&number.to_le_bytes());
        }
        let (mut place, mut identity) = ([0; PLACE_BYTES], [0; IDENTITY_BYTES]);
        place.copy_from_slice(&of_place.as_ref()[..PLACE_BYTES]);
        identity.copy_from_slice(of_all.finish().as_ref());
        Self { place, identity }
    }

    /// The bits of its place that its index entry has.
    pub(crate) fn tag(&self) -> u16 {
        tag(&self.place)
    }

    /// The two sets that it may lie in; one and the same where there is one.
    pub(crate) fn sets(&self, set_count: u64) -> [u64; 2] {
        let word = |from: usize| self.place[from..from + 4].iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
        let scaled = |word: u64, count: u64| ((u128::from(word) * u128::from(count)) >> 32) as u64;
        let first = scaled(word(2), set_count);
        let step = 1 + scaled(word(6), set_count.saturating_sub(1));
        [first, (first + step) % set_count]
    }

    /// Where in a set it looks first for an empty slot: two processes seldom take the same one.
    pub(crate) fn first_slot(&self) -> usize {
        self.place[10].into()
    }
}

/// The bits of a place that an index entry has.
pub(crate) fn tag(place: &[u8; PLACE_BYTES]) -> u16 {
    u16::from_le_bytes([place[0], place[1]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_types::Timestamp;

    #[test]
    fn versions_share_a_place_and_everything_else_has_its_own() {
        let (file, other) = (ViewPath::new(b"a/b").unwrap(), ViewPath::new(b"a/c").unwrap());
        let generation = Generation { ino: 1, size_bytes: 2 << 20, ..Generation::default() };
        let name = ChunkName { file_system: "nfs4 a:/b", file: &file, generation: &generation, index: ChunkIndex(1) };
        let key = ChunkKey::new(&name);
        let touched = Generation { ctime: Timestamp { seconds: 0, nanos: 1 }, ..generation };
        let newer = ChunkKey::new(&ChunkName { generation: &touched, ..name });
        assert_eq!(newer.place, key.place);
        assert_ne!(newer.identity, key.identity);
        let others = [
            ChunkName { file_system: "nfs4 a:/", ..name },
            ChunkName { file: &other, ..name },
            ChunkName { index: ChunkIndex(0), ..name },
        ];
        for other in others.map(|name| ChunkKey::new(&name)) {
            assert_ne!(other.place, key.place);
            assert_ne!(other.identity, key.identity);
        }
    }

    #[test]
    fn a_chunk_has_two_sets_wherever_there_are_two() {
        let file = ViewPath::new(b"f").unwrap();
        let generation = Generation::default();
        for index in 0..1000 {
            let name = ChunkName { file_system: "", file: &file, generation: &generation, index: ChunkIndex(index) };
            let key = ChunkKey::new(&name);
            assert_eq!(key.sets(1), [0, 0]);
            for count in [2, 3, 1 << 20] {
                let [first, second] = key.sets(count);
                assert!(first != second && first < count && second < count);
            }
        }
    }
}
