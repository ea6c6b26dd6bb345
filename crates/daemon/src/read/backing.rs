//! The reader of the backing file system: opened when it is first needed.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use anyhow::Context;
use forebay_latency::Register;
use forebay_store::{Counters, StoreOptions};
use forebay_types::Errno;

use super::timed_exports::TimedExports;
use crate::environment::{BackingThreads, Exports};
use crate::options::DaemonOptions;
use crate::shared::node::Node;

/// The exports, as this node reads them itself.
pub struct Backing {
    node: Arc<Node>,
    /// On which it is read.
    pub threads: Arc<dyn BackingThreads>,
    /// How long its calls take.
    pub latencies: Arc<Register>,
    store: OnceLock<Arc<dyn Exports>>,
    /// Why the exports could not be opened the last time. Held by whoever opens them.
    not_opened: Mutex<String>,
}

impl Backing {
    /// Roots open their exports now, so that a wrong one is told at the start; other nodes open them when they first read
    /// the backing file system themselves.
    pub fn new(node: &Arc<Node>) -> anyhow::Result<Arc<Self>> {
        let backing = Self {
            node: Arc::clone(node),
            threads: node.environment.backing_threads(node.options.backing_concurrency),
            latencies: Arc::default(),
            store: OnceLock::new(),
            not_opened: Mutex::default(),
        };
        // A daemon that goes on where another ended must answer, and within its deadlines, whatever its exports do now.
        if node.forest.is_root(node.rank()) && node.options.kept.is_first() {
            let _ = backing.store.set(backing.open()?);
        }
        Ok(Arc::new(backing))
    }

    fn open(&self) -> anyhow::Result<Arc<dyn Exports>> {
        let options = &self.node.options;
        let options = StoreOptions {
            exports: options.exports.clone(),
            others_enter: options.allow_other,
            listing_entries_full: options.listing_entries_full,
            descriptors: forebay_store::limits::BACKING_DESCRIPTORS,
            operations_max: options.backing_concurrency,
            read_bytes: options.store_read_bytes(),
            pool: self.node.pool.clone(),
            hidden: hidden(options),
        };
        let exports = self.node.environment.open_exports(options).context("opening the exports")?;
        Ok(Arc::new(TimedExports { exports, latencies: Arc::clone(&self.latencies) }))
    }

    /// It, opened at its first use. Exports that are not there now may be at the next. May block.
    pub fn store(&self) -> Option<&dyn Exports> {
        if let Some(store) = self.store.get() {
            return Some(&**store);
        }
        let mut not_opened = self.not_opened.lock().unwrap_or_else(PoisonError::into_inner);
        if self.store.get().is_none() {
            match self.open().map_err(|error| format!("{error:#}")) {
                Ok(store) => drop(self.store.set(store)),
                // Once for each reason, not for each request.
                Err(why) if why != *not_opened => {
                    tracing::error!("{why}");
                    *not_opened = why;
                }
                Err(_) => {}
            }
        }
        self.store.get().map(|store| &**store)
    }

    /// The same, to be held.
    pub fn shared_store(&self) -> Option<Arc<dyn Exports>> {
        self.store()?;
        self.store.get().map(Arc::clone)
    }

    /// Requests to the backing file system so far.
    pub fn counters(&self) -> Counters {
        self.store.get().map(|store| store.counters()).unwrap_or_default()
    }

    /// Errors among them, by kind.
    pub fn errors_by_kind(&self) -> Vec<(Errno, u64)> {
        self.store.get().map(|store| store.errors_by_kind()).unwrap_or_default()
    }

    /// Lets it find every path anew. Closing blocks where the backing file system hangs.
    pub fn forget_descriptors(&self) {
        if let Some(store) = self.store.get() {
            let forgotten = store.forget();
            drop(self.node.block(move || drop(forgotten)));
        }
    }
}

/// Paths that are never shown: Forebay's own places, and the directory that the burst tier lands in. That is seen
/// through the burst mount, and not as it was at some time.
fn hidden(options: &DaemonOptions) -> Vec<std::path::PathBuf> {
    let burst = options.burst.iter().flat_map(|burst| {
        let backing = burst.backing.canonicalize().unwrap_or_else(|_| burst.backing.clone());
        [backing, burst.store.clone()]
    });
    let cache = options.cache_store.iter().map(|cache| cache.directory.clone());
    [options.view.clone(), options.job_directory.clone()].into_iter().chain(burst).chain(cache).collect()
}
