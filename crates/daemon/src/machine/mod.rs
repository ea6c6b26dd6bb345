//! The machine that a daemon runs on.

mod backing_threads;
mod memory;
mod signals;
mod walker;

use std::any::Any;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use forebay_body::Body;
use forebay_store::{Counters, Store, StoreOptions};
use forebay_types::{ChunkIndex, Errno, FileSystem, Generation, Name, ViewPath};
use forebay_wire::{EntryRecord, Listing};
use tokio::runtime::Handle;

pub use self::backing_threads::Threads;
use self::memory::Limits;
pub use self::memory::memory_bytes;
use self::walker::WalkerProcess;
use crate::environment::{BackingThreads, Environment, Exports, NamesToSettle, Operation, Room, Walker};

/// This machine.
pub struct Machine {
    runtime: Handle,
    limits: Limits,
}

impl Machine {
    /// As this process sees it, with the threads of the runtime that it is in.
    pub fn here() -> Arc<Self> {
        Arc::new(Self { runtime: Handle::current(), limits: Limits::of_this_process() })
    }
}

impl Environment for Machine {
    fn block(&self, operation: Operation) {
        self.runtime.spawn_blocking(operation);
    }

    fn backing_threads(&self, limit: usize) -> Arc<dyn BackingThreads> {
        Arc::new(Threads::new(limit))
    }

    fn open_exports(&self, options: StoreOptions) -> anyhow::Result<Arc<dyn Exports>> {
        Ok(Arc::new(Store::open(options)?))
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

    fn forget(&self) -> Box<dyn Any + Send> {
        Box::new(self.forget())
    }

    fn counters(&self) -> Counters {
        self.counters()
    }
}
