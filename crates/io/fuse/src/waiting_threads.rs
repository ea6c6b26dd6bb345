//! Threads for calls that the kernel may let wait. One is always there, so that such a call is made also where a user's limit of processes
//! permits no other.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Threads beside the first: as many as the process has that notifies the kernel in place of these. Calls beyond wait for one of them.
const OTHERS_MAX: usize = 64;

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
    /// How many threads there are beside the first.
    others: usize,
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
        let needs_another = {
            let mut state = self.0.state();
            state.calls.push_back(Box::new(call));
            let needs_another = (state.is_busy || state.calls.len() > 1) && state.others < OTHERS_MAX;
            state.others += usize::from(needs_another);
            needs_another
        };
        self.0.changed.notify_one();
        if needs_another {
            let shared = Arc::clone(&self.0);
            let serve = move || {
                while let Some(call) = shared.take() {
                    call();
                }
            };
            if let Err(error) = thread::Builder::new().name("pages".to_owned()).spawn(serve) {
                self.0.state().others -= 1;
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

    /// A call for a thread beside the first, which ends where there is none.
    fn take(&self) -> Option<Call> {
        let mut state = self.state();
        let call = state.calls.pop_front();
        state.others -= usize::from(call.is_none());
        call
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn all_calls_are_made_though_more_wait_than_there_are_threads() {
        let threads = WaitingThreads::start().unwrap();
        let (sender, made) = mpsc::channel();
        let gate = Arc::new(Mutex::new(()));
        let closed = gate.lock().unwrap();
        for number in 0..3 * OTHERS_MAX {
            let (sender, gate) = (sender.clone(), Arc::clone(&gate));
            threads.run(move || {
                drop(gate.lock().unwrap());
                sender.send(number).unwrap();
            });
        }
        assert_eq!(threads.0.state().others, OTHERS_MAX);
        assert!(made.try_recv().is_err());
        drop(closed);
        let mut all: Vec<usize> = (0..3 * OTHERS_MAX).map(|_| made.recv().unwrap()).collect();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..3 * OTHERS_MAX));
    }
}
