//! What is carried to a source at the moment, to be cancelled or promoted.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay_node::AttemptId;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use crate::shared::node::Node;

/// By the core's number of each.
#[derive(Default)]
pub struct Fetches(Mutex<HashMap<AttemptId, Fetch>>);

struct Fetch {
    task: AbortHandle,
    /// Told when a program waits for what was asked of another node ahead.
    promote: Option<oneshot::Sender<()>>,
}

impl Fetches {
    /// Starts one that can be cancelled. The lock is held until it is in the table, which it leaves when it ends.
    pub fn start(
        self: &Arc<Self>,
        node: &Node,
        call: AttemptId,
        promote: Option<oneshot::Sender<()>>,
        fetch: impl Future<Output = ()> + Send + 'static,
    ) {
        let at = Arc::clone(self);
        let mut fetches = self.table();
        let task = node.spawn(async move {
            fetch.await;
            at.table().remove(&call);
        });
        fetches.insert(call, Fetch { task: task.abort_handle(), promote });
    }

    /// A program waits for what is asked of another node. Who is not found here has ended, or finds it in the core.
    pub fn promote(&self, call: AttemptId) {
        let promote = self.table().get_mut(&call).and_then(|fetch| fetch.promote.take());
        if let Some(promote) = promote {
            // Whoever would be told has its answer.
            let _ = promote.send(());
        }
    }

    /// Ends one that nobody waits for any more.
    pub fn cancel(&self, call: AttemptId) {
        if let Some(fetch) = self.table().remove(&call) {
            fetch.task.abort();
        }
    }

    /// A panic ends the process, so a poisoned lock is never seen.
    fn table(&self) -> MutexGuard<'_, HashMap<AttemptId, Fetch>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
