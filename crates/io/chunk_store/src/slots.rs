//! The slots and their entries on a disk: how they are read, written and emptied.
//!
//! The index is never in memory as a whole: a chunk needs two sets of it, and what concerns all of it goes through it in parts.

use std::io;

use forebay_body::Body;
use forebay_types::PIECE_BYTES;

use crate::disk::{Area, Disk};
use crate::format::{Geometry, SLOT_BYTES, SlotHeader};
use crate::key::ChunkKey;
use crate::limits::RELEASE_BLOCKS_MAX;
use crate::set::{BLOCK_BYTES, ENTRY_BYTES, Entry, SET_BYTES, Set};

/// Sets that are read together by whoever goes through the index.
const SETS_A_BLOCK: u64 = 64;

/// The slots of a store.
pub(crate) struct Slots {
    pub disk: Box<dyn Disk>,
    pub geometry: Geometry,
}

impl Slots {
    /// Claims the slot, so that others choose another one; then the contents, and the header last, which makes them count.
    pub fn write(&self, set: u64, index: usize, entry: Entry, key: &ChunkKey, body: &Body) -> io::Result<()> {
        let (at, len_bytes) = (self.geometry.slot_at(set, index), body.expected_bytes());
        self.write_entry(set, index, entry)?;
        let mut header = SlotHeader { key: *key, len_bytes: len_bytes as u32, checksums: Default::default() };
        for (number, checksum) in header.checksums.iter_mut().enumerate() {
            let mut offset = number * PIECE_BYTES;
            for slice in body.slices(offset, PIECE_BYTES) {
                *checksum = crc32c::crc32c_append(*checksum, &slice);
                self.disk.write_at(Area::Chunks, &slice, at + BLOCK_BYTES + offset as u64)?;
                offset += slice.len();
            }
        }
        self.disk.write_at(Area::Chunks, &header.encode(), at)?;
        // A longer chunk may have been there.
        let end = entry.disk_bytes();
        if end < SLOT_BYTES { self.disk.release(at + end, SLOT_BYTES - end) } else { Ok(()) }
    }

    pub fn read_set(&self, set: u64) -> io::Result<Set> {
        let mut bytes = [0; SET_BYTES];
        let len = self.disk.read_at(Area::Index, &mut bytes, self.geometry.set_at(set))?;
        Ok(Set::decode(&bytes[..len]))
    }

    fn write_entry(&self, set: u64, index: usize, entry: Entry) -> io::Result<()> {
        let at = self.geometry.set_at(set) + (index * ENTRY_BYTES) as u64;
        self.disk.write_at(Area::Index, &entry.encode(), at)
    }

    /// Writes the time of use of an entry, and no more of it.
    pub fn write_stamp(&self, set: u64, index: usize, entry: Entry) -> io::Result<()> {
        const BEFORE: usize = 3;
        let at = self.geometry.set_at(set) + (index * ENTRY_BYTES + BEFORE) as u64;
        self.disk.write_at(Area::Index, &entry.encode()[BEFORE..], at)
    }

    /// Empties a slot, and gives its room back.
    pub fn empty(&self, set: u64, index: usize) -> io::Result<()> {
        self.write_entry(set, index, Entry::EMPTY)?;
        self.disk.release(self.geometry.slot_at(set, index), SLOT_BYTES)
    }

    /// Empties the slots used longest ago, one of a set, until so many bytes are free, or all of one look's sets have been seen.
    /// The set where the next look begins.
    pub fn give_back(&self, first: u64, bytes: u64, now: u32) -> io::Result<u64> {
        let mut freed_bytes = 0;
        let blocks = self.geometry.set_count.div_ceil(SETS_A_BLOCK).min(RELEASE_BLOCKS_MAX);
        let mut first = first % self.geometry.set_count;
        for _ in 0..blocks {
            let sets =
                read_sets(self.geometry, first, |buffer, offset| self.disk.read_at(Area::Index, buffer, offset))?;
            let count = sets.len() as u64;
            for (step, set) in sets.iter().enumerate() {
                if freed_bytes >= bytes {
                    break;
                }
                if let Some(index) = set.oldest(now) {
                    freed_bytes += set.0[index].disk_bytes();
                    self.empty(first + step as u64, index)?;
                }
            }
            first = (first + count) % self.geometry.set_count;
        }
        tracing::debug!(bytes, freed_bytes, "the cache store gave room back");
        Ok(first)
    }

    /// Entries that are not empty.
    pub fn count(&self) -> io::Result<u64> {
        count_entries(self.geometry, |buffer, offset| self.disk.read_at(Area::Index, buffer, offset))
    }
}

/// Sets from `first` on, as many as are read together.
fn read_sets(
    geometry: Geometry,
    first: u64,
    read: impl Fn(&mut [u8], u64) -> io::Result<usize>,
) -> io::Result<Vec<Set>> {
    let count = SETS_A_BLOCK.min(geometry.set_count - first) as usize;
    let mut bytes = vec![0; count * SET_BYTES];
    read(&mut bytes, geometry.set_at(first))?;
    Ok(bytes.as_chunks::<SET_BYTES>().0.iter().map(|set| Set::decode(set)).collect())
}

/// The entries of an index that are not empty.
pub(crate) fn count_entries(geometry: Geometry, read: impl Fn(&mut [u8], u64) -> io::Result<usize>) -> io::Result<u64> {
    let (mut first, mut count) = (0, 0);
    while first < geometry.set_count {
        let sets = read_sets(geometry, first, &read)?;
        count += sets.iter().flat_map(|set| set.0).filter(|entry| !entry.is_empty()).count() as u64;
        first += sets.len() as u64;
    }
    Ok(count)
}
