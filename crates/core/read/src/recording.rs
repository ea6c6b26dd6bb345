//! Recording: what the programs of a node use while they start, in the order of first use.
//!
//! It ends automatically, after a time and with a number of bytes: a file that a program reads for hours is its input,
//! and not its start-up.

use std::hash::BuildHasher;

use forebay_types::{Hasher, Map, Time, chunk_bytes, limits};
use forebay_wire::Use;

/// The uses so far.
#[derive(Default)]
pub(crate) struct Recording {
    is_on: bool,
    /// While something is asked that no program asks.
    is_paused: bool,
    /// Commands that use the view now as no start-up does.
    holds_count: usize,
    since: Option<Time>,
    uses: Vec<Use>,
    /// The hashes of all uses, which every node keeps: two that share one are taken for the same, once in an age.
    known: Map<u64, ()>,
    bytes: u64,
}

impl Recording {
    pub fn start(&mut self) {
        self.is_on = true;
    }

    /// Excludes the next uses, while `is_paused`: they are no program's.
    pub fn pause(&mut self, is_paused: bool) {
        self.is_paused = is_paused;
    }

    /// Uses from now on are no start-up's, until it is released as often.
    pub fn hold(&mut self) {
        self.holds_count += 1;
    }

    pub fn release(&mut self) {
        self.holds_count = self.holds_count.saturating_sub(1);
    }

    pub fn uses(&self) -> &[Use] {
        &self.uses
    }

    pub fn note(&mut self, now: Time, used: impl FnOnce() -> Use) {
        if !self.is_on || self.is_paused || self.holds_count > 0 {
            return;
        }
        let since = *self.since.get_or_insert(now);
        if now.since(since) > limits::START_UP_LONGEST || self.uses.len() >= limits::PROFILE_USES_MAX {
            self.is_on = false;
            self.known = Map::default();
            return;
        }
        let used = used();
        let bytes = match &used {
            Use::Chunk { generation, index, .. } => chunk_bytes(generation.size_bytes, *index) as u64,
            _ => 0,
        };
        let hash = Hasher::default().hash_one(&used);
        if self.bytes + bytes <= limits::START_UP_BYTES_MAX && self.known.insert(hash, ()).is_none() {
            self.bytes += bytes;
            self.uses.push(used);
        }
    }
}
