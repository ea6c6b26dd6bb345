//! Threads for calls that the kernel may let wait. One is always there, so that such a call is made also where a user's limit of processes
//! permits no other.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

type Call = Box<dyn FnOnce() + Send>;

/// See the module. The threads end with it, each after its call.
pub(crate) struct WaitingThreads(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    calls: VecDeque<Call>,
    /// Whether the first thread makes a call.
    is_busy: bool,
    is_over: bool,
}

impl WaitingThreads {
    /// # Errors
    /// When there can be no thread.
    pub(crate) fn start() -> io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let of_thread = Arc::clone(&shared);
        thread::Builder::new().name("pages".to_owned()).spawn(move || of_thread.serve())?;
        Ok(Self(shared))
    }

    /// Has a thread make the call: at once, or where there can be no other thread, after those that were to be made before.
    pub(crate) fn run(&self, call: impl FnOnce() + Send + 'static) {
        let is_first_busy = {
            let mut state = self.0.state();
            state.calls.push_back(Box::new(call));
            state.is_busy || state.calls.len() > 1
        };
        self.0.changed.notify_one();
        if is_first_busy {
            let shared = Arc::clone(&self.0);
            let serve = move || {
                while let Some(call) = shared.take() {
                    call();
                }
            };
            if let Err(error) = thread::Builder::new().name("pages".to_owned()).spawn(serve) {
                tracing::warn!(%error, "no thread can be started to notify the kernel: this waits for another notification");
            }
        }
    }
}

impl Drop for WaitingThreads {
    fn drop(&mut self) {
        self.0.state().is_over = true;
        self.0.changed.notify_one();
    }
}

impl Shared {
    /// The first thread's whole life.
    fn serve(&self) {
        loop {
            let call = {
                let mut state = self.state();
                state.is_busy = false;
                let nothing = |state: &mut State| state.calls.is_empty() && !state.is_over;
                let mut state = self.changed.wait_while(state, nothing).unwrap_or_else(PoisonError::into_inner);
                let Some(call) = state.calls.pop_front() else { return };
                state.is_busy = true;
                call
            };
            call();
        }
    }

    fn take(&self) -> Option<Call> {
        self.state().calls.pop_front()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
