//! Recording: what the programs of a node use while they start, in the order of first use.
//!
//! It ends by itself, after a time and with a number of bytes: what a program reads for hours is its input, and not its
//! start-up.

use std::hash::BuildHasher;

use forebay_types::{Hasher, Map, Time, chunk_bytes, limits};
use forebay_wire::Use;

use super::ReadPath;
use crate::{KernelAnswer, KernelRequest, KernelTicket};

/// What was used so far.
#[derive(Default)]
pub(super) struct Recording {
    is_on: bool,
    /// While something is asked that no program asks.
    is_paused: bool,
    since: Option<Time>,
    uses: Vec<Use>,
    /// The hashes of all uses, which every node keeps: two that share one are taken for the same, once in an age.
    known: Map<u64, ()>,
    bytes: u64,
}

impl Recording {
    pub fn note(&mut self, now: Time, used: impl FnOnce() -> Use) {
        if !self.is_on || self.is_paused {
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

impl<B: Clone> ReadPath<B> {
    /// Begins to record.
    pub fn start_recording(&mut self) {
        self.recording.is_on = true;
    }

    /// Takes a request of the process that looks at the view for this node: as a program's, but it is no use.
    pub fn handle_walker(
        &mut self,
        now: Time,
        ticket: KernelTicket,
        request: KernelRequest,
    ) -> Option<KernelAnswer<B>> {
        self.recording.is_paused = true;
        let answer = self.handle_kernel(now, ticket, request);
        self.recording.is_paused = false;
        answer
    }

    /// How many uses were recorded.
    #[must_use]
    pub fn recorded_count(&self) -> usize {
        self.recording.uses.len()
    }

    /// What was used so far.
    #[must_use]
    pub fn recorded(&self) -> Vec<Use> {
        self.recording.uses.clone()
    }
}
