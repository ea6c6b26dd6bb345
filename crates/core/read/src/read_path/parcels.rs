//! Parcels: a start-up's contents come ahead of the programs, numbered, a few at a time.
//!
//! A parcel is asked for like anything else, so it is joined, forwarded while it arrives and asked for elsewhere when it
//! gets lost. Whoever asks has no program waiting for it: one that does not come is left out, and its contents come when
//! they are wanted. What a parcel says about names holds for the job's first snapshot only, so a refresh ends them.

//!
//! What a parcel brings soon is not asked for a second time. The first parcel says which of the others brings which chunk.
//! Where a program wants such a chunk, its parcel is asked for at once, before those whose turn it is, and the chunk's
//! request is held until the parcel is open, but not for long: a parcel has to wait for more than a chunk has. An open
//! parcel ends the requests for what it brings, as a listing does; the others are asked like anything else.
//!
//! Only what kernels read waits: a parcel is made of what peers ask for, so a peer's request for a chunk ends its wait.
//! Storing a parcel waits for pages that a read has locked, so nothing of a chunk is stored while a read of it waits, and
//! a read waits for parcels alone or not at all: so nothing waits for itself.

use std::collections::{BTreeMap, BTreeSet};

use forebay_cache::{Key, Object};
use forebay_dispatch::HoldId;
use forebay_types::{ChunkIndex, Epoch, Errno, Generation, Map, Priority, Time, ViewPath, limits};
use forebay_wire::{Listing, ParcelPlace, ReadMessage};

use super::chunks::Chunk;
use super::entries::Known;
use super::{ReadPath, Waiter};
use crate::{Effect, InodeId, PeerAnswer};

/// How far a node has come with them.
#[derive(Default)]
pub(super) struct Parcels {
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
}

/// Requests for chunks wait for their parcel.
struct Wait {
    hold: HoldId,
    until: Time,
}

impl Parcels {
    /// When requests have waited long enough for the first of the parcels that they wait for.
    pub fn first_wait_end(&self) -> Option<Time> {
        self.waits.values().map(|wait| wait.until).min()
    }
}

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
    fn key(&self) -> Key {
        Key::Chunk { file: self.file.clone(), generation: self.generation, index: self.index }
    }
}

impl<B: Clone> ReadPath<B> {
    /// Begins to ask for the start-up's contents.
    pub fn start_prefill(&mut self, now: Time) {
        self.now = now;
        if self.refreshes.met() == Epoch::START && self.options.names_last.is_none() {
            self.parcels.is_wanted = true;
            self.ask_parcels();
        }
    }

    /// Whether this node reads some of the backing file system for others.
    #[must_use]
    pub fn is_reader(&self) -> bool {
        self.routing().forest.is_root(self.routing().rank)
    }

    /// How many nodes do.
    #[must_use]
    pub fn reader_count(&self) -> usize {
        self.routing().forest.roots().count()
    }

    /// Whether this node makes a parcel for others.
    #[must_use]
    pub fn makes_parcel(&self, index: u32) -> bool {
        self.reads_for_others(&Key::Parcel { index })
    }

    /// Whether this node reads the listing of `dir` for others.
    #[must_use]
    pub fn reads_listing(&self, dir: &ViewPath) -> bool {
        self.reads_for_others(&Key::Listing { dir: dir.clone() })
    }

    /// Whether nothing has ended the parcels of this job, as far as this node knows.
    #[must_use]
    pub fn wants_parcels(&self) -> bool {
        self.parcels.is_wanted
    }

    /// Whether parcels are still to come or to be stored here.
    #[must_use]
    pub fn is_prefilling(&self) -> bool {
        self.parcels.is_wanted && !self.parcels.under_way.is_empty()
    }

    /// Keeps what a parcel brought. `false` if parcels have ended: nothing of it may be used.
    pub fn handle_parcel_opened(
        &mut self,
        now: Time,
        index: u32,
        count: u32,
        listings: Vec<(ViewPath, Listing)>,
        chunks: &[ParcelChunk<B>],
    ) -> bool {
        self.now = now;
        if !self.parcels.is_wanted {
            return false;
        }
        self.parcels.count = Some(self.parcels.count.map_or(count, |known| known.min(count)));
        for (dir, listing) in listings {
            self.keep_prefilled_listing(dir, listing);
        }
        chunks.iter().for_each(|chunk| self.keep_prefilled_chunk(chunk));
        self.parcels.unopened.remove(&index);
        self.end_wait_for(index);
        true
    }

    /// The files of a parcel that the kernel does not know: their directories come in another parcel, or came without
    /// attributes.
    #[must_use]
    pub fn unknown_files(&self, chunks: &[ParcelChunk<B>]) -> Vec<ViewPath> {
        let mut files: Vec<ViewPath> = chunks.iter().map(|chunk| chunk.file.clone()).collect();
        files.dedup();
        files.retain(|file| self.inodes.id_of(file).is_none());
        files
    }

    /// The inodes whose pages a parcel's chunks belong to: `None` for what the kernel does not know, or has read already.
    #[must_use]
    pub fn inodes_to_fill(&self, chunks: &[ParcelChunk<B>]) -> Vec<Option<InodeId>> {
        let inode = |chunk: &ParcelChunk<B>| {
            let inode = self.inodes.id_of(&chunk.file)?;
            let is_same = self.inodes.get(inode)?.generation == chunk.generation;
            let is_taken = match self.objects.peek(&chunk.key()) {
                Some(Object::Chunk(kept)) => kept.is_taken(),
                _ => false,
            };
            (is_same && !is_taken && !self.is_being_read(&chunk.key())).then_some(inode)
        };
        chunks.iter().map(inode).collect()
    }

    /// A parcel has been dealt with; these chunks are in the kernel's cache now. Only who reads for others keeps them: the
    /// others get the same parcel, and seldom ask.
    pub fn handle_parcel_stored(&mut self, now: Time, index: u32, filled: &[ParcelChunk<B>]) {
        self.now = now;
        for chunk in filled {
            let key = chunk.key();
            if !self.reads_for_others(&key) && !self.is_pinned(&key) {
                self.objects.remove(&key);
            }
        }
        self.counters.parcels += 1;
        self.counters.prefilled += filled.len() as u64;
        self.parcels.failed_in_a_row = 0;
        self.parcels.under_way.remove(&index);
        self.ask_parcels();
    }

    /// The chunks of a parcel that are kept here. What they share memory with may be gone.
    #[must_use]
    pub fn kept_chunks(&self, chunks: Vec<ParcelChunk<B>>) -> Vec<ParcelChunk<B>> {
        chunks.into_iter().filter(|chunk| self.objects.contains(&chunk.key())).collect()
    }

    /// The same chunks in memory of their own.
    pub fn handle_chunks_copied(&mut self, copies: Vec<ParcelChunk<B>>) {
        for copy in copies {
            let key = copy.key();
            if let Some(Object::Chunk(kept)) = self.objects.peek(&key) {
                let mut own = kept.clone();
                own.body = copy.body;
                self.objects.replace(&key, Object::Chunk(own));
            }
        }
    }

    /// A parcel came whole, but not as it was sent: it is asked for once more, among the next.
    pub fn handle_parcel_spoilt(&mut self, now: Time, index: u32) {
        self.now = now;
        self.objects.remove(&Key::Parcel { index });
        self.parcel_failed(index, Errno::WAY_LOST);
    }

    /// The kernel is not filled any more.
    pub(super) fn end_parcels(&mut self) {
        self.parcels.is_wanted = false;
        self.parcels.under_way.clear();
        self.parcels.unopened.clear();
        self.parcels.places.clear();
        while let Some((parcel, _)) = self.parcels.waits.first_key_value() {
            self.end_wait_for(*parcel);
        }
        self.objects.remove_where(|key| matches!(key, Key::Parcel { .. }));
        let is_parcel = |key: &Key| matches!(key, Key::Parcel { .. });
        for request in self.requests_where(is_parcel) {
            self.end_request(request, Errno::ENODATA);
        }
    }

    /// A parcel's body is whole here, for this node or one that asked for it.
    pub(super) fn parcel_arrived(&mut self, index: u32, body: B) {
        if self.parcels.is_wanted && self.parcels.under_way.contains(&index) {
            self.effects.push_back(Effect::OpenParcel { index, body });
        }
    }

    /// A parcel did not come.
    pub(super) fn parcel_failed(&mut self, index: u32, errno: Errno) {
        if !self.parcels.is_wanted || !self.parcels.under_way.remove(&index) {
            return;
        }
        self.parcels.unopened.remove(&index);
        self.end_wait_for(index);
        if errno == Errno::ENODATA {
            self.parcels.count = Some(self.parcels.count.map_or(index, |known| known.min(index)));
            return;
        }
        self.counters.parcels_failed += 1;
        self.parcels.failed_in_a_row += 1;
        if self.parcels.failed_in_a_row > limits::PARCELS_FAILED_MAX {
            return self.end_parcels();
        }
        match errno {
            // Its bytes got lost, and may be had elsewhere.
            Errno::WAY_LOST => self.ask_parcel(index),
            _ => self.ask_parcels(),
        }
    }

    fn ask_parcels(&mut self) {
        while self.parcels.is_wanted
            && self.parcels.next < self.parcels.count.unwrap_or(limits::PARCELS_MAX)
            && self.parcels.under_way.len() < limits::PARCELS_AHEAD as usize
        {
            let index = self.parcels.next;
            self.parcels.next += 1;
            if !self.parcels.out_of_turn.remove(&index) {
                self.ask_parcel(index);
            }
        }
    }

    /// What the first parcel says about the others.
    pub fn handle_parcel_places(&mut self, places: &[ParcelPlace]) {
        if self.is_prefilling() && self.parcels.places.is_empty() {
            self.parcels.places.extend(places.iter().map(|place| (place.chunk, place.parcel)));
        }
    }

    /// The parcel that will bring a chunk, unless it has come.
    pub(super) fn parcel_to_come(&self, key: &Key) -> Option<u32> {
        self.parcel_of(key).filter(|parcel| self.is_parcel_to_come(*parcel))
    }

    fn parcel_of(&self, key: &Key) -> Option<u32> {
        let Key::Chunk { file, index, .. } = key else { return None };
        self.parcels.places.get(&ParcelPlace::chunk_number(file, *index)).copied()
    }

    /// What the requests for these chunks, which are all that a read needs, have to wait for; `None` if they are to be
    /// asked for now.
    pub(super) fn wait_for_parcels(&mut self, wanted: &[(Key, usize)]) -> Option<Vec<HoldId>> {
        let parcels: Vec<u32> = wanted.iter().map(|(key, _)| self.parcel_to_come(key)).collect::<Option<_>>()?;
        if self.parcels.under_way.len() + parcels.len() > limits::PARCELS_UNDER_WAY_MAX as usize {
            return None;
        }
        Some(parcels.into_iter().map(|parcel| self.wait_for(parcel)).collect())
    }

    fn wait_for(&mut self, parcel: u32) -> HoldId {
        self.ask_out_of_turn(parcel);
        if let Some(wait) = self.parcels.waits.get(&parcel) {
            return wait.hold;
        }
        let (hold, until) = (self.new_hold(), self.now.after(limits::PARCEL_WAIT));
        self.parcels.waits.insert(parcel, Wait { hold, until });
        hold
    }

    /// Somebody wants a chunk now: whoever waits for it waits for no parcel any more.
    pub(super) fn wait_for_no_parcel(&mut self, key: &Key) {
        let waits = self.parcel_of(key).and_then(|parcel| self.parcels.waits.get(&parcel));
        if let (Some(wait), Some(request)) = (waits, self.dispatch.find(key)) {
            let (now, hold) = (self.now, wait.hold);
            self.dispatching(|dispatch| dispatch.release_one(now, request, hold));
        }
    }

    /// A parcel is open, or will not be soon: what waits for it is asked for.
    fn end_wait_for(&mut self, parcel: u32) {
        if let Some(wait) = self.parcels.waits.remove(&parcel) {
            self.let_go(wait.hold);
        }
    }

    pub(super) fn end_long_waits_for_parcels(&mut self) {
        let now = self.now;
        let late: Vec<u32> =
            self.parcels.waits.iter().filter(|(_, wait)| wait.until <= now).map(|(parcel, _)| *parcel).collect();
        late.into_iter().for_each(|parcel| self.end_wait_for(parcel));
    }

    /// Whether a parcel may still bring something.
    fn is_parcel_to_come(&self, index: u32) -> bool {
        let Parcels { is_wanted, next, count, unopened, out_of_turn, .. } = &self.parcels;
        let is_unasked = index >= *next && index < count.unwrap_or(0) && !out_of_turn.contains(&index);
        *is_wanted && (is_unasked || unopened.contains(&index))
    }

    /// Asks for a parcel to come if that has not been done.
    fn ask_out_of_turn(&mut self, index: u32) {
        if !self.parcels.unopened.contains(&index) {
            self.parcels.out_of_turn.insert(index);
            self.ask_parcel(index);
        }
    }

    fn ask_parcel(&mut self, index: u32) {
        let key = Key::Parcel { index };
        self.parcels.under_way.insert(index);
        self.parcels.unopened.insert(index);
        if let Some(Object::Chunk(chunk)) = self.objects.peek(&key) {
            let body = chunk.body.clone();
            return self.effects.push_back(Effect::OpenParcel { index, body });
        }
        if !self.filling.contains_key(&key) {
            let deadline = self.now.after(self.options.deadline);
            let request = ReadMessage::Parcel { index };
            self.ask(key, request, Priority::Prefetch, deadline, Some(Waiter::Prefill(index)));
        }
    }

    /// Whoever waits for the chunk gets it now.
    fn keep_prefilled_chunk(&mut self, chunk: &ParcelChunk<B>) {
        let key = chunk.key();
        if self.has_chunk(&key) {
            return;
        }
        let chunk = Chunk::whole(chunk.body.clone(), &key);
        self.keep_whole_chunk(key.clone(), chunk.clone());
        if let Some(request) = self.dispatch.find(&key)
            && let Some(finished) = self.dispatching(|dispatch| dispatch.finish_request(request))
        {
            self.hand_out(finished.waiters, &chunk);
            self.on_end(request);
        }
    }

    /// Whoever waits for the listing gets it now.
    fn keep_prefilled_listing(&mut self, dir: ViewPath, listing: Listing) {
        let key = Key::Listing { dir };
        if self.objects.contains(&key) {
            return;
        }
        self.keep(&key, Object::Listing(listing.clone()));
        if let Some(request) = self.dispatch.find(&key) {
            let known = Known { listing: Some(listing.clone()), ..Known::default() };
            let finished = self.dispatching(|dispatch| dispatch.finish_request(request));
            self.deliver(finished, known, PeerAnswer::Listing(listing));
        }
    }
}
