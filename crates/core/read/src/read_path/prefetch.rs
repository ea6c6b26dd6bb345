//! Demands of programs, and the prefetches that follow from them.

use forebay_cache::Key;
use forebay_dispatch::RequestId;
use forebay_types::{ChunkIndex, Priority, Time, ViewPath};
use forebay_wire::Listing;

use super::state::ReadPath;

impl<B: Clone> ReadPath<B> {
    /// Notes a demand for `key`, whether it is here or not.
    pub(super) fn note_wanted(&mut self, key: &Key) {
        if !self.prefetches.is_on() {
            return;
        }
        self.prefetches.note_used(key);
        let is_reader = self.reads_for_others(key);
        match key {
            Key::Listing { dir } => {
                // One that was prefetched has arrived before it was entered.
                if self.prefetches.note_entered(dir, is_reader)
                    && let Some(listing) = self.kept.peek_listing(dir)
                {
                    self.prefetches.note_listing(dir, listing, is_reader);
                }
            }
            Key::Chunk { file, index: ChunkIndex(0), .. } => {
                if let Some((dir, name)) = file.split()
                    && let Some(listing) = self.kept.peek_listing(&dir)
                    && let Some(index) = listing.find(name)
                {
                    self.prefetches.note_file(&dir, listing, index, is_reader);
                }
            }
            _ => return,
        }
        if is_reader {
            self.prefetch_candidates();
        }
    }

    /// A listing has arrived; if something in it was wanted, those that usually follow it are asked for.
    pub(super) fn note_listing(&mut self, dir: &ViewPath, listing: &Listing) {
        let is_reader = self.reads_for_others(&Key::Listing { dir: dir.clone() });
        if self.prefetches.note_listing(dir, listing, is_reader) {
            self.prefetch_candidates();
        }
    }

    /// Asks for as much as there is room for.
    pub(super) fn prefetch_candidates(&mut self) {
        let deadline = self.deadline();
        while let Some(key) = self.prefetches.next_candidate() {
            if !self.routing().is_direct(&key)
                && let Some(request) = self.prefetch(&key, deadline)
            {
                self.prefetches.begin(request, key);
            }
        }
    }

    /// Asks for what nobody waits for yet, unless it is here or will come anyway. The number of the request.
    pub(super) fn prefetch(&mut self, key: &Key, deadline: Time) -> Option<RequestId> {
        let is_coming = self.dispatch.find(key).is_some() || self.parcels.parcel_to_come(key).is_some();
        if is_coming || self.kept.has(key) {
            return None;
        }
        self.ask(key.clone(), key.message()?, Priority::Prefetch, deadline, None)
    }
}
