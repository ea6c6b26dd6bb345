//! Calls of the owner that may block, for its own threads and for tasks.
//!
//! Another node's request is a task: it has a thread of the daemon's pool only while such a call lasts. Calls on the backing file system have a
//! part of the pool, so that a backing file system that hangs leaves the rest to requests that need this node's own disk alone.

use std::sync::Arc;

use forebay_types::Errno;
use forebay_types::threads::OWNER_BACKING_THREADS_MAX;
use tokio::sync::Semaphore;

use super::owner::Owner;

/// Where a call is made.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum On {
    /// On the present thread, which may block.
    ThisThread,
    /// On a thread of the pool, while the task waits.
    Pool,
}

/// The part of the pool that may wait for the backing file system.
pub struct BackingPart(Arc<Semaphore>);

impl Default for BackingPart {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(OWNER_BACKING_THREADS_MAX)))
    }
}

impl Owner {
    /// The result of a call.
    ///
    /// # Errors
    /// EIO where the daemon ends.
    pub(super) async fn call<T: Send + 'static>(
        &self,
        on: On,
        call: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Result<T, Errno> {
        if on == On::ThisThread {
            return Ok(call(self));
        }
        let owner = self.own.upgrade().ok_or(Errno::EIO)?;
        self.nodes.block(move || call(&owner)).await.ok_or(Errno::EIO)
    }

    /// The same with a call on the backing file system.
    ///
    /// # Errors
    /// As `call`.
    pub async fn call_backing<T: Send + 'static>(
        &self,
        on: On,
        call: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Result<T, Errno> {
        if on == On::ThisThread {
            return Ok(call(self));
        }
        let part = Arc::clone(&self.backing_part.0).acquire_owned().await.map_err(|_| Errno::EIO)?;
        let call = move |owner: &Self| {
            let called = call(owner);
            drop(part);
            called
        };
        self.call(on, call).await
    }
}
