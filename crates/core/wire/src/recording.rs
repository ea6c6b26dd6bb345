//! The files that programs use while they start: recorded at every node, and carried from there to the node that writes the
//! profile.

use forebay_types::{ChunkIndex, Generation, ViewPath, chunk_bytes, limits};
use serde::{Deserialize, Serialize};

use crate::WireError;
use crate::message::{Checked, decode, encode};

/// One thing that a start-up uses.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Use {
    /// A directory, listed or looked into.
    Directory(ViewPath),
    /// A name that was looked for and does not exist.
    Absent(ViewPath),
    /// Some of a chunk of a file.
    Chunk {
        /// The file.
        file: ViewPath,
        /// The version.
        generation: Generation,
        /// Which chunk.
        index: ChunkIndex,
    },
}

/// Encodes the body of an answer to `JobMessage::Recording`.
#[must_use]
pub fn encode_uses(uses: &[Use]) -> Vec<u8> {
    encode(&uses)
}

/// Decodes the body of an answer to `JobMessage::Recording`: what was used, in the order of first use.
///
/// # Errors
/// `WireError::Message` when the bytes are not exactly that, or break a limit.
pub fn decode_uses(bytes: &[u8]) -> Result<Vec<Use>, WireError> {
    decode(bytes)
}

impl Checked for Vec<Use> {
    fn is_within_limits(&self) -> bool {
        let is_there = |each: &Use| match each {
            Use::Chunk { generation, index, .. } => chunk_bytes(generation.size_bytes, *index) > 0,
            Use::Directory(_) | Use::Absent(_) => true,
        };
        self.len() <= limits::PROFILE_USES_MAX && self.iter().all(is_there)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn chunk(size_bytes: u64, index: u64) -> Use {
        let generation = Generation { size_bytes, ..Generation::default() };
        Use::Chunk { file: ViewPath::new(b"a/b").unwrap(), generation, index: ChunkIndex(index) }
    }

    #[test]
    fn used_entries_come_back_and_impossible_ones_are_refused() {
        let uses = vec![Use::Directory(ViewPath::root()), Use::Absent(ViewPath::new(b"c").unwrap()), chunk(1, 0)];
        assert_eq!(decode_uses(&encode_uses(&uses)), Ok(uses));
        assert!(decode_uses(&encode_uses(&[chunk(1, 1)])).is_err(), "a chunk past the end of its file");
        assert!(decode_uses(&encode_uses(&vec![chunk(1, 0); limits::PROFILE_USES_MAX + 1])).is_err());
    }

    proptest! {
        #[test]
        fn decoding_any_bytes_ends(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = decode_uses(&bytes);
        }
    }
}
