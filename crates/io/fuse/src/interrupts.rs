//! INTERRUPTs, and the requests that they are about.
//!
//! The kernel sends an INTERRUPT when it has sent its request, but another reader may be the faster one. So an INTERRUPT for a request that is
//! not known is remembered until the request becomes a task, or is answered. Most of those that stay unknown were about requests
//! that had just been answered: there is a limit, and the oldest are forgotten first.

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use crate::limits;

/// The INTERRUPTs of a session.
#[derive(Default)]
pub(crate) struct Interrupts {
    state: Mutex<State>,
    /// How many are remembered.
    early: AtomicUsize,
}

#[derive(Default)]
struct State {
    tasks: BTreeMap<u64, Arc<Interruption>>,
    early: VecDeque<u64>,
}

/// Whether the program that waits for a request was interrupted.
#[derive(Default)]
pub struct Interruption {
    is_set: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Interruption {
    /// Whether it was.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.is_set.load(Ordering::SeqCst)
    }

    /// Until it is. One task waits at a time.
    pub async fn come(&self) {
        poll_fn(|context| {
            *lock(&self.waker) = Some(context.waker().clone());
            if self.is_set() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    fn set(&self) {
        self.is_set.store(true, Ordering::SeqCst);
        let waker = lock(&self.waker).take();
        waker.into_iter().for_each(Waker::wake);
    }
}

impl Interrupts {
    /// A request becomes a task.
    pub(crate) fn begin(&self, unique: u64) -> Arc<Interruption> {
        let interruption = Arc::<Interruption>::default();
        let mut state = self.state();
        if self.take_early(&mut state, unique) {
            interruption.set();
        }
        state.tasks.insert(unique, Arc::clone(&interruption));
        interruption
    }

    /// The task of a request has ended.
    pub(crate) fn end(&self, unique: u64) {
        self.state().tasks.remove(&unique);
    }

    /// An INTERRUPT came. Whether its request is a task.
    pub(crate) fn interrupt(&self, unique: u64) -> bool {
        let mut state = self.state();
        if let Some(interruption) = state.tasks.get(&unique).map(Arc::clone) {
            drop(state);
            interruption.set();
            return true;
        }
        state.early.push_back(unique);
        if state.early.len() > limits::EARLY_INTERRUPTS_MAX {
            state.early.pop_front();
        }
        self.early.store(state.early.len(), Ordering::SeqCst);
        false
    }

    /// A request was handled without a task.
    pub(crate) fn forget(&self, unique: u64) {
        if self.early.load(Ordering::SeqCst) > 0 {
            self.take_early(&mut self.state(), unique);
        }
    }

    /// Whether an INTERRUPT for a request was remembered.
    fn take_early(&self, state: &mut State, unique: u64) -> bool {
        let before = state.early.len();
        state.early.retain(|early| *early != unique);
        self.early.store(state.early.len(), Ordering::SeqCst);
        state.early.len() < before
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupt_finds_a_task_that_begins_before_or_after_it() {
        let interrupts = Interrupts::default();
        let before = interrupts.begin(2);
        assert!(!before.is_set());
        assert!(interrupts.interrupt(2));
        assert!(before.is_set());
        interrupts.end(2);
        assert!(!interrupts.interrupt(4));
        assert!(interrupts.begin(4).is_set());
        assert!(!interrupts.begin(6).is_set());
        assert_eq!(interrupts.state().early.len(), 0);
    }

    #[test]
    fn interrupts_of_requests_that_are_no_tasks_are_forgotten() {
        let interrupts = Interrupts::default();
        interrupts.interrupt(2);
        interrupts.forget(2);
        assert!(!interrupts.begin(2).is_set());
        let count = limits::EARLY_INTERRUPTS_MAX as u64 + 10;
        (0..count).for_each(|unique| assert!(!interrupts.interrupt(100 + unique)));
        assert_eq!(interrupts.state().early.len(), limits::EARLY_INTERRUPTS_MAX);
        assert!(!interrupts.begin(100).is_set());
        assert!(interrupts.begin(100 + count - 1).is_set());
    }
}
