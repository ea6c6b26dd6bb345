//! Reads that wait for a parcel: what a parcel brings soon is not asked for a second time.
//!
//! The first parcel says which of the others brings which chunk. Where a program wants such a chunk, its parcel is asked
//! for at once, before those whose turn it is, and the read waits for it, but not for long: a parcel has to wait for more
//! than a chunk has. What its parcel did not bring is asked for like anything else.
//!
//! Only what kernels read waits: a parcel is made of what peers ask for. Storing a parcel waits for pages that a read has
//! locked, so nothing of a chunk is stored while a read of it waits for another parcel, and a read waits for parcels alone
//! or not at all: so nothing waits for itself.

use std::collections::BTreeMap;

use forebay_cache::Key;
use forebay_types::{Map, Time, limits};
use forebay_wire::ParcelPlace;

use super::ReadPath;
use super::reads::Reader;

/// Where chunks come from, and who waits for that.
#[derive(Default)]
pub(super) struct Awaited {
    /// The parcel that brings a chunk, by the chunk's number.
    places: Map<u64, u32>,
    /// By their parcels.
    reads: BTreeMap<u32, Vec<AwaitingRead>>,
    /// Chunks that have come for a read that waits for another one.
    locked: Map<Key, ()>,
}

/// A part of a read that waits.
pub(super) struct AwaitingRead {
    key: Key,
    deadline: Time,
    until: Time,
    reader: Reader,
    slot: usize,
}

impl<B: Clone> ReadPath<B> {
    /// What the first parcel says about the others.
    pub fn handle_parcel_places(&mut self, places: &[ParcelPlace]) {
        if self.is_prefilling() && self.awaited.places.is_empty() {
            self.awaited.places.extend(places.iter().map(|place| (place.chunk, place.parcel)));
        }
    }

    /// The parcel that will bring a chunk, unless it has come.
    pub(super) fn parcel_to_come(&self, key: &Key) -> Option<u32> {
        let Key::Chunk { file, index, .. } = key else { return None };
        let parcel = *self.awaited.places.get(&ParcelPlace::chunk_number(file, *index))?;
        self.is_parcel_to_come(parcel).then_some(parcel)
    }

    /// Lets a read, of which these chunks and places in it are all, wait for their parcels. `false` if it has to ask for
    /// itself.
    pub(super) fn wait_for_parcels(&mut self, wanted: &[(Key, usize)], deadline: Time, reader: Reader) -> bool {
        let parcels: Option<Vec<u32>> = wanted.iter().map(|(key, _)| self.parcel_to_come(key)).collect();
        let Some(parcels) = parcels.filter(|parcels| self.has_room_for_parcels(parcels.len())) else { return false };
        let until = self.now.after(limits::PARCEL_WAIT).min(deadline);
        for ((key, slot), parcel) in wanted.iter().zip(parcels) {
            self.ask_out_of_turn(parcel);
            let read = AwaitingRead { key: key.clone(), deadline, until, reader, slot: *slot };
            self.awaited.reads.entry(parcel).or_default().push(read);
        }
        true
    }

    /// Whether a read that waits for another parcel has pages of this chunk locked, or had.
    pub(super) fn is_locked(&self, key: &Key) -> bool {
        self.awaited.locked.contains_key(key)
    }

    /// A parcel has come, or will not.
    pub(super) fn end_wait_for(&mut self, parcel: u32) {
        let reads = self.awaited.reads.remove(&parcel).unwrap_or_default();
        reads.into_iter().for_each(|read| self.go_on_reading(read));
    }

    /// There will be no more parcels.
    pub(super) fn end_waits(&mut self) {
        self.awaited.places.clear();
        self.awaited.locked.clear();
        let reads = std::mem::take(&mut self.awaited.reads);
        reads.into_values().flatten().for_each(|read| self.go_on_reading(read));
    }

    /// When the first read has waited long enough.
    pub(super) fn first_wait_end(&self) -> Option<Time> {
        self.awaited.reads.values().flatten().map(|read| read.until).min()
    }

    pub(super) fn end_long_waits(&mut self) {
        let now = self.now;
        let is_late = |read: &mut AwaitingRead| read.until <= now;
        let late: Vec<AwaitingRead> =
            self.awaited.reads.values_mut().flat_map(|reads| reads.extract_if(.., is_late)).collect();
        self.awaited.reads.retain(|_, reads| !reads.is_empty());
        late.into_iter().for_each(|read| self.go_on_reading(read));
    }

    fn go_on_reading(&mut self, read: AwaitingRead) {
        let AwaitingRead { key, deadline, reader, slot, .. } = read;
        if !self.is_pending(reader) {
            return;
        }
        match self.find_chunk_for_peer(&key) {
            Some(chunk) => {
                self.fill_read(reader, slot, &chunk);
                if self.is_pending(reader) {
                    self.awaited.locked.insert(key, ());
                }
            }
            None => self.ask_chunk(key, deadline, reader, slot),
        }
    }
}
