//! A node's own parts of the write path, whoever leads the tree: its log, its way to the backing file system, its clock, and the
//! identities that it gives to files.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forebay_log::Log;
use forebay_store::LandingPlace;
use forebay_types::{Errno, FileId, LogPosition, NodeRank, Timestamp};
use forebay_wire::log_record::RecordData;
use forebay_wire::write::WrittenExtent;
use forebay_wire::write_message::Leadership;
use forebay_write::Copies;
use tokio::time::Instant;

use super::calls::{BackingCalls, MayLand, TooLate};
use super::copying::Copying;
use super::group_commit::GroupCommit;
use super::notes::{Note, StoreTree};
use super::stripes_under_way::UnderWay;
use crate::environment::{Environment, NamesToSettle, Operation};

/// See the module.
pub struct Local {
    pub rank: NodeRank,
    /// The job.
    pub job: String,
    /// The leader, as the log has it.
    leadership: Mutex<Leadership>,
    /// The tree that the log is about, as the log has it.
    tree: Mutex<Option<StoreTree>>,
    /// The log says that this node is to be the leader, or is it no more: the next daemon is.
    is_over: AtomicBool,
    pub log: Log,
    group_commit: Arc<GroupCommit>,
    /// Where a partner copies it.
    pub copying: Option<Copying>,
    /// Its copies of other nodes' records.
    copies: Mutex<Copies>,
    pub place: Arc<LandingPlace>,
    /// In whose turn that is used.
    pub calls: BackingCalls,
    environment: Arc<dyn Environment>,
    next_serial: AtomicU64,
    /// The last record that this daemon has found in the log.
    pub last_record: Option<LogPosition>,
    /// Programs that wait for room in the log.
    pub waiting: AtomicUsize,
    /// When a write was last refused for want of room.
    refused_at: Mutex<Option<Instant>>,
    /// Bytes that programs of this node have written since its daemon began.
    pub written_bytes: AtomicU64,
    /// Stripes that this node has written to the backing file system since its daemon began.
    pub stripes_written: AtomicU64,
    /// Those that it is writing for the leader.
    pub stripes_under_way: UnderWay,
}

/// Of a store's capacity, from which part on what open files have in it is sent ahead, percent.
const FILLING_PERCENT: u64 = 70;

impl Local {
    /// A node that has given serials below `next_serial`, with the last record of its log.
    pub fn new(
        (rank, job, leadership, tree): (NodeRank, String, Leadership, Option<StoreTree>),
        (log, copying, copies): (Log, Option<Copying>, Copies),
        (place, calls): (LandingPlace, BackingCalls),
        environment: Arc<dyn Environment>,
        (next_serial, last_record): (u64, Option<LogPosition>),
    ) -> Self {
        Self {
            rank,
            job,
            leadership: Mutex::new(leadership),
            tree: Mutex::new(tree),
            is_over: AtomicBool::new(false),
            log,
            group_commit: Arc::default(),
            copying,
            copies: Mutex::new(copies),
            place: Arc::new(place),
            calls,
            environment,
            next_serial: AtomicU64::new(next_serial),
            last_record,
            waiting: AtomicUsize::new(0),
            refused_at: Mutex::default(),
            written_bytes: AtomicU64::new(0),
            stripes_written: AtomicU64::new(0),
            stripes_under_way: UnderWay::default(),
        }
    }

    /// A call of landing on the directory where the tree lands.
    ///
    /// # Errors
    /// As `BackingCalls::land`.
    pub async fn land<T, E>(&self, call: impl FnOnce(&LandingPlace) -> Result<T, E> + Send + 'static) -> Result<T, E>
    where
        T: Send + 'static,
        E: TooLate + Send + 'static,
    {
        let place = Arc::clone(&self.place);
        self.calls.land(move || call(&place)).await
    }

    /// So many of them in one turn.
    ///
    /// # Errors
    /// As `BackingCalls::land_together`.
    pub async fn land_together<T: Send + 'static>(
        &self,
        calls: u64,
        make: impl FnOnce(&LandingPlace, &MayLand) -> Result<T, Errno> + Send + 'static,
    ) -> Result<T, Errno> {
        let place = Arc::clone(&self.place);
        self.calls.land_together(calls, move |may_land| make(&place, may_land)).await
    }

    /// The log's copies of other nodes' records.
    pub fn copies(&self) -> MutexGuard<'_, Copies> {
        self.copies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the log fills, so that open files are to make room.
    pub fn is_filling(&self) -> bool {
        let space = self.log.space();
        self.waiting.load(Ordering::Relaxed) > 0 || space.live_bytes * 100 >= space.capacity_bytes * FILLING_PERCENT
    }

    /// A write is refused for want of room.
    pub fn note_refusal(&self) {
        *self.refused_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// How long ago the last one was.
    pub fn refused_ago(&self) -> Option<Duration> {
        self.refused_at.lock().unwrap_or_else(PoisonError::into_inner).map(|at| at.elapsed())
    }

    /// Has the kernel send what it has gathered of a mount, within a time.
    ///
    /// # Errors
    /// When it did not.
    pub fn flush(&self, mount: &Path, files: NamesToSettle<'_>, time: Duration) -> std::io::Result<()> {
        self.environment.flush(mount, files, time)
    }

    /// Has something done that may block, on a thread of the pool.
    pub fn block(&self, operation: Operation) {
        self.environment.block(operation);
    }

    /// Whether a signal is about to reach a program's thread.
    pub fn has_signal(&self, tid: u32) -> bool {
        self.environment.has_signal(tid)
    }

    /// The time since 1970.
    pub fn unix_time(&self) -> Duration {
        self.environment.unix_time()
    }

    /// The time of day.
    pub fn now(&self) -> Timestamp {
        let now = self.unix_time();
        Timestamp { seconds: now.as_secs().cast_signed(), nanos: now.subsec_nanos() }
    }

    /// An identity that no file has had.
    pub fn new_file(&self) -> FileId {
        FileId { creator: self.rank, serial: self.next_serial.fetch_add(1, Ordering::Relaxed) }
    }

    /// Above all identities that were given.
    pub fn next_serial(&self) -> u64 {
        self.next_serial.load(Ordering::Relaxed)
    }

    /// Files of this node have had identities below `next`.
    pub fn raise_serial(&self, next: u64) {
        self.next_serial.fetch_max(next, Ordering::Relaxed);
    }

    /// Appends what was written to a file, which the partner copies or not: at a place of the file, or at its end, from where the extent's
    /// offset counts then.
    ///
    /// # Errors
    /// ENOSPC, EIO.
    pub fn append(&self, of: RecordData, bytes: &[u8]) -> Result<WrittenExtent, Errno> {
        let (offset, is_copied) = match of {
            RecordData::Written { offset, is_copied, .. } => (offset, is_copied),
            RecordData::Appended { is_copied, .. } => (0, is_copied),
            RecordData::Copy { .. } => return Err(Errno::EINVAL),
        };
        let appended = self.log.append_data(of, bytes).map_err(forebay_log::LogError::errno)?;
        self.written_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        if let Some(copying) = self.copying.as_ref().filter(|_| is_copied && !bytes.is_empty()) {
            copying.note(appended.position, bytes.len() as u32);
        }
        Ok(WrittenExtent { offset, len: bytes.len() as u64, node: self.rank, position: appended.position, skip: 0 })
    }

    /// Contents of the node's own log.
    ///
    /// # Errors
    /// EIO where they cannot be had, ESTALE where the record is gone: the tree has other contents by now, or will know soon that a loss
    /// of power has taken them.
    pub fn read(&self, position: LogPosition, skip: u32, into: &mut [u8]) -> Result<(), Errno> {
        self.log.read(position, skip, into).map_err(|error| match error {
            forebay_log::LogError::Absent(_) => Errno::ESTALE,
            error => {
                tracing::error!(%error, "written bytes cannot be read");
                Errno::EIO
            }
        })
    }

    /// Reads what the node's own log has of extents that lie one after the other in `into`.
    ///
    /// # Errors
    /// As `read`.
    pub fn gather_own(&self, extents: &[WrittenExtent], into: &mut [u8]) -> Result<(), Errno> {
        let mut rest = into;
        for extent in extents {
            let (of_extent, after) = rest.split_at_mut(extent.len as usize);
            if extent.node == self.rank {
                self.read(extent.position, extent.skip, of_extent)?;
            }
            rest = after;
        }
        Ok(())
    }

    /// The leader, as the log has it.
    pub fn leadership(&self) -> Leadership {
        *self.leadership.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes down who leads the tree from now on. Where this node is to be the leader, or was it, what this daemon knows is over, and
    /// no checkpoint is made of it any more.
    ///
    /// # Errors
    /// EIO, ENOSPC.
    pub fn note_leadership(&self, new: Leadership) -> Result<(), forebay_log::LogError> {
        {
            let mut leadership = self.leadership.lock().unwrap_or_else(PoisonError::into_inner);
            if *leadership < new {
                if (leadership.leader == self.rank) != (new.leader == self.rank) {
                    self.is_over.store(true, Ordering::SeqCst);
                }
                self.log.append_note(&Note::leadership(new))?;
                *leadership = new;
            }
        }
        // Also what another call has appended: that one may not have come so far.
        self.log.commit(self.log.end())
    }

    /// The tree that the log is about, as the log has it.
    pub fn tree(&self) -> Option<StoreTree> {
        *self.tree.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the programs of a mount have been served from the log.
    pub fn has_served(&self, mount_made_at_ms: u64) -> bool {
        self.tree().is_some_and(|tree| tree.mount_made_at_ms == mount_made_at_ms)
    }

    /// The tree's number.
    pub fn tree_number(&self) -> Option<u64> {
        self.tree().map(|tree| tree.number)
    }

    /// Writes down which tree the log is about from now on.
    ///
    /// # Errors
    /// EIO, ENOSPC.
    pub fn note_tree(&self, tree: StoreTree) -> Result<(), Errno> {
        let mut known = self.tree.lock().unwrap_or_else(PoisonError::into_inner);
        if *known != Some(tree) {
            self.log.append_note(&Note::tree(tree)).map_err(forebay_log::LogError::errno)?;
            *known = Some(tree);
        }
        Ok(())
    }

    /// Whether what this daemon knows of the tree is over.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// Everything that was written or changed here survives the loss of power.
    ///
    /// # Errors
    /// EIO.
    pub fn make_durable(&self) -> Result<(), Errno> {
        self.log.commit(self.log.end()).map_err(forebay_log::LogError::errno)
    }

    /// The same for a task, by one thread for all that wait.
    ///
    /// # Errors
    /// EIO.
    pub async fn make_durable_for_all(self: &Arc<Self>) -> Result<(), Errno> {
        if self.log.durable() >= self.log.end() {
            return Ok(());
        }
        let local = Arc::clone(self);
        self.group_commit.commit(move || local.make_durable(), |operation| self.block(operation)).await
    }
}

/// The directory of the backing file system that a tree lands in.
///
/// # Errors
/// The reason that it cannot be used.
pub fn landing_place(backing: &Path) -> anyhow::Result<LandingPlace> {
    use anyhow::Context;
    LandingPlace::open(backing)
        .map_err(|errno| anyhow::anyhow!("{}: {errno}", backing.display()))
        .context("cannot use the directory where the burst tier lands")
}
