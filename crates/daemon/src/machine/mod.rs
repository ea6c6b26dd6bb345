//! The machine that a daemon runs on.

mod backing_threads;
mod blocking_threads;
mod cache_store;
mod memory;
mod signals;
mod walker;

use std::any::Any;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use forebay_body::{Body, Pool};
use forebay_store::{Counters, Store, StoreOptions};
use forebay_types::threads::BLOCKING_THREADS;
use forebay_types::{ChunkIndex, Errno, FileSystem, Generation, Name, ViewPath};
use forebay_wire::{EntryRecord, Listing};
use tokio::runtime::Handle;

pub use self::backing_threads::Threads;
use self::blocking_threads::BlockingThreads;
use self::cache_store::CacheStore;
use self::memory::Limits;
pub use self::memory::memory_bytes;
use self::walker::WalkerProcess;
use crate::environment::{BackingThreads, CachedChunks, Environment, Exports, NamesToSettle, Operation, Room, Walker};
use crate::options::DaemonOptions;

/// This machine.
pub struct Machine {
    blocking: BlockingThreads,
    limits: Limits,
}

impl Machine {
    /// As this process sees it. Calls that may block are made in the context of the present runtime.
    ///
    /// # Errors
    /// When threads for such calls cannot be made.
    pub fn here() -> std::io::Result<Arc<Self>> {
        let blocking = BlockingThreads::start(BLOCKING_THREADS, Handle::current())?;
        Ok(Arc::new(Self { blocking, limits: Limits::of_this_process() }))
    }

    /// Begins no call that may block from now on, and waits for those that are under way. False: not in time.
    pub fn end(&self, within: Duration) -> bool {
        self.blocking.end(within)
    }
}

impl Environment for Machine {
    fn block(&self, operation: Operation) {
        self.blocking.submit(operation, false);
    }

    fn block_long(&self, operation: Operation) {
        self.blocking.submit(operation, true);
    }

    fn backing_threads(&self, limit: usize) -> Arc<dyn BackingThreads> {
        Arc::new(Threads::new(limit))
    }

    fn open_exports(&self, options: StoreOptions) -> anyhow::Result<Arc<dyn Exports>> {
        Ok(Arc::new(Store::open(options)?))
    }

    fn open_cache_store(&self, options: &DaemonOptions, pool: &Pool) -> anyhow::Result<Option<Arc<dyn CachedChunks>>> {
        Ok(CacheStore::open(options, pool)?.map(|store| store as _))
    }

    fn start_walker(&self, view: &Path) -> std::io::Result<Arc<dyn Walker>> {
        Ok(Arc::new(WalkerProcess::start(view)?))
    }

    fn flush(&self, mount: &Path, files: NamesToSettle<'_>, time: Duration) -> std::io::Result<()> {
        walker::flush(mount, &files()?, time)
    }

    fn is_being_killed(&self, tid: u32) -> bool {
        signals::is_being_killed(tid)
    }

    fn has_signal(&self, tid: u32) -> bool {
        signals::is_pending(tid)
    }

    fn memory(&self) -> Option<Room> {
        self.limits.room()
    }

    fn unix_time(&self) -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }
}

impl Exports for Store {
    fn listing(&self, dir: &ViewPath) -> Result<Listing, Errno> {
        self.listing(dir)
    }

    fn page(&self, dir: &ViewPath, names: &[Name]) -> Result<Vec<Option<EntryRecord>>, Errno> {
        self.page(dir, names)
    }

    fn lookup(&self, dir: &ViewPath, name: &Name) -> Result<Option<EntryRecord>, Errno> {
        self.lookup(dir, name)
    }

    fn file_system(&self, path: &ViewPath) -> Result<FileSystem, Errno> {
        self.file_system(path)
    }

    fn read_chunk(
        &self,
        file: &ViewPath,
        generation: &Generation,
        index: ChunkIndex,
        started: &mut dyn FnMut(Arc<Body>),
    ) -> Result<(), Errno> {
        self.read_chunk(file, generation, index, started).map(drop)
    }

    fn read_at(&self, file: &ViewPath, generation: &Generation, buffer: &mut [u8], offset: u64) -> Result<(), Errno> {
        self.read_at(file, generation, buffer, offset)
    }

    fn forget(&self) -> Box<dyn Any + Send> {
        Box::new(self.forget())
    }

    fn counters(&self) -> Counters {
        self.counters()
    }

    fn errors_by_kind(&self) -> Vec<(Errno, u64)> {
        Store::errors_by_kind(self)
    }
}
