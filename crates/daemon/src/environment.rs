//! A daemon's environment: its threads, the exports, the processes and the memory of its machine.
//!
//! Everything above decides or ties together, and is the same wherever it runs: on a `Machine` (`crate::machine`), or in a simulated job, in
//! virtual time. Time itself is tokio's, which a simulated job sets; connections are the transport's, which has a network
//! within the process; the kernel is at the other end of a FUSE session, whoever that is.

use std::any::Any;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use forebay_body::{Body, Pool};
use forebay_chunk_store::{ChunkKey, Counters as CacheStoreCounters};
use forebay_store::{Counters, StoreOptions};
use forebay_transport::life::Life;
use forebay_types::{CHUNK_BYTES, ChunkIndex, Errno, Extent, FileSystem, Generation, Name, Priority, ViewPath};
use forebay_wire::{EntryRecord, Listing};
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::Notify;

use crate::options::DaemonOptions;

pub use forebay_read::AttemptId;
pub use forebay_schedule::Class;

/// Work for a thread; may block.
pub type Operation = Box<dyn FnOnce() + Send>;

/// A call on the backing file system that has been submitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallNumber(pub u64);

/// The turn of a call on the backing file system: over when it is dropped.
pub type Turn = Box<dyn Any + Send>;

/// Gives the names, in a mount's root, of files of which the kernel may have more than it has sent (`write::settling`).
pub type NamesToSettle<'a> = &'a dyn Fn() -> std::io::Result<Vec<OsString>>;

/// The environment of a daemon.
pub trait Environment: Send + Sync {
    /// The life of the node's tasks, where it is not that of the process.
    fn life(&self) -> Option<Life> {
        None
    }

    /// Has something done that may block, beside everything else.
    fn block(&self, operation: Operation);

    /// The same for what may last. It is dropped where it would take the last threads from what does not.
    fn block_long(&self, operation: Operation) {
        self.block(operation);
    }

    /// Threads that read the exports, for so many operations at once.
    fn backing_threads(&self, limit: usize) -> Arc<dyn BackingThreads>;

    /// The exports. May block.
    ///
    /// # Errors
    /// Which of them cannot be opened, and why.
    fn open_exports(&self, options: StoreOptions) -> anyhow::Result<Arc<dyn Exports>>;

    /// Opens the cache store that the options name. Buffers come from `pool`. May block.
    ///
    /// # Errors
    /// When there can be none.
    fn open_cache_store(
        &self,
        _options: &DaemonOptions,
        _pool: &Pool,
    ) -> anyhow::Result<Option<Arc<dyn CachedChunks>>> {
        Ok(None)
    }

    /// Starts what makes the kernel look at the view.
    ///
    /// # Errors
    /// When there is none.
    fn start_walker(&self, view: &Path) -> std::io::Result<Arc<dyn Walker>>;

    /// Has the kernel send what it has gathered of a mount, within a time, and waits until it has sent what it has of these files in its root.
    /// May block. By another process than the daemon: one that waits for its own answers in the kernel cannot be ended.
    ///
    /// # Errors
    /// When it did not.
    fn flush(&self, _mount: &Path, _files: NamesToSettle<'_>, _time: Duration) -> std::io::Result<()> {
        Ok(())
    }

    /// Whether a task has a signal pending that ends it. One that cannot be seen has none.
    fn is_being_killed(&self, tid: u32) -> bool;

    /// Whether a task has a signal pending that it does not block, as one that was interrupted has.
    fn has_signal(&self, tid: u32) -> bool {
        self.is_being_killed(tid)
    }

    /// The memory that is left under the tightest limit, if any is known.
    fn memory(&self) -> Option<Room>;

    /// The time of day, since 1970.
    fn unix_time(&self) -> Duration;

    /// The time since the machine was started, which goes on while it sleeps.
    fn since_boot(&self) -> Duration {
        since_boot()
    }
}

/// That of this machine.
pub(crate) fn since_boot() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    Duration::new(now.tv_sec.cast_unsigned(), now.tv_nsec as u32)
}

/// The memory under the tightest limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    /// The size of the memory, bytes.
    pub all_bytes: u64,
    /// The part of it that can be had now, bytes.
    pub left_bytes: u64,
}

/// Reads the exports. Everything may block.
pub trait Exports: Send + Sync {
    /// The complete listing of a directory.
    ///
    /// # Errors
    /// As the backing file system gave it; so do all others.
    fn listing(&self, dir: &ViewPath) -> Result<Listing, Errno>;

    /// Records of names in a directory.
    ///
    /// # Errors
    /// See `listing`.
    fn page(&self, dir: &ViewPath, names: &[Name]) -> Result<Vec<Option<EntryRecord>>, Errno>;

    /// The record of one name.
    ///
    /// # Errors
    /// See `listing`.
    fn lookup(&self, dir: &ViewPath, name: &Name) -> Result<Option<EntryRecord>, Errno>;

    /// Sizes of the file system that holds a path.
    ///
    /// # Errors
    /// See `listing`.
    fn file_system(&self, path: &ViewPath) -> Result<FileSystem, Errno>;

    /// Reads a chunk of this version of a file. `started` gets its body once the version has been found.
    ///
    /// # Errors
    /// `ESTALE` where there is another version, else see `listing`. A body that was started has failed with the same error.
    fn read_chunk(
        &self,
        file: &ViewPath,
        generation: &Generation,
        index: ChunkIndex,
        started: &mut dyn FnMut(Arc<Body>),
    ) -> Result<(), Errno>;

    /// Reads bytes of this version of a file, all of which it has; no others, as far as the exports can do that.
    ///
    /// # Errors
    /// As `read_chunk`.
    fn read_at(&self, file: &ViewPath, generation: &Generation, buffer: &mut [u8], offset: u64) -> Result<(), Errno> {
        let mut at = 0;
        while at < buffer.len() {
            let (index, mut found) = (ChunkIndex::of(offset + at as u64), None);
            self.read_chunk(file, generation, index, &mut |body| found = Some(body))?;
            let from = (offset + at as u64 - index.start_bytes()) as usize;
            let len = (buffer.len() - at).min(CHUNK_BYTES as usize - from);
            for slice in found.ok_or(Errno::EIO)?.slices(from, len) {
                buffer.get_mut(at..at + slice.len()).ok_or(Errno::EIO)?.copy_from_slice(&slice);
                at += slice.len();
            }
            if at < buffer.len() && ChunkIndex::of(offset + at as u64) == index {
                return Err(Errno::ESTALE);
            }
        }
        Ok(())
    }

    /// Finds every path anew from now on. Dropping the returned value may block.
    #[must_use = "dropping it may block"]
    fn forget(&self) -> Box<dyn Any + Send>;

    /// Requests so far.
    fn counters(&self) -> Counters;

    /// Errors among them, by kind.
    fn errors_by_kind(&self) -> Vec<(Errno, u64)> {
        vec![]
    }
}

/// Chunks of large files on the node's own disk, from this job and those before it.
pub trait CachedChunks: Send + Sync {
    /// The key of a chunk; `None` of one whose version cannot be told from another for certain.
    fn key(&self, file: &ViewPath, generation: &Generation, index: ChunkIndex) -> Option<ChunkKey>;

    /// A chunk of so many bytes, whole. May block.
    fn get(&self, key: &ChunkKey, len_bytes: usize) -> Option<Arc<Body>>;

    /// Keeps no version of a chunk any more; whether that is so. May block.
    fn forget(&self, key: &ChunkKey) -> bool;

    /// Keeps a whole chunk from now on, if there is room. May block.
    fn put(&self, key: ChunkKey, generation: &Generation, body: Arc<Body>);

    /// The figures so far. Does not block.
    fn counters(&self) -> CacheStoreCounters;

    /// Chunks that were not kept because their files had changed a moment ago.
    fn unsettled(&self) -> u64;
}

/// Threads that carry operations out, as an I/O scheduler lets them begin (`forebay_schedule`).
pub trait BackingThreads: Send + Sync {
    /// Lets `operation` begin when its turn comes.
    fn submit(&self, attempt: AttemptId, priority: Priority, operation: Operation);

    /// A program waits now for what was asked ahead.
    fn promote(&self, attempt: AttemptId);

    /// A caller waits for it no more: if it has not begun, it never does.
    fn withdraw(&self, attempt: AttemptId);

    /// Lets a call begin when its turn comes, on one of the threads.
    ///
    /// # Errors
    /// The call, where it is its turn and there is no thread for it.
    fn call(&self, class: Class, call: Operation) -> Result<CallNumber, Operation>;

    /// A call that has not begun, for who waits for it to make it.
    fn take_back(&self, call: CallNumber) -> Option<Operation>;

    /// Tells those whose calls wait to take them back: they have no threads, or all is over.
    fn look_again(&self) -> &Notify;

    /// Waits until a call may begin that the caller makes itself, as one of the operations at once. A caller that has a
    /// turn asks for no second one. `None` once `is_over`. May block.
    fn take_turn(&self, class: Class, is_over: &dyn Fn() -> bool) -> Option<Turn>;
}

/// The process that looks at the view, so that the kernel learns names.
pub trait Walker: Send + Sync {
    /// Has directories listed and names looked up, and returns when all that is done. May block; one caller at a time.
    ///
    /// # Errors
    /// When it has ended.
    fn walk(&self, listed: &[ViewPath], looked_up: &[ViewPath]) -> std::io::Result<()>;

    /// Has bytes of a file read, all there are. May block; one caller at a time.
    ///
    /// # Errors
    /// When it has ended; within, as the view gives it.
    fn read(&self, file: &ViewPath, extent: Extent) -> std::io::Result<Result<(), Errno>>;

    /// Ends it without waiting, though another thread walks.
    fn end(&self);

    /// By which number the kernel names it in requests.
    fn pid(&self) -> u32;
}
