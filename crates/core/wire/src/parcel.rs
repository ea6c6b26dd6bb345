//! Parcels: a start-up's contents on their way to all nodes, some of each in one body.
//!
//! A parcel describes its own contents, so that the profile it was made from is not needed: listings as they are now,
//! names that are looked up and do not exist, and chunks in blocks. A block is compressed as it lies in a pack, or
//! stored; of a pack's block a piece may be outdated, and is then marked and not used.
//!
//! ```text
//! length of the head   u32, little endian
//! head                 ParcelHead, postcard
//! listings             as encoded by `Listing`, one after the other
//! blocks               one after the other
//! ```

use std::hash::BuildHasher;

use bytes::Bytes;
use forebay_types::{ChunkIndex, Generation, Hasher, ViewPath, limits};
use serde::{Deserialize, Serialize};

use crate::message::{Checked, decode, encode};
use crate::{Listing, WireError};

const LENGTH_BYTES: usize = 4;

/// The head of a parcel.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ParcelHead {
    /// How many parcels there are in all; their numbers are below.
    pub count: u32,
    /// Directories, with the length of their encoded listings.
    pub listings: Vec<(ViewPath, u32)>,
    /// Names that programs look for in vain.
    pub absent: Vec<ViewPath>,
    /// Which parcels bring which chunks, in the first parcel.
    pub places: Vec<ParcelPlace>,
    /// The blocks.
    pub blocks: Vec<ParcelBlock>,
}

/// Where a chunk comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ParcelPlace {
    /// The number that stands for the chunk. Another chunk may have the same one: then its readers wait in vain, once.
    pub chunk: u64,
    /// The parcel.
    pub parcel: u32,
}

impl ParcelPlace {
    /// The place of a chunk.
    #[must_use]
    pub fn new(file: &ViewPath, index: ChunkIndex, parcel: u32) -> Self {
        Self { chunk: Self::chunk_number(file, index), parcel }
    }

    /// The number that stands for a chunk of a file, whichever version: the same at every node.
    #[must_use]
    pub fn chunk_number(file: &ViewPath, index: ChunkIndex) -> u64 {
        Hasher::default().hash_one((file.as_bytes(), index.0))
    }
}

/// How a block's bytes are encoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Codec {
    /// As they are.
    Stored,
    /// One LZ4 block.
    Lz4,
}

/// A block of a parcel: whole chunks, one after the other.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ParcelBlock {
    /// How it is encoded.
    pub codec: Codec,
    /// Its length in the parcel.
    pub encoded_bytes: u32,
    /// Its pieces, in order.
    pub pieces: Vec<ParcelPiece>,
}

/// One chunk in a block.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ParcelPiece {
    /// The file.
    pub file: ViewPath,
    /// The version.
    pub generation: Generation,
    /// Which chunk.
    pub index: ChunkIndex,
    /// Its checksum, crc32c.
    pub checksum: u32,
    /// Whether the file still is this version.
    pub is_current: bool,
}

impl ParcelPiece {
    /// Its length: what its file's size leaves for that chunk.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        forebay_types::chunk_bytes(self.generation.size_bytes, self.index)
    }
}

impl ParcelBlock {
    /// Bytes of the block when it is decoded.
    #[must_use]
    pub fn plain_bytes(&self) -> usize {
        self.pieces.iter().map(ParcelPiece::len_bytes).sum()
    }
}

/// A parcel, taken apart; its blocks are still encoded.
#[derive(Clone, Debug)]
pub struct Parcel {
    /// How many parcels there are in all.
    pub count: u32,
    /// Directories with what is in them.
    pub listings: Vec<(ViewPath, Listing)>,
    /// Names that programs look for in vain.
    pub absent: Vec<ViewPath>,
    /// Which parcels bring which chunks, in the first parcel.
    pub places: Vec<ParcelPlace>,
    /// The blocks with their encoded bytes.
    pub blocks: Vec<(ParcelBlock, Bytes)>,
}

impl Parcel {
    /// Encodes a parcel: the parts of its body, in order. The lengths in the head are those of the parts.
    #[must_use]
    pub fn encode(&self) -> Vec<Bytes> {
        let length = |bytes: &Bytes| u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let head = encode(&ParcelHead {
            count: self.count,
            listings: self.listings.iter().map(|(dir, listing)| (dir.clone(), length(listing.bytes()))).collect(),
            absent: self.absent.clone(),
            places: self.places.clone(),
            blocks: self
                .blocks
                .iter()
                .map(|(block, bytes)| ParcelBlock { encoded_bytes: length(bytes), ..block.clone() })
                .collect(),
        });
        let mut first = (head.len() as u32).to_le_bytes().to_vec();
        first.extend_from_slice(&head);
        let listings = self.listings.iter().map(|(_, listing)| listing.bytes().clone());
        let blocks = self.blocks.iter().map(|(_, bytes)| bytes.clone());
        std::iter::once(Bytes::from(first)).chain(listings).chain(blocks).collect()
    }

    /// Takes a parcel's body apart, without copying its blocks.
    ///
    /// # Errors
    /// `WireError` when the bytes are not exactly a parcel, or break a limit.
    pub fn parse(mut bytes: Bytes) -> Result<Self, WireError> {
        let mut take = |len: usize| match bytes.len() >= len {
            true => Ok(bytes.split_to(len)),
            false => Err(WireError::Message),
        };
        let length = take(LENGTH_BYTES)?;
        let length = u32::from_le_bytes(length[..].try_into().map_err(|_| WireError::Message)?);
        let head: ParcelHead = decode(&take(length as usize)?)?;
        // Listings are kept when the parcel is long gone: in memory of their own.
        let mut copied = |len: u32| take(len as usize).map(|bytes| Bytes::copy_from_slice(&bytes));
        let listing = |(dir, len): (ViewPath, u32)| Ok((dir, Listing::parse(copied(len)?)?));
        let listings = head.listings.into_iter().map(listing).collect::<Result<_, WireError>>()?;
        let block = |block: ParcelBlock| take(block.encoded_bytes as usize).map(|bytes| (block, bytes));
        let blocks = head.blocks.into_iter().map(block).collect::<Result<_, WireError>>()?;
        match bytes.is_empty() {
            true => Ok(Self { count: head.count, listings, absent: head.absent, places: head.places, blocks }),
            false => Err(WireError::Message),
        }
    }
}

impl Checked for ParcelHead {
    fn is_within_limits(&self) -> bool {
        let is_block = |block: &ParcelBlock| {
            block.plain_bytes() <= limits::PARCEL_BLOCK_BYTES_MAX
                && block.encoded_bytes as usize <= limits::PARCEL_BLOCK_BYTES_MAX
                && (block.codec != Codec::Stored || block.plain_bytes() == block.encoded_bytes as usize)
                && block.pieces.iter().all(|piece| piece.len_bytes() > 0)
        };
        let Self { count, places, blocks, .. } = self;
        *count <= limits::PARCELS_MAX && places.len() <= limits::PARCEL_PLACES_MAX && blocks.iter().all(is_block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parcel() -> Parcel {
        let path = |text: &str| ViewPath::new(text.as_bytes()).unwrap();
        let piece = ParcelPiece {
            file: path("lib/a.so"),
            generation: Generation { size_bytes: 5, ..Generation::default() },
            index: ChunkIndex(0),
            checksum: 7,
            is_current: true,
        };
        let block = ParcelBlock { codec: Codec::Stored, encoded_bytes: 5, pieces: vec![piece] };
        Parcel {
            count: 3,
            listings: Vec::new(),
            absent: vec![path("lib/b.so")],
            places: vec![ParcelPlace::new(&path("lib/a.so"), ChunkIndex(0), 2)],
            blocks: vec![(block, Bytes::from_static(b"hello"))],
        }
    }

    fn body(parcel: &Parcel) -> Vec<u8> {
        parcel.encode().concat()
    }

    #[test]
    fn a_parcel_comes_back_as_it_was_sent() {
        let sent = parcel();
        let back = Parcel::parse(body(&sent).into()).unwrap();
        assert_eq!((back.count, &back.absent, &back.blocks), (3, &sent.absent, &sent.blocks));
        assert_eq!(back.places, sent.places);
    }

    #[test]
    fn messages_cut_short_too_long_or_beyond_a_limit_are_refused() {
        let whole = body(&parcel());
        for len in 0..whole.len() {
            assert!(Parcel::parse(whole[..len].to_vec().into()).is_err(), "{len}");
        }
        assert!(Parcel::parse([&whole[..], &[0]].concat().into()).is_err());
        let with = |change: fn(&mut Parcel)| {
            let mut parcel = parcel();
            change(&mut parcel);
            Parcel::parse(body(&parcel).into()).is_ok()
        };
        assert!(with(|_| {}));
        assert!(!with(|parcel| parcel.count = limits::PARCELS_MAX + 1));
        assert!(!with(|parcel| parcel.blocks[0].0.pieces[0].generation.size_bytes = 4));
        assert!(!with(|parcel| parcel.blocks[0].1 = Bytes::from_static(b"hell")));
    }

    proptest! {
        #[test]
        fn parsing_any_bytes_ends(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Parcel::parse(bytes.into());
        }
    }
}
