//! The cache store of one life of a node: the store itself, on a disk in memory that outlives the node's daemons and loses power with it.

use std::path::Path;
use std::sync::Arc;

use forebay_body::{Body, Pool};
use forebay_chunk_store::{ChunkKey, ChunkName, ChunkStore, Counters, MemoryDisk};
use forebay_daemon::environment::CachedChunks;
use forebay_transport::life::Life;
use forebay_types::{ChunkIndex, Generation, ViewPath};

use crate::reached::Reach;
use crate::world::World;

/// The capacity of a store: a part of what a job's programs read.
const CAPACITY_BYTES: u64 = 6 << 20;

/// The size of its disk.
const DISK_BYTES: u64 = 64 << 20;

/// A store in use.
pub(crate) struct VirtualStore {
    world: Arc<World>,
    life: Life,
    store: Arc<ChunkStore>,
}

/// A disk with nothing on it.
pub(crate) fn empty_disk() -> MemoryDisk {
    MemoryDisk::new(DISK_BYTES)
}

impl VirtualStore {
    pub fn open(world: &Arc<World>, life: &Life, disk: &MemoryDisk, pool: &Pool) -> anyhow::Result<Self> {
        let store = ChunkStore::open(Box::new(disk.clone()), CAPACITY_BYTES, pool.clone(), Path::new("/cache"))?;
        Ok(Self { world: Arc::clone(world), life: life.clone(), store: Arc::new(store) })
    }
}

impl CachedChunks for VirtualStore {
    fn key(&self, file: &ViewPath, generation: &Generation, index: ChunkIndex) -> Option<ChunkKey> {
        Some(ChunkKey::new(&ChunkName { file_system: "sim", file, generation, index }))
    }

    fn get(&self, key: &ChunkKey, len_bytes: usize) -> Option<Arc<Body>> {
        let found = self.store.get(key, len_bytes);
        if found.is_some() {
            self.world.note_reached(Reach::CachedChunk);
        }
        found
    }

    fn forget(&self, key: &ChunkKey) -> bool {
        self.store.forget(key)
    }

    fn put(&self, key: ChunkKey, _: &Generation, body: Arc<Body>) {
        let (store, latency) = (Arc::clone(&self.store), self.world.latency());
        tokio::spawn(self.life.gate(async move {
            tokio::time::sleep(latency).await;
            store.put(&key, &body);
            store.tend();
        }));
    }

    fn counters(&self) -> Counters {
        self.store.recent_counters()
    }

    fn unsettled(&self) -> u64 {
        0
    }
}
