//! Making the log durable for requests, of programs and of other nodes: one thread does so for all that wait.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay_types::Errno;
use tokio::sync::oneshot;

use super::local::Local;
use super::remote::Nodes;

/// See the module.
#[derive(Default)]
pub struct GroupCommit(Mutex<State>);

#[derive(Default)]
struct State {
    /// Those whose turn is next.
    waiting: Vec<oneshot::Sender<Result<(), Errno>>>,
    is_running: bool,
}

impl GroupCommit {
    /// All bytes and changes that this node's log has by now survive the loss of power.
    ///
    /// # Errors
    /// EIO.
    pub async fn make_durable(self: &Arc<Self>, local: &Arc<Local>, nodes: &Nodes) -> Result<(), Errno> {
        if local.log.durable() >= local.log.end() {
            return Ok(());
        }
        let (done, outcome) = oneshot::channel();
        let is_running = {
            let mut state = self.state();
            state.waiting.push(done);
            std::mem::replace(&mut state.is_running, true)
        };
        if !is_running {
            let (group, local) = (Arc::clone(self), Arc::clone(local));
            // Its end is not waited for: it goes on as long as others come.
            nodes.calls.block(Box::new(move || group.run(&local)));
        }
        outcome.await.unwrap_or(Err(Errno::EIO))
    }

    fn run(&self, local: &Local) {
        loop {
            let waiting = {
                let mut state = self.state();
                let waiting = std::mem::take(&mut state.waiting);
                state.is_running = !waiting.is_empty();
                waiting
            };
            if waiting.is_empty() {
                return;
            }
            let outcome = local.make_durable();
            for done in waiting {
                // The waiter may have gone.
                let _ = done.send(outcome);
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
