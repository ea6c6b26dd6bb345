//! Intakes that hold nothing and that nobody has (`kept_requests`), and waiting for one.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Their indices.
#[derive(Debug, Default)]
pub(crate) struct FreeIntakes {
    indices: Mutex<Vec<usize>>,
    freed: Condvar,
}

impl FreeIntakes {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Vec<usize>> {
        self.indices.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One has been emptied.
    pub(crate) fn push(&self, index: usize) {
        self.lock().push(index);
        self.freed.notify_one();
    }

    /// One could not be mapped. No waiter is told, since it would fare no better now.
    pub(crate) fn give_back(&self, index: usize) {
        self.lock().push(index);
    }

    /// Waits until one is emptied, for `time` at most.
    pub(crate) fn wait(&self, time: Duration) {
        drop(self.freed.wait_timeout(self.lock(), time));
    }

    /// Ends these waits.
    pub(crate) fn end_waits(&self) {
        self.freed.notify_all();
    }
}
