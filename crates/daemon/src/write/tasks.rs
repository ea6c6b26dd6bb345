//! Tasks of a node that go on until all is over (`Nodes::end`).

use std::sync::{MutexGuard, PoisonError};

use tokio::task::JoinHandle;

use super::remote::{Nodes, TIMEOUT};

impl Nodes {
    /// Has a task done beside the others, which ends when all is over.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let task = self.calls.spawn(Box::pin(task));
        self.tasks().push(task);
    }

    /// Waits until all of these have ended, once waits are over (`end`).
    pub async fn until_tasks_end(&self) {
        loop {
            // One of them may begin others.
            let last = self.tasks().pop();
            let Some(task) = last else { return };
            if task.await.is_err_and(|error| error.is_panic()) {
                tracing::error!("a task of the burst tier panicked");
            }
        }
    }

    /// Until all is over.
    pub async fn until_end(&self) {
        while !self.is_ending() {
            self.calls.pause(TIMEOUT).await;
        }
    }

    fn tasks(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
