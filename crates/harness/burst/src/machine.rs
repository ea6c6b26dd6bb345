//! A daemon's machine: threads that take turns, a clock that the turns move, and no exports but the burst tier's directory.

use std::any::Any;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use forebay_body::Body;
use forebay_daemon::BackingPool;
use forebay_daemon::environment::{BackingThreads, Environment, Exports, Operation, Room, Walker};
use forebay_store::{Counters, StoreOptions};
use forebay_transport::life::Life;
use forebay_types::{ChunkIndex, Errno, FileSystem, Generation, Name, ViewPath};
use forebay_wire::{EntryRecord, Listing};
use tokio::runtime::Handle;

use crate::turns;

/// See the module.
pub struct Machine {
    pub life: Life,
    /// Calls that may block are in its context.
    pub runtime: Handle,
}

impl Environment for Machine {
    fn life(&self) -> Option<Life> {
        Some(self.life.clone())
    }

    fn block(&self, operation: Operation) {
        let runtime = self.runtime.clone();
        std::thread::spawn(move || {
            let _in = runtime.enter();
            operation();
        });
    }

    fn backing_threads(&self, limit: usize) -> Arc<dyn BackingThreads> {
        Arc::new(BackingPool::new(limit))
    }

    fn open_exports(&self, _: StoreOptions) -> anyhow::Result<Arc<dyn Exports>> {
        Ok(Arc::new(NoExports))
    }

    fn start_walker(&self, _: &Path) -> std::io::Result<Arc<dyn Walker>> {
        Err(std::io::ErrorKind::Unsupported.into())
    }

    fn is_being_killed(&self, _: u32) -> bool {
        false
    }

    fn memory(&self) -> Option<Room> {
        None
    }

    fn unix_time(&self) -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }

    fn since_boot(&self) -> Duration {
        Duration::from_nanos(turns::look_at_clock())
    }
}

/// An empty view: nobody looks at it.
struct NoExports;

impl Exports for NoExports {
    fn listing(&self, _: &ViewPath) -> Result<Listing, Errno> {
        Err(Errno::ENOENT)
    }

    fn page(&self, _: &ViewPath, names: &[Name]) -> Result<Vec<Option<EntryRecord>>, Errno> {
        Ok(vec![None; names.len()])
    }

    fn lookup(&self, _: &ViewPath, _: &Name) -> Result<Option<EntryRecord>, Errno> {
        Ok(None)
    }

    fn file_system(&self, _: &ViewPath) -> Result<FileSystem, Errno> {
        Err(Errno::ENOENT)
    }

    fn read_chunk(
        &self,
        _: &ViewPath,
        _: &Generation,
        _: ChunkIndex,
        _: &mut dyn FnMut(Arc<Body>),
    ) -> Result<(), Errno> {
        Err(Errno::ESTALE)
    }

    fn forget(&self) -> Box<dyn Any + Send> {
        Box::new(())
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }
}
