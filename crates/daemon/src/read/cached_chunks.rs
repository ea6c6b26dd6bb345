//! Chunks of large files on the node's own disk, between the memory of a home and the backing file system.
//!
//! Only versions that a listing of this job has named are looked up, so a chunk of a job before is as fresh as one in memory. Of refreshed
//! paths none is believed that was kept before: a refresh shows what is there, also where a file has changed and its version has not.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context;
use forebay_body::Body;
use forebay_chunk_store::{ChunkKey, Counters};
use forebay_types::{ChunkIndex, Generation, ViewPath, chunk_bytes, limits};

use crate::environment::CachedChunks;
use crate::shared::node::Node;

/// Refreshed paths that are remembered. With more, all are taken for refreshed.
const REFRESHED_MAX: usize = 256;

/// Chunks of them that are remembered as read anew. Others are read from the backing file system each time.
const RENEWED_MAX: usize = 1 << 20;

/// The cache store of a node, if it has one.
pub struct CacheTier {
    store: Option<Arc<dyn CachedChunks>>,
    refreshed: Arc<Mutex<Refreshed>>,
}

/// The paths that were refreshed in this daemon's life, and what has been kept of them since.
#[derive(Default)]
struct Refreshed {
    number: u64,
    paths: Vec<ViewPath>,
    renewed: HashSet<ChunkKey>,
}

/// A chunk that the store may have.
pub struct Cacheable {
    store: Arc<dyn CachedChunks>,
    key: ChunkKey,
    generation: Generation,
    len_bytes: usize,
    /// Whether a kept one is from before a refresh.
    is_distrusted: bool,
    /// Whether that is gone.
    is_forgotten: bool,
    refreshed: Arc<Mutex<Refreshed>>,
    refreshes: u64,
}

impl CacheTier {
    /// Opens the store that the node's options name. A daemon that goes on where another ended goes on without, if need be.
    ///
    /// # Errors
    /// When there can be none, at the start of a node.
    pub fn open(node: &Node) -> anyhow::Result<Self> {
        let opened = node.environment.open_cache_store(&node.options, &node.pool).context("--cache-store");
        match opened {
            Err(error) if !node.options.kept.is_first() => {
                tracing::warn!("{error:#}; this daemon goes on without");
                Ok(Self { store: None, refreshed: Arc::default() })
            }
            opened => opened.map(|store| Self { store, refreshed: Arc::default() }),
        }
    }

    /// Chunks that are kept of these paths, and below them, are not believed any more.
    pub fn distrust(&self, paths: &[ViewPath]) {
        if self.store.is_none() {
            return;
        }
        let mut refreshed = lock(&self.refreshed);
        refreshed.number += 1;
        refreshed.renewed.clear();
        for path in paths {
            if !refreshed.paths.contains(path) {
                refreshed.paths.push(path.clone());
            }
        }
        if refreshed.paths.len() > REFRESHED_MAX {
            refreshed.paths = vec![ViewPath::root()];
        }
    }

    /// A chunk of this version of a file, if it is of a large one and there is a store.
    pub fn chunk(&self, file: &ViewPath, generation: &Generation, index: ChunkIndex) -> Option<Cacheable> {
        let store = self.store.as_ref().filter(|_| generation.size_bytes > limits::SMALL_FILE_BYTES_MAX)?;
        let key = store.key(file, generation, index)?;
        let len_bytes = chunk_bytes(generation.size_bytes, index);
        let refreshed = lock(&self.refreshed);
        let is_distrusted = refreshed.has(file) && !refreshed.renewed.contains(&key);
        (len_bytes > 0).then(|| Cacheable {
            store: Arc::clone(store),
            key,
            generation: *generation,
            len_bytes,
            is_distrusted,
            is_forgotten: false,
            refreshed: Arc::clone(&self.refreshed),
            refreshes: refreshed.number,
        })
    }

    /// Its figures, if there is one.
    pub fn counters(&self) -> Option<(Counters, u64)> {
        self.store.as_ref().map(|store| (store.counters(), store.unsettled()))
    }
}

impl Cacheable {
    /// The chunk, if it is kept. May block.
    pub fn get(&mut self) -> Option<Arc<Body>> {
        if self.is_distrusted {
            self.is_forgotten = self.store.forget(&self.key);
            return None;
        }
        self.store.get(&self.key, self.len_bytes)
    }

    /// Keeps it from now on, if there is room. May block.
    pub fn put(self, body: Arc<Body>) {
        {
            let mut refreshed = lock(&self.refreshed);
            if refreshed.number != self.refreshes {
                // Read before that refresh, perhaps.
                return;
            }
            if self.is_forgotten && refreshed.renewed.len() < RENEWED_MAX {
                refreshed.renewed.insert(self.key);
            }
        }
        self.store.put(self.key, &self.generation, body);
    }
}

impl Refreshed {
    fn has(&self, file: &ViewPath) -> bool {
        self.paths.iter().any(|path| file.is_within(path))
    }
}

/// A panic ends the process, so a poisoned lock is never seen.
fn lock(refreshed: &Mutex<Refreshed>) -> MutexGuard<'_, Refreshed> {
    refreshed.lock().unwrap_or_else(PoisonError::into_inner)
}
