//! The bytes of a store.
//!
//! Index: the head (a block), the clock (a block), the sets. Slots: a block of header and room for 1 MiB each. All numbers are
//! little-endian, and whatever is read has a checksum of its own or is verified by what it leads to.

use forebay_types::{CHUNK_BYTES, PIECE_BYTES};

use crate::key::{ChunkKey, IDENTITY_BYTES, PLACE_BYTES};
use crate::limits::ROOMY_SLOTS_MAX;
use crate::policy::Reuse;
use crate::set::{BLOCK_BYTES, SET_BYTES, SET_SLOTS};

/// The version of the format.
pub(crate) const VERSION: u16 = 1;

const INDEX_MAGIC: [u8; 8] = *b"FBcacheI";
const SLOT_MAGIC: [u8; 8] = *b"FBcacheS";

/// Where the clock lies in the index.
pub(crate) const CLOCK_AT: u64 = BLOCK_BYTES;

/// Where the sets begin.
const SETS_AT: u64 = 2 * BLOCK_BYTES;

/// Bytes of a slot.
pub(crate) const SLOT_BYTES: u64 = BLOCK_BYTES + CHUNK_BYTES;

/// Pieces of a whole chunk.
const PIECES: usize = CHUNK_BYTES as usize / PIECE_BYTES;

/// Units of the clock in a capacity: ages are known to a part in so many, and come again after 4,096 capacities.
const UNITS: u64 = 4096;

/// The head's length, bytes.
pub(crate) const HEAD_BYTES: usize = 40;

/// The clock's length, bytes.
pub(crate) const CLOCK_BYTES: usize = 36;

/// The length of a slot's header that is used, bytes.
const HEADER_BYTES: usize = 10 + PLACE_BYTES + IDENTITY_BYTES + 4 + 4 * PIECES + 4;

/// The shape of a store, settled when it is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Geometry {
    pub set_count: u64,
    /// The unit of the clock, bytes.
    pub unit_bytes: u64,
}

impl Geometry {
    /// For a store of this capacity: a sixteenth more slots than whole chunks, four times as many while the index is small.
    pub fn of(capacity_bytes: u64) -> Self {
        let chunks = capacity_bytes.div_ceil(CHUNK_BYTES).max(1);
        let slots = (4 * chunks).min(ROOMY_SLOTS_MAX).max(chunks + chunks.div_ceil(16));
        let unit_bytes = (capacity_bytes / UNITS).max(BLOCK_BYTES);
        Self { set_count: slots.div_ceil(SET_SLOTS as u64), unit_bytes }
    }

    /// Whether a store of this shape can have such a capacity.
    pub fn can_hold(self, capacity_bytes: u64) -> bool {
        self.set_count * SET_SLOTS as u64 >= capacity_bytes.div_ceil(CHUNK_BYTES)
    }

    pub fn index_bytes(self) -> u64 {
        self.set_at(self.set_count)
    }

    pub fn chunks_bytes(self) -> u64 {
        self.slot_at(self.set_count, 0)
    }

    /// Where a set lies in the index.
    pub fn set_at(self, set: u64) -> u64 {
        SETS_AT + set * SET_BYTES as u64
    }

    /// Where a slot lies among the slots.
    pub fn slot_at(self, set: u64, index: usize) -> u64 {
        (set * SET_SLOTS as u64 + index as u64) * SLOT_BYTES
    }

    pub fn encode(self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[..8].copy_from_slice(&INDEX_MAGIC);
        bytes[8..10].copy_from_slice(&VERSION.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.set_count.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.unit_bytes.to_le_bytes());
        seal(&mut bytes);
        bytes
    }
}

/// The head of an index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Head {
    /// There is none, or a damaged one.
    Absent,
    /// Of another version.
    Other(u16),
    /// Of this one.
    Known(Geometry),
}

impl Head {
    /// Of the first bytes of an index, and its length.
    pub fn decode(bytes: &[u8], index_bytes: u64) -> Self {
        let Some(bytes) = bytes.first_chunk::<HEAD_BYTES>() else { return Self::Absent };
        let version = u16::from_le_bytes([bytes[8], bytes[9]]);
        if bytes[..8] != INDEX_MAGIC {
            return Self::Absent;
        }
        if version != VERSION {
            return Self::Other(version);
        }
        let geometry = Geometry { set_count: number(bytes, 16), unit_bytes: number(bytes, 24) };
        let is_possible = is_sealed(bytes)
            && geometry.unit_bytes > 0
            && (1..=u64::from(u32::MAX)).contains(&geometry.set_count)
            && geometry.index_bytes() <= index_bytes;
        if is_possible { Self::Known(geometry) } else { Self::Absent }
    }
}

/// The clock of a store, and the capacity that it was opened with last.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct ClockBlock {
    pub reuse: Reuse,
    pub capacity_bytes: u64,
}

impl ClockBlock {
    pub fn encode(self) -> [u8; CLOCK_BYTES] {
        let Reuse { clock_bytes, longest_bytes, longest_at_bytes } = self.reuse;
        let mut bytes = [0; CLOCK_BYTES];
        for (at, number) in [clock_bytes, longest_bytes, longest_at_bytes, self.capacity_bytes].into_iter().enumerate()
        {
            bytes[8 * at..8 * at + 8].copy_from_slice(&number.to_le_bytes());
        }
        seal(&mut bytes);
        bytes
    }

    /// `None` of a damaged one: the time begins anew.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.first_chunk::<CLOCK_BYTES>().filter(|bytes| is_sealed(*bytes))?;
        let [clock_bytes, longest_bytes, longest_at_bytes, capacity_bytes] = [0, 8, 16, 24].map(|at| number(bytes, at));
        Some(Self { reuse: Reuse { clock_bytes, longest_bytes, longest_at_bytes }, capacity_bytes })
    }
}

/// The header of a slot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SlotHeader {
    pub key: ChunkKey,
    pub len_bytes: u32,
    /// The checksum of each piece, crc32c.
    pub checksums: [u32; PIECES],
}

impl SlotHeader {
    /// With what fills its block.
    pub fn encode(&self) -> [u8; BLOCK_BYTES as usize] {
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        bytes.extend(SLOT_MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(self.key.place);
        bytes.extend(self.key.identity);
        bytes.extend(self.len_bytes.to_le_bytes());
        self.checksums.iter().for_each(|checksum| bytes.extend(checksum.to_le_bytes()));
        bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
        let mut block = [0; BLOCK_BYTES as usize];
        block[..bytes.len()].copy_from_slice(&bytes);
        block
    }

    /// `None` of a damaged one.
    pub fn decode(block: &[u8]) -> Option<Self> {
        let bytes = block.first_chunk::<HEADER_BYTES>().filter(|bytes| is_sealed(*bytes))?;
        let rest = bytes.strip_prefix(&SLOT_MAGIC)?.strip_prefix(&VERSION.to_le_bytes())?;
        let (place, rest) = rest.split_first_chunk()?;
        let (identity, rest) = rest.split_first_chunk()?;
        let (len_bytes, rest) = rest.split_first_chunk()?;
        let mut checksums = [0; PIECES];
        let words = rest.as_chunks::<4>().0;
        checksums.iter_mut().zip(words).for_each(|(checksum, word)| *checksum = u32::from_le_bytes(*word));
        let key = ChunkKey { place: *place, identity: *identity };
        let len_bytes = u32::from_le_bytes(*len_bytes);
        (u64::from(len_bytes) <= CHUNK_BYTES).then_some(Self { key, len_bytes, checksums })
    }
}

fn number(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Makes the last four bytes the checksum of all before.
fn seal(bytes: &mut [u8]) {
    let (contents, checksum) = bytes.split_at_mut(bytes.len() - 4);
    checksum.copy_from_slice(&crc32c::crc32c(contents).to_le_bytes());
}

fn is_sealed(bytes: &[u8]) -> bool {
    let (contents, checksum) = bytes.split_at(bytes.len() - 4);
    checksum == crc32c::crc32c(contents).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_million_chunks_have_an_index_of_64_mib() {
        for (chunks, index_mib) in [(10 << 20, 64), (10_000_000, 64), (2_750_000, 64), (1, 1)] {
            let geometry = Geometry::of(chunks * CHUNK_BYTES);
            assert!(geometry.index_bytes() <= index_mib << 20, "{chunks}: {}", geometry.index_bytes());
            assert!(geometry.can_hold(chunks * CHUNK_BYTES));
        }
        assert!(Geometry::of(crate::limits::CAPACITY_BYTES_MAX).chunks_bytes() < 16 << 40);
    }

    #[test]
    fn what_is_written_is_read_again_and_a_changed_bit_is_noticed() {
        let geometry = Geometry::of(1 << 30);
        let block =
            ClockBlock { reuse: Reuse { clock_bytes: 1, longest_bytes: 2, longest_at_bytes: 3 }, capacity_bytes: 4 };
        let key = ChunkKey { place: [1; PLACE_BYTES], identity: [2; IDENTITY_BYTES] };
        let header = SlotHeader { key, len_bytes: 5, checksums: [6; PIECES] };
        let (head, clock, slot) = (geometry.encode(), block.encode(), header.encode());
        assert_eq!(Head::decode(&head, u64::MAX), Head::Known(geometry));
        assert_eq!(ClockBlock::decode(&clock), Some(block));
        assert_eq!(SlotHeader::decode(&slot), Some(header));
        for bit in 0..8 * HEADER_BYTES {
            let flipped = |bytes: &[u8]| {
                let mut bytes = bytes.to_owned();
                let at = bit / 8 % bytes.len();
                bytes[at] ^= 1 << (bit % 8);
                bytes
            };
            assert!(!matches!(Head::decode(&flipped(&head), u64::MAX), Head::Known(_)));
            assert_eq!(ClockBlock::decode(&flipped(&clock)), None);
            assert_eq!(SlotHeader::decode(&flipped(&slot)), None, "bit {bit}");
        }
        assert_eq!(Head::decode(&head, geometry.index_bytes() - 1), Head::Absent, "a short index");
    }
}
