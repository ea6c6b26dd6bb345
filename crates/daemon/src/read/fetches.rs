//! Fetches that are carried to a source at the moment, to be cancelled or promoted.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay_read::AttemptId;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use crate::shared::node::Node;

/// By the core's numbers of the attempts that each is for.
#[derive(Default)]
pub struct Fetches(Mutex<HashMap<AttemptId, Arc<Fetch>>>);

struct Fetch {
    task: AbortHandle,
    /// Told when a program waits for what was asked of another node ahead.
    promote: Mutex<Option<oneshot::Sender<()>>>,
}

impl Fetches {
    /// Starts one that can be cancelled. The lock is held until it is in the table, which it leaves when it ends.
    pub fn start(
        self: &Arc<Self>,
        node: &Node,
        calls: Vec<AttemptId>,
        promote: Option<oneshot::Sender<()>>,
        fetch: impl Future<Output = ()> + Send + 'static,
    ) {
        let at = Arc::clone(self);
        let mut fetches = lock(&self.0);
        let asked = calls.clone();
        let task = node.spawn(async move {
            fetch.await;
            let mut fetches = lock(&at.0);
            asked.iter().for_each(|call| drop(fetches.remove(call)));
        });
        let fetch = Arc::new(Fetch { task: task.abort_handle(), promote: Mutex::new(promote) });
        fetches.extend(calls.into_iter().map(|call| (call, Arc::clone(&fetch))));
    }

    /// A program waits for a fetch from another node. One that is not found here has ended, or finds it in the core.
    pub fn promote(&self, call: AttemptId) {
        let promote = lock(&self.0).get(&call).and_then(|fetch| lock(&fetch.promote).take());
        if let Some(promote) = promote {
            // A fetch that has ended has its answer.
            let _ = promote.send(());
        }
    }

    /// Ends one whose attempts nobody waits for any more.
    pub fn cancel(&self, call: AttemptId) {
        let mut fetches = lock(&self.0);
        if let Some(last) = fetches.remove(&call).and_then(Arc::into_inner) {
            last.task.abort();
        }
    }
}

/// A panic ends the process, so a poisoned lock is never seen.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
