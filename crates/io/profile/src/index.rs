//! A pack's index and the frame of its file: what lies where, known without opening a block.
//!
//! `head 16 bytes, blocks one after the other, index (sealed), tail 16 bytes`. The index is written last, so that a pack
//! is written in one pass, and is found by the tail: `file length u64, index length u32, crc32c u32` of the head and the
//! rest of the tail. Every byte of the file has a checksum: the head, the tail and the index here, a block in the index.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::block::contents_bytes;
use crate::limits;
use crate::sealed::Sealed;
use crate::{Block, FormatError, Piece};

pub(crate) const FORMAT: Sealed = Sealed { magic: *b"FBpi", version: 1, name: "pack's index" };

/// The head of a pack: its magic and version.
pub(crate) const HEAD: [u8; 16] = *b"FBpack\x02\0\0\0\0\0\0\0\0\0";

/// Bytes of a pack's end.
pub(crate) const TAIL_BYTES: usize = 16;

/// The index entry of a block.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct BlockEntry {
    /// Its length in the file, bytes.
    pub compressed_bytes: u32,
    /// The crc32c of these bytes.
    pub checksum: u32,
    /// Its pieces, in order.
    pub pieces: Vec<Piece>,
}

impl BlockEntry {
    /// The entry of `block`.
    #[must_use]
    pub fn of(block: &Block) -> Self {
        Self {
            compressed_bytes: block.compressed.len() as u32,
            checksum: crc32c::crc32c(&block.compressed),
            pieces: block.pieces.clone(),
        }
    }

    /// Bytes of its pieces.
    #[must_use]
    pub fn contents_bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.len_bytes() as u64).sum()
    }

    fn check(&self) -> Result<(), FormatError> {
        contents_bytes(&self.pieces)?;
        let within = (1..=limits::PACK_BLOCK_COMPRESSED_BYTES_MAX).contains(&(self.compressed_bytes as usize));
        if within { Ok(()) } else { Err(FormatError::Limit("the size of a block")) }
    }
}

/// The blocks of a pack, in the order in which their contents are wanted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PackIndex {
    blocks: Vec<BlockEntry>,
    /// Where each block begins, and where the last ends.
    offsets: Vec<u64>,
    pieces_count: usize,
}

impl PackIndex {
    /// The index of a pack without blocks.
    #[must_use]
    pub fn new() -> Self {
        Self { blocks: Vec::new(), offsets: vec![HEAD.len() as u64], pieces_count: 0 }
    }

    /// The blocks, in order.
    #[must_use]
    pub fn blocks(&self) -> &[BlockEntry] {
        &self.blocks
    }

    /// Where blocks `range` lie in the file, bytes: one after the other.
    ///
    /// # Panics
    /// When there are no such blocks.
    #[must_use]
    pub fn block_range(&self, range: Range<usize>) -> Range<u64> {
        self.offsets[range.start]..self.offsets[range.end]
    }

    /// Pieces of all blocks.
    #[must_use]
    pub fn pieces_count(&self) -> usize {
        self.pieces_count
    }

    /// Bytes of all pieces.
    #[must_use]
    pub fn contents_bytes(&self) -> u64 {
        self.blocks.iter().map(BlockEntry::contents_bytes).sum()
    }

    /// Where the last block ends, bytes.
    #[must_use]
    pub fn blocks_end(&self) -> u64 {
        self.offsets.last().copied().unwrap_or(HEAD.len() as u64)
    }

    /// Adds a block after the last one.
    ///
    /// # Errors
    /// `Limit` and `Content` for a block that cannot be part of a pack; nothing is added.
    pub fn push(&mut self, entry: BlockEntry) -> Result<(), FormatError> {
        entry.check()?;
        if self.pieces_count + entry.pieces.len() > limits::PROFILE_CHUNKS_MAX {
            return Err(FormatError::Limit("its pieces"));
        }
        self.pieces_count += entry.pieces.len();
        self.offsets.push(self.blocks_end() + u64::from(entry.compressed_bytes));
        self.blocks.push(entry);
        Ok(())
    }

    /// The bytes that follow the blocks: the index and the tail.
    ///
    /// # Errors
    /// `Limit` when the index is too large.
    pub fn encode(&self) -> Result<Vec<u8>, FormatError> {
        let unwritable = |_| FormatError::Content("it cannot be encoded");
        let mut body = postcard::to_stdvec(&(self.blocks.len() as u32)).map_err(unwritable)?;
        for entry in &self.blocks {
            body = postcard::to_extend(entry, body).map_err(unwritable)?;
        }
        let mut bytes = FORMAT.seal(&body)?;
        let index_bytes = bytes.len() as u32;
        let file_bytes = self.blocks_end() + u64::from(index_bytes) + TAIL_BYTES as u64;
        let mut tail = file_bytes.to_le_bytes().to_vec();
        tail.extend_from_slice(&index_bytes.to_le_bytes());
        tail.extend_from_slice(&crc32c::crc32c_append(crc32c::crc32c(&HEAD), &tail).to_le_bytes());
        bytes.extend_from_slice(&tail);
        Ok(bytes)
    }

    /// The index in these bytes, whatever they are: those that `index_range` tells the place of.
    ///
    /// # Errors
    /// The error in them.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let unreadable = |_| FormatError::Content("it cannot be decoded");
        let (count, mut rest) = postcard::take_from_bytes::<u32>(FORMAT.open(bytes)?).map_err(unreadable)?;
        let mut index = Self::new();
        for _ in 0..count {
            let (entry, left) = postcard::take_from_bytes::<BlockEntry>(rest).map_err(unreadable)?;
            index.push(entry)?;
            rest = left;
        }
        if rest.is_empty() { Ok(index) } else { Err(FormatError::Length) }
    }
}

/// Where the index lies in a file of `file_bytes` that begins and ends with these bytes.
///
/// # Errors
/// When they are not those of a pack, or of one that was cut off.
pub fn index_range(head: &[u8; 16], tail: &[u8; 16], file_bytes: u64) -> Result<Range<u64>, FormatError> {
    if head[..6] != HEAD[..6] {
        return Err(FormatError::Magic("pack"));
    }
    let (said, checksum) = tail.split_at(TAIL_BYTES - 4);
    let sum = crc32c::crc32c_append(crc32c::crc32c(head), said);
    let number =
        |at: usize, len: usize| said[at..at + len].iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    if sum.to_le_bytes() != checksum {
        return Err(FormatError::Checksum);
    }
    if *head != HEAD {
        let version = |head: &[u8; 16]| u16::from_le_bytes([head[6], head[7]]);
        return Err(FormatError::Version { found: version(head), known: version(&HEAD) });
    }
    let (whole, index) = (number(0, 8), number(8, 4));
    let end = file_bytes.checked_sub(TAIL_BYTES as u64).filter(|_| whole == file_bytes).ok_or(FormatError::Length)?;
    let start = end.checked_sub(index).filter(|start| *start >= HEAD.len() as u64).ok_or(FormatError::Length)?;
    if index > limits::PROFILE_BYTES_MAX as u64 { Err(FormatError::Limit("its index")) } else { Ok(start..end) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BlockBuilder;
    use crate::samples::{generation, path};
    use forebay_types::{ChunkIndex, Generation};
    use proptest::prelude::*;

    fn entry(names: &[&str]) -> BlockEntry {
        let mut builder = BlockBuilder::new();
        for name in names {
            let piece = Piece::of(path(name), generation(3, name.len() as u64), ChunkIndex(0), name.as_bytes());
            builder.add(piece.unwrap(), name.as_bytes()).unwrap();
        }
        BlockEntry::of(&builder.finish(1).unwrap())
    }

    fn index() -> PackIndex {
        let mut index = PackIndex::new();
        index.push(entry(&["a", "bb"])).unwrap();
        index.push(entry(&["ccc"])).unwrap();
        index
    }

    #[test]
    fn an_index_reads_back_and_blocks_follow_each_other() {
        let index = index();
        let bytes = index.encode().unwrap();
        let (sealed, tail) = bytes.split_last_chunk::<TAIL_BYTES>().unwrap();
        let file_bytes = index.blocks_end() + bytes.len() as u64;
        let range = index_range(&HEAD, tail, file_bytes).unwrap();
        assert_eq!(range, index.blocks_end()..file_bytes - 16);
        assert_eq!(PackIndex::decode(sealed).unwrap(), index);
        assert_eq!((index.pieces_count(), index.contents_bytes()), (3, 6));
        assert_eq!(index.block_range(0..2).end, index.blocks_end());
        assert_eq!(index.block_range(0..1).end, index.block_range(1..2).start);
        for other in [file_bytes - 1, file_bytes + 1, 0, 15] {
            assert_eq!(index_range(&HEAD, tail, other), Err(FormatError::Length));
        }
    }

    #[test]
    fn every_spoiled_byte_of_head_and_tail_is_noticed() {
        let index = index();
        let bytes = index.encode().unwrap();
        let tail = bytes.last_chunk::<TAIL_BYTES>().unwrap();
        let file_bytes = index.blocks_end() + bytes.len() as u64;
        for at in 0..16 {
            let (mut head, mut end) = (HEAD, *tail);
            head[at] ^= 4;
            end[at] ^= 4;
            assert!(index_range(&head, tail, file_bytes).is_err(), "byte {at} of the head");
            assert!(index_range(&HEAD, &end, file_bytes).is_err(), "byte {at} of the tail");
        }
    }

    #[test]
    fn impossible_blocks_are_refused() {
        let good = entry(&["a"]);
        let with = |change: fn(&mut BlockEntry)| {
            let mut entry = good.clone();
            change(&mut entry);
            PackIndex::new().push(entry)
        };
        assert!(with(|entry| entry.compressed_bytes = 0).is_err());
        assert!(with(|entry| entry.compressed_bytes = 2 << 20).is_err());
        assert!(with(|entry| entry.pieces.clear()).is_err());
        assert!(with(|entry| entry.pieces[0].index = ChunkIndex(1)).is_err());
        assert!(with(|entry| entry.pieces = vec![entry.pieces[0].clone(); (1 << 20) + 1]).is_err());
        let big = Generation { size_bytes: 1 << 20, ..Generation::default() };
        let two = vec![Piece { generation: big, ..good.pieces[0].clone() }; 2];
        assert!(PackIndex::new().push(BlockEntry { pieces: two, ..good }).is_err());
    }

    proptest! {
        #[test]
        fn a_body_that_lies_is_refused_or_makes_sense(body in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(index) = PackIndex::decode(&FORMAT.seal(&body).unwrap()) {
                let sum: u64 = index.blocks().iter().map(|block| u64::from(block.compressed_bytes)).sum();
                prop_assert_eq!(index.block_range(0..index.blocks().len()).end, 16 + sum);
            }
        }
    }
}
