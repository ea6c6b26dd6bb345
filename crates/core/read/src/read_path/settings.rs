//! Settings and state for a user or the daemon: the budget, pins, counts, bypassed nodes.

use forebay_cache::{Key, KindCounters, ObjectKind};
use forebay_dispatch::AttemptId;
use forebay_types::{Epoch, Errno, Generation, Kind, NodeRank, Priority, Time, ViewPath};
use forebay_wire::Use;

use super::state::{Counters, ReadPath};
use crate::effect::StaleInode;
use crate::explain::{Explanation, explain};
use crate::inode_id::InodeId;
use crate::ledger::{InodeLedger, LedgerContents};

impl<B: Clone> ReadPath<B> {
    /// Goes on with the inodes that a daemon before this one told the kernel of, and writes down all from now on. Before
    /// the first request.
    pub fn keep_inodes(&mut self, ledger: Box<dyn InodeLedger>, contents: LedgerContents) {
        self.inodes.keep(ledger, contents);
    }

    /// A node answered that it is there, and up to which refresh it has forgotten, or did not answer.
    pub fn handle_ping(&mut self, now: Time, peer: NodeRank, alive_in: Option<Epoch>) {
        self.now = now;
        self.dispatch.pinged(now, peer, alive_in.is_some());
        if let Some(epoch) = alive_in {
            self.handle_epoch(now, epoch);
        }
    }

    /// Whether this node asks its parent whether it is there while nothing is asked of it; from the start it does.
    pub fn set_heartbeat(&mut self, is_on: bool) {
        self.dispatch.set_heartbeat(is_on);
    }

    /// A node does not answer while the job starts: it is bypassed until it does.
    pub fn handle_absent(&mut self, now: Time, peer: NodeRank) {
        self.dispatch.absent(now, peer);
    }

    /// The nodes that are bypassed, in order of rank.
    #[must_use]
    pub fn suspects(&self) -> Vec<NodeRank> {
        self.dispatch.detector().suspects()
    }

    /// The nodes that take far longer than others for chunks, and in whose place others are asked, in order of rank.
    #[must_use]
    pub fn slow_nodes(&self, now: Time) -> Vec<NodeRank> {
        self.dispatch.left_alone(now)
    }

    /// The path of an inode that the kernel knows.
    #[must_use]
    pub fn path_of(&self, inode: InodeId) -> Option<&ViewPath> {
        self.inodes.get(inode).map(|inode| &inode.path)
    }

    /// The key of an attempt, unless its answer has begun.
    #[must_use]
    pub fn key_of(&self, attempt: AttemptId) -> Option<&Key> {
        self.dispatch.asked(attempt)
    }

    /// A request's priority now, by the number of an attempt whose answer has not begun.
    #[must_use]
    pub fn priority_of(&self, attempt: AttemptId) -> Option<Priority> {
        self.dispatch.priority_of(attempt)
    }

    /// Drops all that is kept, pins included. The kernel is to be told of the inodes returned, in this order.
    pub fn clear(&mut self) -> Vec<StaleInode> {
        self.end_parcels();
        self.kept.clear();
        self.prefetches.clear();
        let stale = self.inodes.make_stale();
        self.name_stale(stale)
    }

    /// Keeps what is read at or below `path` from now on, and what is kept of it now, until `clear`. Once more it pins
    /// what has come since.
    ///
    /// # Errors
    /// `ENOSPC` when too many paths are pinned.
    pub fn pin(&mut self, path: ViewPath) -> Result<(), Errno> {
        self.kept.pin(path)
    }

    /// Counts since the start.
    #[must_use]
    pub fn counters(&self) -> Counters {
        Counters {
            dispatch: self.dispatch.counters(),
            prefetch_issued: self.prefetches.issued,
            prefetch_used: self.prefetches.used,
            parcels: self.parcels.stored_count,
            parcels_failed: self.parcels.failed_count,
            ..self.counters
        }
    }

    /// Counts of what is kept.
    #[must_use]
    pub fn kept(&self, kind: ObjectKind) -> KindCounters {
        self.kept.counters(kind)
    }

    /// Bytes kept, of the budget.
    #[must_use]
    pub fn kept_bytes(&self) -> u64 {
        self.kept.bytes()
    }

    /// Bytes that may be kept: the budget, or less while memory is scarce.
    #[must_use]
    pub fn allowed_bytes(&self) -> u64 {
        self.kept.allowed_bytes
    }

    /// Bytes of these that are taken otherwise (`set_aside`).
    #[must_use]
    pub fn aside_bytes(&self) -> u64 {
        self.kept.aside_bytes
    }

    /// Lets the caches keep so much from now on.
    pub fn allow_bytes(&mut self, bytes: u64) {
        self.kept.allow_bytes(bytes);
    }

    /// Bytes beside what is kept that count against the same budget: chunks that are held though they are not kept any
    /// more. At least a quarter stays for what is kept.
    pub fn set_aside(&mut self, bytes: u64) {
        self.kept.set_aside(bytes);
    }

    /// Requests that have no answer yet, and chunks that are not whole yet.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.dispatch.under_way_count() + self.kept.filling().count()
    }

    /// Number of inodes that the kernel knows of.
    #[must_use]
    pub fn inode_count(&self) -> usize {
        self.inodes.len()
    }

    /// Begins to record what programs use.
    pub fn start_recording(&mut self) {
        self.recording.start();
    }

    /// Uses from now on are no start-up's, until `release_recording`.
    pub fn hold_recording(&mut self) {
        self.recording.hold();
    }

    /// Ends one `hold_recording`.
    pub fn release_recording(&mut self) {
        self.recording.release();
    }

    /// How many uses were recorded.
    #[must_use]
    pub fn recorded_count(&self) -> usize {
        self.recording.uses().len()
    }

    /// The uses so far.
    #[must_use]
    pub fn recorded(&self) -> Vec<Use> {
        self.recording.uses().to_vec()
    }

    /// The version of a file that the listing kept here says, and how many of its chunks are kept. Looks at all that is kept.
    #[must_use]
    pub fn kept_of(&self, file: &ViewPath) -> Option<(Generation, u64)> {
        let (dir, name) = file.split()?;
        let listing = self.kept.peek_listing(&dir)?;
        let attributes = listing.entry(listing.find(name)?).attributes?;
        let generation = (attributes.kind() == Kind::File).then(|| attributes.generation())?;
        let is_of_file = |key: &Key| match key {
            Key::Chunk { file: other, generation: version, .. } => other == file && *version == generation,
            _ => false,
        };
        Some((generation, self.kept.count_chunks(is_of_file) as u64))
    }

    /// Explains where an answer about `path` would come from; changes nothing and counts nothing.
    #[must_use]
    pub fn explain(&self, path: &ViewPath) -> Explanation {
        explain(self.now, &self.kept, &self.dispatch, path)
    }
}
