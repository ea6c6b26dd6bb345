//! Chunks of large files on the node's own disk, between the memory of a home and the backing file system.
//!
//! Only versions that a listing of this job has named are looked up, so a chunk of a job before is as fresh as one in memory.

use std::sync::Arc;

use anyhow::Context;
use forebay_body::Body;
use forebay_chunk_store::{ChunkKey, Counters};
use forebay_types::{ChunkIndex, Generation, ViewPath, chunk_bytes, limits};

use crate::environment::CachedChunks;
use crate::shared::node::Node;

/// The cache store of a node, if it has one.
pub struct CacheTier(Option<Arc<dyn CachedChunks>>);

/// A chunk that the store may have.
pub struct Cacheable {
    store: Arc<dyn CachedChunks>,
    key: ChunkKey,
    generation: Generation,
    len_bytes: usize,
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
                Ok(Self(None))
            }
            opened => opened.map(Self),
        }
    }

    /// A chunk of this version of a file, if it is of a large one and there is a store.
    pub fn chunk(&self, file: &ViewPath, generation: &Generation, index: ChunkIndex) -> Option<Cacheable> {
        let store = self.0.as_ref().filter(|_| generation.size_bytes > limits::SMALL_FILE_BYTES_MAX)?;
        let key = store.key(file, generation, index)?;
        let len_bytes = chunk_bytes(generation.size_bytes, index);
        (len_bytes > 0).then(|| Cacheable { store: Arc::clone(store), key, generation: *generation, len_bytes })
    }

    /// Its figures, if there is one.
    pub fn counters(&self) -> Option<Counters> {
        self.0.as_ref().map(|store| store.counters())
    }
}

impl Cacheable {
    /// The chunk, if it is kept. May block.
    pub fn get(&self) -> Option<Arc<Body>> {
        self.store.get(&self.key, self.len_bytes)
    }

    /// Keeps it from now on, if there is room. May block.
    pub fn put(self, body: Arc<Body>) {
        self.store.put(self.key, &self.generation, body);
    }
}
