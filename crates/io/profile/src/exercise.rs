//! For fuzzing and for its corpus: what is made of the bytes of a file that somebody has spoiled on purpose, with the
//! checksums right.

use forebay_types::{ChunkIndex, Generation, ViewPath};

use crate::{BlockOpener, FormatError, PackIndex, Piece, Profile, Start, index, profile};

/// Reads `body` as that of a profile, without its frame, and checks what must hold then; whether it is one.
///
/// # Panics
/// When something does not hold.
#[must_use]
pub fn read_profile(body: &[u8]) -> bool {
    let Ok(profile) = profile::FORMAT.seal(body).and_then(|bytes| Profile::decode(&bytes)) else { return false };
    assert_eq!(Profile::decode(&again(profile.encode())).as_ref(), Ok(&profile));
    assert!(profile.wanted().iter().all(|wanted| wanted.generation.size_bytes > wanted.index.start_bytes()));
    let (used, unused) = profile.uses.split_at(profile.uses.len() / 2);
    let mut merged = profile.clone();
    merged.merge(&Start { used: unused.to_vec(), unused: used.to_vec() });
    assert_eq!(Profile::decode(&again(merged.encode())), Ok(merged));
    true
}

/// The same for the index of a pack.
///
/// # Panics
/// When something does not hold.
#[must_use]
pub fn read_index(body: &[u8]) -> bool {
    let Ok(index) = index::FORMAT.seal(body).and_then(|bytes| PackIndex::decode(&bytes)) else { return false };
    let count = index.blocks().len();
    assert_eq!(index.block_range(0..count).end, index.blocks_end());
    assert!(index.blocks().iter().all(|block| block.contents_bytes() > 0));
    let encoded = again(index.encode());
    assert_eq!(PackIndex::decode(&encoded[..encoded.len() - index::TAIL_BYTES]).as_ref(), Ok(&index));
    true
}

/// Opens `frame` as a block of one piece of as many bytes as its first two say; whether it holds so many. The piece's
/// checksum is never right, unless by accident.
#[must_use]
pub fn read_block(frame: &[u8]) -> bool {
    let Some((len, frame)) = frame.split_first_chunk::<2>() else { return false };
    let generation = Generation { size_bytes: u16::from_le_bytes(*len).into(), ..Generation::default() };
    let piece = Piece { path: ViewPath::root(), generation, index: ChunkIndex(0), checksum: 0 };
    matches!(BlockOpener::new().open(frame, &[piece]), Ok(_) | Err(FormatError::Checksum))
}

fn again(encoded: Result<Vec<u8>, FormatError>) -> Vec<u8> {
    match encoded {
        Ok(bytes) => bytes,
        Err(problem) => panic!("what was read cannot be written: {problem}"),
    }
}
