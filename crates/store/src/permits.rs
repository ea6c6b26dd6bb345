//! At most so many operations on the backing file system at once, however many threads ask.
//!
//! A parallel file system serves a bounded number of requests per client well; more of them only queue in its servers
//! and take every other job's turn. An operation takes one permit for all its system calls and never a second one, so
//! waiting cannot deadlock.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::counters::Counters;

pub(crate) struct Permits {
    limit: u64,
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Default)]
struct State {
    under_way: u64,
    under_way_most: u64,
    waits: u64,
}

/// The right to one operation; given back when dropped.
pub(crate) struct Permit<'a>(&'a Permits);

impl Permits {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit: limit.max(1) as u64, state: Mutex::default(), freed: Condvar::new() }
    }

    /// Waits for the right to one operation.
    pub(crate) fn take(&self) -> Permit<'_> {
        let mut state = self.lock();
        if state.under_way >= self.limit {
            state.waits += 1;
            state = self
                .freed
                .wait_while(state, |state| state.under_way >= self.limit)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.under_way += 1;
        state.under_way_most = state.under_way_most.max(state.under_way);
        Permit(self)
    }

    /// `counters` with the figures kept here.
    pub(crate) fn complete(&self, counters: Counters) -> Counters {
        let State { under_way, under_way_most, waits } = *self.lock();
        Counters { under_way, under_way_most, waits, ..counters }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.0.lock().under_way -= 1;
        self.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn no_more_than_the_limit_are_under_way() {
        let permits = Permits::new(3);
        let inside = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        let permit = permits.take();
                        assert!(inside.fetch_add(1, Ordering::SeqCst) < 3);
                        std::thread::yield_now();
                        inside.fetch_sub(1, Ordering::SeqCst);
                        drop(permit);
                    }
                });
            }
        });
        let counters = permits.complete(Counters::default());
        assert_eq!(counters.under_way, 0);
        assert!((1..=3).contains(&counters.under_way_most));
    }

    #[test]
    fn who_waits_gets_the_turn_that_is_given_back() {
        let permits = Permits::new(1);
        let first = permits.take();
        std::thread::scope(|scope| {
            let second = scope.spawn(|| drop(permits.take()));
            while permits.complete(Counters::default()).waits == 0 {
                std::thread::yield_now();
            }
            drop(first);
            second.join().unwrap();
        });
        assert_eq!(permits.complete(Counters::default()).under_way_most, 1);
    }
}
