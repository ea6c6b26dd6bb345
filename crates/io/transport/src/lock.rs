//! Locking what no code that panics holds.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A panic ends the process, so a poisoned lock is never seen outside tests.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
