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

    /// Waits until all of these have ended, once waits are over (`end`). May block.
    pub fn wait_for_tasks(&self) {
        let tasks = std::mem::take(&mut *self.tasks());
        self.wait_for(async {
            for task in tasks {
                if task.await.is_err_and(|error| error.is_panic()) {
                    tracing::error!("a task that keeps the burst tree safe panicked");
                }
            }
        });
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
