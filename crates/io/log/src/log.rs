//! The log that is open: its state under one short lock, and the two threads that work for it.
//!
//! The lock is held for reservations and accounts, never for a system call. One thread commits for all (`commit`), one makes
//! and removes segments (`segments`). The first error of the device ends the log: every later append and commit gets it, all
//! waiters are woken, and durable records stay readable.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use forebay_latency::Register;
use forebay_types::{Errno, LogPosition};
use forebay_wire::log_record::{LogIdentity, Sequence};

use crate::descriptors::Descriptors;
use crate::directory::Directory;
use crate::store::Store;
use crate::tail::{Completion, Segment, Tail};
use crate::usage::Usage;
use crate::{LogError, StoreError, limits};

/// A node's log, open for appends. Dropping it commits nothing; what was not committed is found again unless the power goes.
pub struct Log {
    pub(crate) shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// Room and contents of a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Space {
    /// The room that the store may take on its disk, whole segments, bytes.
    pub capacity_bytes: u64,
    /// Segments that hold records or whose place on the disk is not free yet, bytes.
    pub used_bytes: u64,
    /// Contents of data records that are not released, bytes.
    pub live_bytes: u64,
    /// Of `used_bytes`, what only notes keep: a checkpoint frees it.
    pub kept_by_notes_bytes: u64,
}

pub(crate) struct Shared {
    pub directory: Directory,
    pub identity: LogIdentity,
    pub segment_bytes: u32,
    /// For whole segments.
    pub capacity_bytes: u64,
    pub descriptors: Descriptors,
    pub state: Mutex<State>,
    /// Held by who writes a checkpoint: one after the other.
    pub checkpoint: Mutex<Sequence>,
    /// Something became durable, a segment became ready or cannot be had, or the log failed.
    pub progress: Condvar,
    /// There may be something to commit.
    pub commit_wanted: Condvar,
    /// A segment may be wanted, or some may be removed.
    pub segment_wanted: Condvar,
    /// How long appends and syncs take.
    pub latencies: Register,
}

pub(crate) struct State {
    pub tail: Tail,
    pub completion: Completion,
    pub usage: Usage,
    /// All records below it are on stable storage.
    pub durable: Sequence,
    /// The end of the records for whose commit a caller waits.
    pub commit_up_to: Sequence,
    /// How many threads have come to wait for a commit since the last one.
    pub commit_waiters: usize,
    /// For how many the next sync waits a little.
    pub gathered_waiters: usize,
    /// Contents reserved since the log's last automatic commit, bytes.
    pub uncommitted_bytes: u64,
    /// Sealed segments that are not synced whole, with what is behind their last record.
    pub unsynced: Vec<(Arc<Segment>, Sequence)>,
    /// Empty segments.
    pub ready: VecDeque<Arc<Segment>>,
    /// The room on the disk of segments with records, and of those that are ready, or about to be made or removed.
    pub disk_bytes: u64,
    pub next_segment: u64,
    /// How often an empty segment was missed, and of the first how many of those times it is known that there is none.
    pub asked: u64,
    pub refused: u64,
    /// The last try to make a segment found no room.
    pub is_disk_full: bool,
    pub failed: Option<Errno>,
    pub is_ending: bool,
}

impl State {
    pub fn new(tail: Tail, durable: Sequence, usage: Usage, disk_bytes: u64, next_segment: u64) -> Self {
        Self {
            tail,
            completion: Completion::new(durable),
            usage,
            durable,
            commit_up_to: durable,
            commit_waiters: 0,
            gathered_waiters: 0,
            uncommitted_bytes: 0,
            unsynced: Vec::new(),
            ready: VecDeque::new(),
            disk_bytes,
            next_segment,
            asked: 0,
            refused: 0,
            is_disk_full: false,
            failed: None,
            is_ending: false,
        }
    }

    pub fn check(&self) -> Result<(), LogError> {
        self.failed.map_or(Ok(()), |errno| Err(LogError::Failed(errno)))
    }
}

impl Shared {
    pub fn new(store: Store, state: State, checkpoint: Sequence) -> Self {
        Self {
            identity: store.head.identity,
            segment_bytes: store.head.segment_bytes,
            capacity_bytes: store.capacity_bytes,
            directory: store.directory,
            descriptors: Descriptors::default(),
            state: Mutex::new(state),
            checkpoint: Mutex::new(checkpoint),
            progress: Condvar::new(),
            commit_wanted: Condvar::new(),
            segment_wanted: Condvar::new(),
            latencies: Register::default(),
        }
    }

    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn wait<'a>(&self, condition: &Condvar, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        condition.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    pub fn wait_for<'a>(
        &self,
        condition: &Condvar,
        state: MutexGuard<'a, State>,
        limit: Duration,
    ) -> MutexGuard<'a, State> {
        condition.wait_timeout(state, limit).unwrap_or_else(PoisonError::into_inner).0
    }

    /// The device failed: nothing more is taken. The first error stays.
    pub fn fail(&self, errno: Errno) -> LogError {
        let mut state = self.lock();
        let is_first = state.failed.is_none();
        let errno = *state.failed.get_or_insert(errno);
        drop(state);
        if is_first {
            let why = if errno == Errno::ESTALE { "it was removed or moved away" } else { "its device failed" };
            tracing::error!(store = %self.directory.path().display(), %errno, "the store takes nothing more: {why}");
        }
        self.wake_all();
        LogError::Failed(errno)
    }

    /// Has removed what is freed, and committed what must be durable before more is.
    pub fn free(&self, state: &mut State) {
        if let Some(awaited) = state.usage.awaited().filter(|awaited| *awaited > state.commit_up_to) {
            state.commit_up_to = awaited;
            self.commit_wanted.notify_one();
        }
        if state.usage.has_freed() || state.refused < state.asked {
            self.segment_wanted.notify_one();
        }
    }

    fn wake_all(&self) {
        self.progress.notify_all();
        self.commit_wanted.notify_all();
        self.segment_wanted.notify_all();
    }
}

impl Log {
    /// A log without the threads that work for it.
    pub(crate) fn new(shared: Shared) -> Self {
        Self { shared: Arc::new(shared), threads: Mutex::default() }
    }

    /// Has a thread work until the log ends.
    pub(crate) fn employ(&self, name: &str, work: fn(&Shared)) -> Result<(), StoreError> {
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || work(&shared));
        let failed = |error| StoreError::io("start a thread for", self.shared.directory.path(), error);
        self.threads().push(thread.map_err(failed)?);
        Ok(())
    }

    /// The place behind the last record that was appended: `commit(log.end())` commits everything.
    #[must_use]
    pub fn end(&self) -> Sequence {
        self.shared.lock().tail.next()
    }

    /// Everything below is on stable storage.
    #[must_use]
    pub fn durable(&self) -> Sequence {
        self.shared.lock().durable
    }

    /// Where the store is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.shared.directory.path()
    }

    /// The longest contents of one record, bytes.
    #[must_use]
    pub fn contents_bytes_max(&self) -> u32 {
        limits::contents_bytes_max(self.shared.segment_bytes)
    }

    /// `bytes` of the contents of the data record at `position` are not needed any more: they were overwritten, removed, or
    /// have landed, by something that was appended before. Its segment is freed when nothing in it is needed and all
    /// that was appended before this call is durable.
    ///
    /// # Errors
    /// `NotLive` for more than is live in the segment: nothing is released.
    pub fn release(&self, position: LogPosition, bytes: u64) -> Result<(), LogError> {
        let mut state = self.shared.lock();
        let (next, durable) = (state.tail.next(), state.durable);
        state.usage.release(position, bytes, next, durable)?;
        self.shared.free(&mut state);
        Ok(())
    }

    /// Contents of data records that are not released, bytes by segment.
    #[must_use]
    pub fn live_by_segment(&self) -> Vec<(u64, u64)> {
        self.shared.lock().usage.live_by_segment()
    }

    /// Whether data of so many bytes are appended without waiting, in records that are much shorter than a segment.
    #[must_use]
    pub fn has_room(&self, bytes: u64) -> bool {
        let state = self.shared.lock();
        match state.ready.len().checked_sub(limits::NOTE_SEGMENTS) {
            None => false,
            Some(0) => state.tail.room_bytes() >= bytes,
            Some(_) => true,
        }
    }

    /// How long appends and syncs take that succeed, and those under way.
    #[must_use]
    pub fn latencies(&self) -> &Register {
        &self.shared.latencies
    }

    /// How full the store is.
    #[must_use]
    pub fn space(&self) -> Space {
        let state = self.shared.lock();
        Space {
            capacity_bytes: self.shared.capacity_bytes,
            used_bytes: state.disk_bytes - state.ready.len() as u64 * u64::from(self.shared.segment_bytes),
            live_bytes: state.usage.live_bytes(),
            kept_by_notes_bytes: state.usage.kept_by_notes_bytes(),
        }
    }

    /// Ends the log and removes the store with all that it holds; the caller knows that none of it is needed. Its blocks
    /// are given back to the file system, not written over.
    ///
    /// # Errors
    /// `Io` when a file cannot be removed; the rest is gone.
    pub fn wipe(&self) -> Result<(), StoreError> {
        self.end_threads();
        self.shared.directory.remove()
    }

    fn threads(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end_threads(&self) {
        self.shared.lock().is_ending = true;
        self.shared.wake_all();
        for thread in self.threads().drain(..) {
            // It cannot have panicked: that ends the process.
            let _ = thread.join();
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.end_threads();
    }
}
