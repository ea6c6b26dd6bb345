//! Making the log durable for requests, of programs and of other nodes: one thread does so for all that wait.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay_types::Errno;
use tokio::sync::oneshot;

use crate::environment::Operation;

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
    /// The outcome of a `commit` that begins from now on, for all that ask meanwhile, on the thread that `block` has for it.
    ///
    /// # Errors
    /// As `commit`; EIO when the daemon ends.
    pub async fn commit(
        self: &Arc<Self>,
        commit: impl Fn() -> Result<(), Errno> + Send + 'static,
        block: impl FnOnce(Operation),
    ) -> Result<(), Errno> {
        let (done, outcome) = oneshot::channel();
        let is_running = {
            let mut state = self.state();
            state.waiting.push(done);
            std::mem::replace(&mut state.is_running, true)
        };
        if !is_running {
            let group = Arc::clone(self);
            // Its end is not waited for: it goes on as long as others come.
            block(Box::new(move || group.run(commit)));
        }
        outcome.await.unwrap_or(Err(Errno::EIO))
    }

    fn run(&self, commit: impl Fn() -> Result<(), Errno>) {
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
            let outcome = commit();
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
