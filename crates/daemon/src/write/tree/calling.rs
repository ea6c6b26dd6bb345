//! Calls of the leader that may block.
//!
//! A request is a task. Another node's has a thread of the daemon's pool only while such a call lasts; one of this node's programs is gone on with
//! by threads that may wait for the node's own disk (`forebay_fuse`), as landing is (`pool_task`), and needs one for other calls. Calls on the backing file system have a
//! part of the pool, so that a backing file system that hangs leaves the rest to requests that need this node's own disk alone.

use std::sync::Arc;

use forebay_types::Errno;
use forebay_types::threads::LEADER_BACKING_THREADS_MAX;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Where a call is made.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum On {
    /// On a thread of the pool, while the task waits.
    Pool,
    /// On the thread that goes on with a task of this node, which may wait for the node's own disk; for anything else as `Pool`.
    Task,
}

/// The part of the pool that may wait for the backing file system.
pub struct BackingPart(Arc<Semaphore>);

impl Default for BackingPart {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(LEADER_BACKING_THREADS_MAX)))
    }
}

impl BackingPart {
    /// One of its threads.
    ///
    /// # Errors
    /// EIO where there are none any more.
    pub async fn take(&self) -> Result<OwnedSemaphorePermit, Errno> {
        Arc::clone(&self.0).acquire_owned().await.map_err(|_| Errno::EIO)
    }
}
