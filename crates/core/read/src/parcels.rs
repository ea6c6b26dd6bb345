//! Parcels: a start-up's contents arrive before the programs, numbered, a few at a time; how far a node has come.
//!
//! A parcel is requested like any other object: requests for it are joined, and it is forwarded while it arrives. If it is lost, it is
//! requested elsewhere. No program waits for it: a parcel that does not come is left out, and its contents are requested when they are
//! wanted. Names in a parcel are valid for the job's first snapshot only, so a refresh ends them.
//!
//! Contents of a parcel that comes soon are not requested twice. The first parcel says which of the others brings which chunk.
//! If a program wants such a chunk, its parcel is requested immediately, before those whose turn it is. The chunk's request is
//! held until the parcel is open, but not for long: a parcel has to wait for more than a chunk has. An open parcel ends the
//! requests for its contents, as a listing does; the others are sent like any other request.
//!
//! Only reads of the kernel wait: a parcel is made from chunks that peers request, so a peer's request for a chunk ends its wait.
//! Storing a parcel waits for pages that a read has locked. So no chunk is stored while a read of it waits, and a read waits for
//! parcels alone or not at all. Waits are acyclic.

use std::collections::{BTreeMap, BTreeSet};

use forebay_cache::Key;
use forebay_dispatch::HoldId;
use forebay_types::{ChunkIndex, Errno, Generation, Map, Time, ViewPath, limits};
use forebay_wire::ParcelPlace;

/// One chunk of a parcel, whole and checked.
#[derive(Clone, Debug)]
pub struct ParcelChunk<B> {
    /// The file.
    pub file: ViewPath,
    /// The version.
    pub generation: Generation,
    /// Which chunk.
    pub index: ChunkIndex,
    /// Its bytes.
    pub body: B,
}

impl<B> ParcelChunk<B> {
    pub(crate) fn key(&self) -> Key {
        Key::Chunk { file: self.file.clone(), generation: self.generation, index: self.index }
    }
}

/// How far a node has come with them.
#[derive(Default)]
pub(crate) struct Parcels {
    is_wanted: bool,
    /// The next to ask for.
    next: u32,
    /// How many there are, once it is known.
    count: Option<u32>,
    /// Those that are asked for or being stored.
    under_way: BTreeSet<u32>,
    /// Those of them that are not open yet.
    unopened: BTreeSet<u32>,
    /// Those that were asked for before their turn.
    out_of_turn: BTreeSet<u32>,
    failed_in_a_row: u32,
    /// The parcel that brings a chunk, by the chunk's number.
    places: Map<u64, u32>,
    /// The parcels that requests wait for.
    waits: BTreeMap<u32, Wait>,
    /// Parcels that were taken apart.
    pub stored_count: u64,
    /// Parcels that did not come, once for each time.
    pub failed_count: u64,
}

/// Requests for chunks wait for their parcel.
struct Wait {
    hold: HoldId,
    until: Time,
}

/// The reaction to a parcel that did not come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AfterFailure {
    Nothing,
    /// It may be had elsewhere.
    AskAgain,
    /// It is left out.
    AskOthers,
    /// Too many did not come.
    GiveUp,
}

impl Parcels {
    /// They are to be asked for from now on.
    pub fn want(&mut self) {
        self.is_wanted = true;
    }

    /// Whether nothing has ended them.
    pub fn are_wanted(&self) -> bool {
        self.is_wanted
    }

    /// Whether some are still to come or to be stored.
    pub fn are_coming(&self) -> bool {
        self.is_wanted && !self.under_way.is_empty()
    }

    /// Whether this one is to be taken apart here.
    pub fn awaits(&self, index: u32) -> bool {
        self.is_wanted && self.under_way.contains(&index)
    }

    /// The next whose turn it is; it counts as asked for.
    pub fn next_to_ask(&mut self) -> Option<u32> {
        loop {
            let has_room = self.under_way.len() < limits::PARCELS_AHEAD as usize;
            if !self.is_wanted || !has_room || self.next >= self.count.unwrap_or(limits::PARCELS_MAX) {
                return None;
            }
            let index = self.next;
            self.next += 1;
            if !self.out_of_turn.remove(&index) {
                self.ask(index);
                return Some(index);
            }
        }
    }

    /// One is asked for, perhaps again.
    pub fn ask(&mut self, index: u32) {
        self.under_way.insert(index);
        self.unopened.insert(index);
    }

    /// One is open. `false` if parcels have ended: nothing of it may be used.
    pub fn open(&mut self, index: u32, count: u32) -> bool {
        if self.is_wanted {
            self.count = Some(self.count.map_or(count, |known| known.min(count)));
            self.unopened.remove(&index);
        }
        self.is_wanted
    }

    /// One has been dealt with.
    pub fn store(&mut self, index: u32) {
        self.stored_count += 1;
        self.failed_in_a_row = 0;
        self.under_way.remove(&index);
    }

    /// One did not come.
    pub fn fail(&mut self, index: u32, errno: Errno) -> AfterFailure {
        if !self.is_wanted || !self.under_way.remove(&index) {
            return AfterFailure::Nothing;
        }
        self.unopened.remove(&index);
        if errno == Errno::ENODATA {
            self.count = Some(self.count.map_or(index, |known| known.min(index)));
            return AfterFailure::Nothing;
        }
        self.failed_count += 1;
        self.failed_in_a_row += 1;
        match errno {
            _ if self.failed_in_a_row > limits::PARCELS_FAILED_MAX => AfterFailure::GiveUp,
            Errno::WAY_LOST => AfterFailure::AskAgain,
            _ => AfterFailure::AskOthers,
        }
    }

    /// There will be no more. Returns the holds of requests that waited for some.
    pub fn end(&mut self) -> Vec<HoldId> {
        self.is_wanted = false;
        self.under_way.clear();
        self.unopened.clear();
        self.places.clear();
        std::mem::take(&mut self.waits).into_values().map(|wait| wait.hold).collect()
    }

    /// Notes the first parcel's places of chunks in the others.
    pub fn note_places(&mut self, places: &[ParcelPlace]) {
        if self.are_coming() && self.places.is_empty() {
            self.places.extend(places.iter().map(|place| (place.chunk, place.parcel)));
        }
    }

    /// The parcel that will bring a chunk, unless it has come.
    pub fn parcel_to_come(&self, key: &Key) -> Option<u32> {
        self.parcel_of(key).filter(|parcel| self.is_to_come(*parcel))
    }

    fn parcel_of(&self, key: &Key) -> Option<u32> {
        let Key::Chunk { file, index, .. } = key else { return None };
        self.places.get(&ParcelPlace::chunk_number(file, *index)).copied()
    }

    /// Whether a parcel may still bring something.
    fn is_to_come(&self, index: u32) -> bool {
        let is_unasked = index >= self.next && index < self.count.unwrap_or(0) && !self.out_of_turn.contains(&index);
        self.is_wanted && (is_unasked || self.unopened.contains(&index))
    }

    /// The parcels that bring these chunks, which are all that a read needs; `None` if they are to be asked for now.
    pub fn parcels_to_wait_for<'k>(&self, wanted: impl Iterator<Item = &'k Key>) -> Option<Vec<u32>> {
        let parcels: Vec<u32> = wanted.map(|key| self.parcel_to_come(key)).collect::<Option<_>>()?;
        (self.under_way.len() + parcels.len() <= limits::PARCELS_UNDER_WAY_MAX as usize).then_some(parcels)
    }

    /// Whether a parcel that a read waits for has to be asked for before its turn; it counts as asked for.
    pub fn ask_out_of_turn(&mut self, index: u32) -> bool {
        let is_news = !self.unopened.contains(&index);
        if is_news {
            self.out_of_turn.insert(index);
            self.ask(index);
        }
        is_news
    }

    /// The hold of requests for a parcel's chunks; `new` if there is none.
    pub fn wait_for(&mut self, now: Time, index: u32, new: impl FnOnce() -> HoldId) -> HoldId {
        let wait = || Wait { hold: new(), until: now.after(limits::PARCEL_WAIT) };
        self.waits.entry(index).or_insert_with(wait).hold
    }

    /// The hold of a request for a chunk, if it waits for a parcel.
    pub fn hold_of(&self, key: &Key) -> Option<HoldId> {
        self.parcel_of(key).and_then(|parcel| self.waits.get(&parcel)).map(|wait| wait.hold)
    }

    /// A parcel is open, or will not be soon. Returns the hold that it ends.
    pub fn end_wait_for(&mut self, index: u32) -> Option<HoldId> {
        self.waits.remove(&index).map(|wait| wait.hold)
    }

    /// The holds that have lasted long enough.
    pub fn end_long_waits(&mut self, now: Time) -> Vec<HoldId> {
        let late = self.waits.extract_if(.., |_, wait| wait.until <= now);
        late.map(|(_, wait)| wait.hold).collect()
    }

    /// When requests have waited long enough for the first of the parcels that they wait for.
    pub fn first_wait_end(&self) -> Option<Time> {
        self.waits.values().map(|wait| wait.until).min()
    }
}
