//! The machine of one life of a node: what its daemon stands on in virtual time.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use forebay_body::Pool;
use forebay_chunk_store::MemoryDisk;
use forebay_daemon::DaemonOptions;
use forebay_daemon::environment::{BackingThreads, CachedChunks, Environment, Exports, Operation, Room, Walker};
use forebay_store::StoreOptions;
use forebay_transport::life::Life;

use crate::NodeIndex;
use crate::cache_store::VirtualStore;
use crate::exports::NodeExports;
use crate::kernel::Kernel;
use crate::threads::{Begins, VirtualThreads};
use crate::world::World;

/// When jobs begin, since 1970.
const EPOCH: Duration = Duration::from_secs(1_700_000_000);

/// A machine.
pub(crate) struct VirtualMachine {
    pub world: Arc<World>,
    /// The node, and which of its lives.
    pub place: (NodeIndex, u32),
    pub life: Life,
    pub kernel: Arc<Kernel>,
    pub direct_above_bytes: Option<u64>,
    /// The disk of its cache store, if it has one.
    pub disk: Option<MemoryDisk>,
    /// Makes what is told of every operation at the backing file system.
    pub begins: Box<dyn Fn() -> Begins + Send + Sync>,
}

impl Environment for VirtualMachine {
    fn life(&self) -> Option<Life> {
        Some(self.life.clone())
    }

    fn block(&self, operation: Operation) {
        tokio::spawn(self.life.gate(async move { operation() }));
    }

    fn backing_threads(&self, limit: usize) -> Arc<dyn BackingThreads> {
        Arc::new(VirtualThreads::new(&self.world, &self.life, limit, (self.begins)()))
    }

    fn open_exports(&self, _: StoreOptions) -> anyhow::Result<Arc<dyn Exports>> {
        Ok(Arc::new(NodeExports::new(&self.world, self.place, &self.life, self.direct_above_bytes)))
    }

    fn open_cache_store(&self, _: &DaemonOptions, pool: &Pool) -> anyhow::Result<Option<Arc<dyn CachedChunks>>> {
        let Some(disk) = &self.disk else { return Ok(None) };
        Ok(Some(Arc::new(VirtualStore::open(&self.world, &self.life, disk, pool)?)))
    }

    /// There are no other processes.
    fn start_walker(&self, _: &Path) -> std::io::Result<Arc<dyn Walker>> {
        Err(std::io::ErrorKind::Unsupported.into())
    }

    fn is_being_killed(&self, tid: u32) -> bool {
        self.kernel.is_seen_being_killed(tid)
    }

    /// There is always enough: what a node keeps depends on its budget alone.
    fn memory(&self) -> Option<Room> {
        None
    }

    fn unix_time(&self) -> Duration {
        let set_back = self.world.state().set_back.get(&self.place.0).copied().unwrap_or_default();
        EPOCH + Duration::from_nanos(self.world.now().0) - set_back
    }
}
