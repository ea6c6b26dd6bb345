//! Parcels: requested a few at a time, taken apart, and handed to the waiters for their contents.

use forebay_cache::{Key, Object};
use forebay_dispatch::{HoldId, Waiting};
use forebay_types::{Epoch, Errno, Priority, Time, ViewPath};
use forebay_wire::{Listing, ParcelPlace, ReadMessage};

use super::state::ReadPath;
use crate::chunk::{Chunk, chunk_bytes_of};
use crate::effect::{Effect, PeerAnswer};
use crate::inode_id::InodeId;
use crate::names::Known;
use crate::parcels::{AfterFailure, ParcelChunk};
use crate::waiter::{Asker, Waiter};

impl<B: Clone> ReadPath<B> {
    /// Begins to ask for the start-up's contents.
    pub fn start_prefill(&mut self, now: Time) {
        self.now = now;
        if self.refreshes.met() == Epoch::START && self.options.entry_ttl.is_none() {
            self.parcels.want();
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
        self.parcels.are_wanted()
    }

    /// Whether parcels are still to come or to be stored here.
    #[must_use]
    pub fn is_prefilling(&self) -> bool {
        self.parcels.are_coming()
    }

    /// Takes the first parcel's places of chunks in the others.
    pub fn handle_parcel_places(&mut self, places: &[ParcelPlace]) {
        self.parcels.note_places(places);
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
        if !self.parcels.open(index, count) {
            return false;
        }
        for (dir, listing) in listings {
            self.keep_prefilled_listing(dir, listing);
        }
        chunks.iter().for_each(|chunk| self.keep_prefilled_chunk(chunk));
        self.end_wait_for_parcel(index);
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
            let (inode, key) = (self.inodes.id_of(&chunk.file)?, chunk.key());
            let is_same = self.inodes.get(inode)?.generation == chunk.generation;
            (is_same && !self.kept.is_taken(&key) && !self.reads.is_being_read(&key)).then_some(inode)
        };
        chunks.iter().map(inode).collect()
    }

    /// A parcel has been dealt with; these chunks are in the kernel's cache now. Only who reads for others keeps them: the
    /// others get the same parcel, and seldom ask.
    pub fn handle_parcel_stored(&mut self, now: Time, index: u32, filled: &[ParcelChunk<B>]) {
        self.now = now;
        for key in filled.iter().map(ParcelChunk::key) {
            if !self.reads_for_others(&key) && !self.kept.is_pinned(&key) {
                self.kept.remove(&key);
            }
        }
        self.counters.prefilled += filled.len() as u64;
        self.parcels.store(index);
        self.ask_parcels();
    }

    /// The chunks of a parcel that are kept here. The chunks whose memory they share may be gone.
    #[must_use]
    pub fn kept_chunks(&self, chunks: Vec<ParcelChunk<B>>) -> Vec<ParcelChunk<B>> {
        chunks.into_iter().filter(|chunk| self.kept.is_kept(&chunk.key())).collect()
    }

    /// The same chunks in memory of their own.
    pub fn handle_chunks_copied(&mut self, copies: Vec<ParcelChunk<B>>) {
        copies.into_iter().for_each(|copy| self.kept.move_chunk(&copy.key(), copy.body));
    }

    /// A parcel came whole, but not as it was sent: it is asked for once more, among the next.
    pub fn handle_parcel_spoilt(&mut self, now: Time, index: u32) {
        self.now = now;
        self.kept.remove(&Key::Parcel { index });
        self.parcel_failed(index, Errno::WAY_LOST);
    }

    /// The kernel is not filled any more.
    pub(super) fn end_parcels(&mut self) {
        let is_parcel = |key: &Key| matches!(key, Key::Parcel { .. });
        let waited = self.parcels.end();
        waited.into_iter().for_each(|hold| self.let_go(hold));
        self.kept.remove_where(is_parcel);
        for request in self.requests_where(is_parcel) {
            let finished = self.dispatch.finish_request(request);
            self.on_end(request);
            for Waiting { who, .. } in finished.into_iter().flat_map(|finished| finished.waiters) {
                if let Waiter::Peer(Asker { ticket, .. }) = who {
                    self.tell_peer(ticket, PeerAnswer::Failed(Errno::ENODATA));
                }
            }
        }
    }

    /// A parcel's body is whole here, for this node or one that asked for it.
    pub(super) fn parcel_arrived(&mut self, index: u32, body: B) {
        if self.parcels.awaits(index) {
            self.effects.push_back(Effect::OpenParcel { index, body });
        }
    }

    /// A parcel did not come.
    pub(super) fn parcel_failed(&mut self, index: u32, errno: Errno) {
        if !self.parcels.awaits(index) {
            return;
        }
        let after = self.parcels.fail(index, errno);
        self.end_wait_for_parcel(index);
        match after {
            AfterFailure::Nothing => {}
            AfterFailure::AskAgain => {
                self.parcels.ask(index);
                self.ask_parcel(index);
            }
            AfterFailure::AskOthers => self.ask_parcels(),
            AfterFailure::GiveUp => self.end_parcels(),
        }
    }

    /// The holds for requests of these chunks, which are all that a read needs; none if they are to be
    /// requested now.
    pub(super) fn wait_for_parcels(&mut self, missing: &[(usize, Key)]) -> Vec<HoldId> {
        let parcels = self.parcels.parcels_to_wait_for(missing.iter().map(|(_, key)| key)).unwrap_or_default();
        let mut holds = Vec::new();
        for index in parcels {
            if self.parcels.ask_out_of_turn(index) {
                self.ask_parcel(index);
            }
            holds.push(self.parcels.wait_for(self.now, index, || self.dispatch.new_hold()));
        }
        holds
    }

    /// A parcel is open, or will not be: what waits for it is asked for.
    fn end_wait_for_parcel(&mut self, index: u32) {
        if let Some(hold) = self.parcels.end_wait_for(index) {
            self.let_go(hold);
        }
    }

    fn ask_parcels(&mut self) {
        while let Some(index) = self.parcels.next_to_ask() {
            self.ask_parcel(index);
        }
    }

    fn ask_parcel(&mut self, index: u32) {
        let key = Key::Parcel { index };
        if let Some(Object::Chunk(chunk)) = self.kept.peek(&key) {
            let body = chunk.body.clone();
            return self.effects.push_back(Effect::OpenParcel { index, body });
        }
        if !self.kept.has(&key) {
            let (message, deadline) = (ReadMessage::Parcel { index }, self.deadline());
            self.ask(key, message, Priority::Prefetch, deadline, Some(Waiter::Prefill(index)));
        }
    }

    /// Keeps a chunk and hands it to its waiters.
    fn keep_prefilled_chunk(&mut self, chunk: &ParcelChunk<B>) {
        let key = chunk.key();
        if self.kept.has(&key) {
            return;
        }
        let chunk = Chunk::new(chunk.body.clone(), chunk_bytes_of(&key), false);
        self.kept.keep_chunk(self.now, self.dispatch.routing(), key.clone(), chunk.clone());
        if let Some(request) = self.dispatch.find(&key)
            && let Some(finished) = self.dispatch.finish_request(request)
        {
            self.hand_out(&key, finished.waiters, &chunk);
            self.on_end(request);
        }
    }

    /// Keeps a listing and hands it to its waiters.
    fn keep_prefilled_listing(&mut self, dir: ViewPath, listing: Listing) {
        let key = Key::Listing { dir };
        if self.kept.is_kept(&key) {
            return;
        }
        self.kept.keep(self.now, &key, Object::Listing(listing.clone()));
        if let Some(request) = self.dispatch.find(&key) {
            let known = Known { listing: Some(listing.clone()), ..Known::default() };
            let finished = self.dispatch.finish_request(request);
            self.deliver(finished, known, PeerAnswer::Listing(listing));
        }
    }
}
