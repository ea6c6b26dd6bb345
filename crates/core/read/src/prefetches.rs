//! Prefetches, at the node that reads the backing file system. It sees the requests of every node of the job in the
//! directories it is root of, so the first node's accesses lead the others. The habits are learned in `forebay_prefetch`;
//! this module feeds them and acts on them. Every node learns from all that it sees, its own programs' accesses among it,
//! though it may be root of few directories. A habit is one of the program, not of a directory. If a prefetch belongs to
//! another root (a directory in one of its own), that root is asked.

use std::collections::BTreeSet;

use forebay_cache::Key;
use forebay_dispatch::RequestId;
use forebay_prefetch::{Candidate, Habits, suffix_of};
use forebay_types::{ChunkIndex, ViewPath, limits};
use forebay_wire::Listing;

/// Habits, and what is asked because of them.
pub(crate) struct Prefetches {
    is_on: bool,
    habits: Habits,
    /// Requests that nobody wanted when they were asked.
    under_way: BTreeSet<RequestId>,
    /// Requests that were asked before anybody wanted their answers.
    pub issued: u64,
    /// Of these, those that were in demand then.
    pub used: u64,
}

impl Prefetches {
    pub fn new(is_on: bool) -> Self {
        Self { is_on, habits: Habits::default(), under_way: BTreeSet::new(), issued: 0, used: 0 }
    }

    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// Forgets all that was learned.
    pub fn clear(&mut self) {
        self.habits.clear();
    }

    /// Notes a demand for `key`: if it was prefetched, that was not in vain.
    pub fn note_used(&mut self, key: &Key) {
        self.used += u64::from(self.habits.on_used(key));
    }

    /// Notes that a directory is entered. Returns whether it is the first time, so that its listing, if it is here, is news.
    pub fn note_entered(&mut self, dir: &ViewPath, is_reader: bool) -> bool {
        self.habits.on_directory_entered(dir, is_reader)
    }

    /// The listing of a directory is here. Returns whether the directory has been entered.
    pub fn note_listing(&mut self, dir: &ViewPath, listing: &Listing, is_reader: bool) -> bool {
        let is_entered = self.is_on && self.habits.is_entered(dir);
        if is_entered {
            self.habits.on_listing_arrived(dir, listing, is_reader);
        }
        is_entered
    }

    /// Notes a read of the file at `index` of `listing`.
    pub fn note_file(&mut self, dir: &ViewPath, listing: &Listing, index: usize, is_reader: bool) {
        let room = self.habits.on_file_wanted(dir, listing, index);
        if let Some(room) = room.filter(|_| is_reader) {
            self.habits.add_siblings_of(dir, listing, index, room);
        }
    }

    /// Whether files like this one are usually read, most of them.
    pub fn are_read_whole(&self, dir: &ViewPath, name: &[u8]) -> bool {
        self.is_on && self.habits.is_read_whole(dir, suffix_of(name))
    }

    /// The next object to prefetch, if there is room for it.
    pub fn next_candidate(&mut self) -> Option<Key> {
        if self.under_way.len() >= limits::ANTICIPATED_UNDER_WAY {
            return None;
        }
        Some(match self.habits.next_candidate()? {
            Candidate::Listing(dir) => Key::Listing { dir },
            Candidate::File(file, generation) => Key::Chunk { file, generation, index: ChunkIndex(0) },
        })
    }

    /// It is asked for.
    pub fn begin(&mut self, request: RequestId, key: Key) {
        self.under_way.insert(request);
        self.habits.on_issued(key);
        self.issued += 1;
    }

    /// A request has ended; whether it was one of these.
    pub fn end(&mut self, request: RequestId) -> bool {
        self.under_way.remove(&request)
    }
}
