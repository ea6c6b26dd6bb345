//! A pack's block: some pieces one after the other, compressed as one LZ4 block.
//!
//! A block is compressed and checked as a whole, and each piece in it has a checksum of its own contents, made when they
//! were read from their file: so a block can be handed on compressed, and who opens it at last knows that every piece is
//! what the file held. No length in a block is believed: it is opened into a buffer of the size that its pieces make up.

use bytes::{Bytes, BytesMut};
use forebay_types::{ChunkIndex, Generation, ViewPath, chunk_bytes};
use lz4::block::CompressionMode;
use serde::{Deserialize, Serialize};

use crate::FormatError;
use crate::limits;

/// How hard packs are compressed unless somebody says otherwise, from 3 to 12: within 2 % of the smallest, at a sixth of its
/// time (`examples/pack.rs`; docs/adr/0013-packs-of-lz4.md has the figures).
pub const LEVEL_DEFAULT: i32 = 5;

/// One chunk of one version of a file, as it lies in a block.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Piece {
    /// The file.
    pub path: ViewPath,
    /// Its version.
    pub generation: Generation,
    /// Which of its chunks.
    pub index: ChunkIndex,
    /// The crc32c of its bytes.
    pub checksum: u32,
}

impl Piece {
    /// The piece that `bytes` are.
    ///
    /// # Errors
    /// `Content` when that chunk of that version has another length, or none.
    pub fn of(path: ViewPath, generation: Generation, index: ChunkIndex, bytes: &[u8]) -> Result<Self, FormatError> {
        let piece = Self { path, generation, index, checksum: crc32c::crc32c(bytes) };
        if bytes.is_empty() || bytes.len() != piece.len_bytes() {
            return Err(FormatError::Content("a chunk has another length than its file's version says"));
        }
        Ok(piece)
    }

    /// How many bytes it has: what its file's size leaves for that chunk.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        chunk_bytes(self.generation.size_bytes, self.index)
    }
}

/// A block as it lies on disk and travels.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Block {
    /// Its pieces, in order.
    pub pieces: Vec<Piece>,
    /// Their bytes, compressed.
    pub compressed: Bytes,
}

/// Collects pieces until a block is full. It can be filled and compressed on any thread.
#[derive(Default)]
pub struct BlockBuilder {
    pieces: Vec<Piece>,
    contents: Vec<u8>,
}

impl BlockBuilder {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether it has no piece yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Whether a piece of `len_bytes` has room. The first one always has.
    #[must_use]
    pub fn has_room(&self, len_bytes: usize) -> bool {
        self.contents.len() + len_bytes <= limits::PACK_BLOCK_BYTES
    }

    /// Adds a piece.
    ///
    /// # Errors
    /// `Content` when `bytes` are not those of `piece`, `Limit` when it has no room; nothing is added.
    pub fn add(&mut self, piece: Piece, bytes: &[u8]) -> Result<(), FormatError> {
        if !self.has_room(bytes.len()) {
            return Err(FormatError::Limit("the size of a block"));
        }
        check_piece(&piece, bytes)?;
        self.contents.extend_from_slice(bytes);
        self.pieces.push(piece);
        Ok(())
    }

    /// Compresses what was added and leaves the builder empty.
    ///
    /// # Errors
    /// `Content` when LZ4 refuses, which nothing of a block's size makes it do.
    pub fn finish(&mut self, level: i32) -> Result<Block, FormatError> {
        let compressed = compress(&self.contents, level)?;
        self.contents.clear();
        Ok(Block { pieces: std::mem::take(&mut self.pieces), compressed })
    }
}

/// Compresses bytes as one LZ4 block, which does not say how long its contents are.
///
/// # Errors
/// `Content` when LZ4 refuses, which nothing below 2 GB makes it do.
pub fn compress(contents: &[u8], level: i32) -> Result<Bytes, FormatError> {
    let compressed = lz4::block::compress(contents, Some(CompressionMode::HIGHCOMPRESSION(level)), false);
    compressed.map(Bytes::from).map_err(|_| FormatError::Content("it cannot be compressed"))
}

/// Opens blocks, one after the other, into the same memory if nobody holds anything of the last one: the first touch of
/// fresh memory costs more than opening.
#[derive(Default)]
pub struct BlockOpener {
    last: Bytes,
}

impl BlockOpener {
    /// One that has opened nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens an LZ4 block that must hold `len_bytes` exactly.
    ///
    /// # Errors
    /// `Content` when it does not.
    pub fn decompress(&mut self, compressed: &[u8], len_bytes: usize) -> Result<Bytes, FormatError> {
        let mut memory = std::mem::take(&mut self.last).try_into_mut().unwrap_or_else(|_| BytesMut::new());
        memory.resize(len_bytes, 0);
        let room = i32::try_from(len_bytes).map_err(|_| FormatError::Limit("the size of a block"))?;
        let opened = lz4::block::decompress_to_buffer(compressed, Some(room), &mut memory[..]);
        self.last = memory.freeze();
        match opened {
            Ok(opened_bytes) if opened_bytes == len_bytes => Ok(self.last.clone()),
            _ => Err(FormatError::Content("a block does not hold what its pieces make up")),
        }
    }

    /// The bytes of a block's pieces, in order, checked. They share one buffer, which lives until the last of them is
    /// dropped: who keeps a small one for long copies it.
    ///
    /// # Errors
    /// `Content` when the block does not hold `pieces`, `Checksum` when one of them is not what its file held.
    pub fn open(&mut self, compressed: &[u8], pieces: &[Piece]) -> Result<Vec<Bytes>, FormatError> {
        let contents = self.decompress(compressed, contents_bytes(pieces)?)?;
        let mut at = 0;
        let cut = pieces.iter().map(|piece| {
            let bytes = contents.slice(at..at + piece.len_bytes());
            at += bytes.len();
            check_piece(piece, &bytes).map(|()| bytes)
        });
        cut.collect()
    }
}

/// Bytes of a block that holds `pieces`; refuses one that cannot be.
pub(crate) fn contents_bytes(pieces: &[Piece]) -> Result<usize, FormatError> {
    if pieces.is_empty() || pieces.iter().any(|piece| piece.len_bytes() == 0) {
        return Err(FormatError::Content("a block or a piece of nothing"));
    }
    // As many pieces as bytes at most, of 1 MiB each: no overflow.
    let bytes = pieces.iter().take(limits::PACK_BLOCK_BYTES + 1).map(Piece::len_bytes).sum();
    if bytes > limits::PACK_BLOCK_BYTES { Err(FormatError::Limit("the size of a block")) } else { Ok(bytes) }
}

fn check_piece(piece: &Piece, bytes: &[u8]) -> Result<(), FormatError> {
    if bytes.is_empty() || bytes.len() != piece.len_bytes() {
        return Err(FormatError::Content("a chunk has another length than its file's version says"));
    }
    if crc32c::crc32c(bytes) == piece.checksum { Ok(()) } else { Err(FormatError::Checksum) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{generation, path};
    use forebay_types::CHUNK_BYTES;

    fn piece(name: &str, bytes: &[u8]) -> Piece {
        Piece::of(path(name), generation(1, bytes.len() as u64), ChunkIndex(0), bytes).unwrap()
    }

    fn block(contents: &[&[u8]]) -> Block {
        let mut builder = BlockBuilder::new();
        for bytes in contents {
            builder.add(piece("a", bytes), bytes).unwrap();
        }
        builder.finish(3).unwrap()
    }

    #[test]
    fn a_block_opens_to_its_pieces() {
        let block = block(&[b"one", b"two, longer", &[7; 1000]]);
        let opened = BlockOpener::new().open(&block.compressed, &block.pieces);
        assert_eq!(opened.unwrap(), [&b"one"[..], b"two, longer", &[7; 1000]]);
    }

    #[test]
    fn memory_is_used_again_when_nobody_holds_what_was_in_it() {
        let mut opener = BlockOpener::new();
        let contents = vec![1; 100_000];
        let (first, second) = (compress(&contents, 3).unwrap(), compress(&[2; 50_000], 3).unwrap());
        let opened = opener.decompress(&first, 100_000).unwrap();
        let place = opened.as_ptr();
        let held = opened.slice(7..8);
        drop(opened);
        assert_ne!(opener.decompress(&second, 50_000).unwrap().as_ptr(), place);
        assert_eq!(held[..], [1]);
        let place = opener.decompress(&first, 100_000).unwrap().as_ptr();
        assert_eq!(opener.decompress(&second, 50_000).unwrap().as_ptr(), place);
        assert_eq!(opener.decompress(&first, 100_000).unwrap(), contents);
    }

    #[test]
    fn every_spoiled_byte_is_noticed_or_harmless() {
        let block = block(&[b"one", b"two", &[7; 300]]);
        let mut opener = BlockOpener::new();
        let contents = opener.open(&block.compressed, &block.pieces).unwrap();
        for at in 0..block.compressed.len() {
            for bit in 0..8 {
                let mut spoiled = block.compressed.to_vec();
                spoiled[at] ^= 1 << bit;
                if let Ok(opened) = opener.open(&spoiled, &block.pieces) {
                    assert_eq!(opened, contents, "byte {at}, bit {bit}");
                }
            }
            assert!(opener.open(&block.compressed[..at], &block.pieces).is_err());
        }
    }

    #[test]
    fn a_block_that_grows_is_opened_no_further_than_its_pieces() {
        let bomb = compress(&vec![0; 64 << 20], 3).unwrap();
        let mut opener = BlockOpener::new();
        assert!(opener.decompress(&bomb, 1000).is_err());
        let two = [&compress(b"one", 3).unwrap()[..], &compress(b"two", 3).unwrap()[..]].concat();
        assert!(opener.decompress(&two, 3).is_err());
    }

    #[test]
    fn only_what_its_file_held_is_added() {
        let mut builder = BlockBuilder::new();
        assert_eq!(builder.add(piece("a", b"one"), b"two"), Err(FormatError::Checksum));
        assert!(builder.add(piece("a", b"one"), b"ones").is_err());
        assert!(builder.is_empty());
        let past = Piece::of(path("a"), generation(1, 3), ChunkIndex(1), b"");
        assert!(past.is_err());
        let whole = vec![1; CHUNK_BYTES as usize];
        builder.add(piece("a", &whole), &whole).unwrap();
        assert_eq!(builder.add(piece("a", b"x"), b"x"), Err(FormatError::Limit("the size of a block")));
    }

    #[test]
    fn contents_that_do_not_compress_stay_within_the_limit() {
        let mut state = 1u64;
        let noise: Vec<u8> = (0..limits::PACK_BLOCK_BYTES)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            })
            .collect();
        for level in [3, LEVEL_DEFAULT, 12] {
            let block = compress(&noise, level).unwrap();
            assert!(block.len() > noise.len() && block.len() <= limits::PACK_BLOCK_COMPRESSED_BYTES_MAX);
        }
    }
}
