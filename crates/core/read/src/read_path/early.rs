//! Asking early, at the node that reads the backing file system: it sees what every node of the job wants in the directories
//! it is root of, so the first node's accesses lead the others. The habits are learned in `forebay_prefetch`; here is when they
//! are told and acted on. Every node learns from all that it sees, its own programs' accesses among it, though it may be
//! root of few directories: a habit is one of the program, not of a directory. What a root wishes for may belong to another
//! root (a directory in one of its own); then it is asked of that one, who reads it early.

use forebay_cache::{Key, Object};
use forebay_dispatch::RequestId;
use forebay_types::{ChunkIndex, Priority, Time, ViewPath, limits};
use forebay_wire::Listing;

use super::ReadPath;
use forebay_prefetch::Candidate;

impl<B: Clone> ReadPath<B> {
    /// Somebody wants `key`, whether it is here or not.
    pub(super) fn note_wanted(&mut self, key: &Key) {
        if !self.options.prefetch {
            return;
        }
        self.note_used(key);
        let is_reader = self.reads_for_others(key);
        match key {
            Key::Listing { dir } => {
                // One that was asked for early has arrived before it was entered.
                if self.habits.on_directory_entered(dir, is_reader)
                    && let Some(Object::Listing(listing)) = self.objects.peek(key)
                {
                    let listing = listing.clone();
                    self.habits.on_listing_arrived(dir, &listing, is_reader);
                }
            }
            Key::Chunk { file, index: ChunkIndex(0), .. } => self.note_file(file, is_reader),
            _ => return,
        }
        if is_reader {
            self.ask_early();
        }
    }

    /// Somebody wants `key`: if it was asked for early, that was not in vain.
    pub(super) fn note_used(&mut self, key: &Key) {
        self.counters.prefetch_used += u64::from(self.habits.on_used(key));
    }

    /// A listing has arrived; if something in it was wanted, those that usually follow it are asked for.
    pub(super) fn note_listing(&mut self, dir: &ViewPath, listing: &Listing) {
        if self.options.prefetch && self.habits.is_entered(dir) {
            let is_reader = self.reads_for_others(&Key::Listing { dir: dir.clone() });
            self.habits.on_listing_arrived(dir, listing, is_reader);
            self.ask_early();
        }
    }

    /// An early request has ended: the next may be asked.
    pub(super) fn note_ended(&mut self, request: RequestId) {
        if self.early.remove(&request) {
            self.ask_early();
        }
    }

    /// Asks for what nobody waits for yet, unless it is here or will come anyway. The number of the request.
    pub(super) fn prefetch(&mut self, key: &Key, deadline: Time) -> Option<RequestId> {
        let is_coming = self.dispatch.find(key).is_some() || self.parcel_to_come(key).is_some();
        if is_coming || self.has_chunk(key) {
            return None;
        }
        self.ask(key.clone(), key.message()?, Priority::Prefetch, deadline, None)
    }

    fn note_file(&mut self, file: &ViewPath, is_reader: bool) {
        let Some((dir, name)) = file.split() else { return };
        if let Some(Object::Listing(listing)) = self.objects.peek(&Key::Listing { dir: dir.clone() })
            && let Some(index) = listing.find(name)
        {
            let listing = listing.clone();
            let room = self.habits.on_file_wanted(&dir, &listing, index);
            if let Some(room) = room.filter(|_| is_reader) {
                self.habits.add_siblings_of(&dir, &listing, index, room);
            }
        }
    }

    fn ask_early(&mut self) {
        let deadline = self.now.after(self.options.deadline);
        while self.early.len() < limits::ANTICIPATED_UNDER_WAY {
            let Some(candidate) = self.habits.next_candidate() else { return };
            let key = match candidate {
                Candidate::Listing(dir) => Key::Listing { dir },
                Candidate::File(file, generation) => Key::Chunk { file, generation, index: ChunkIndex(0) },
            };
            if self.routing().is_direct(&key) {
                continue;
            }
            if let Some(request) = self.prefetch(&key, deadline) {
                self.early.insert(request);
                self.habits.on_issued(key);
                self.counters.prefetch_issued += 1;
            }
        }
    }
}
