//! The tasks of an endpoint, so that none outlives it.

use std::sync::Mutex;

use tokio::runtime::Handle;
use tokio::task::{AbortHandle, JoinSet};

use crate::life::Life;
use crate::lock::lock;

/// The tasks of an endpoint.
pub(crate) struct Tasks {
    runtime: Handle,
    /// The life that they are part of, where nodes are simulated.
    life: Option<Life>,
    set: Mutex<Option<JoinSet<()>>>,
}

impl Tasks {
    pub(crate) fn new(life: Option<Life>) -> Self {
        Self { runtime: Handle::current(), life, set: Mutex::new(Some(JoinSet::new())) }
    }

    /// Starts a task; `None` when the endpoint is shutting down and the task was dropped instead.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> Option<AbortHandle> {
        let mut set = lock(&self.set);
        let set = set.as_mut()?;
        while set.try_join_next().is_some() {}
        Some(match &self.life {
            None => set.spawn_on(task, &self.runtime),
            Some(life) => {
                let gated = life.gate(task);
                set.spawn_on(async { gated.await.unwrap_or(()) }, &self.runtime)
            }
        })
    }

    /// No task starts any more; the caller ends those that run.
    pub(crate) fn close(&self) -> Option<JoinSet<()>> {
        lock(&self.set).take()
    }
}
