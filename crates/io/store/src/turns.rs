//! Whose turn it is at the backing file system: at most so many operations at once, and what a program waits for first.
//!
//! A parallel file system serves a bounded number of requests per client well; more of them only queue in its servers
//! and take every other job's turn. An operation has one turn for all its system calls and never a second one, so
//! waiting cannot deadlock. Turns are threads of their own, as many as are needed: a backing file system that hangs
//! holds them and nothing else of the daemon. Who waits for one is an entry in a queue.
//!
//! What is asked ahead begins only when nothing waits that a program wants, but for one in so many, so that a program
//! which never stops asking does not hold it up for ever. And it has only a part of the turns: what a program wants
//! finds one free, however slow the backing file system is, and never much before it in the servers' own queues.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forebay_types::{Priority, limits};

use crate::counters::Counters;

/// How long a thread stays that has nothing to do.
const IDLE_MAX: Duration = Duration::from_secs(2);

/// The turns at one backing file system.
pub struct Turns {
    limit: usize,
    state: Mutex<State>,
    queued: Condvar,
}

/// Questions that are remembered for having been promoted before they came: threads overtake each other by a few.
const PROMOTED_MAX: usize = 64;

/// What is done in a turn; may block.
type Operation = Box<dyn FnOnce() + Send>;

/// Those who wait, by the numbers of their questions: who asked first comes first.
type Queue = BTreeMap<u64, Operation>;

#[derive(Default)]
struct State {
    demand: Queue,
    ahead: Queue,
    /// Promoted while they did not wait: some will come yet, others have begun.
    promoted: BTreeSet<u64>,
    threads: usize,
    /// Threads that wait, also those that have been woken and do not run yet.
    idle: usize,
    under_way: usize,
    ahead_under_way: usize,
    under_way_most: usize,
    waits: u64,
    /// Demands that have begun, one after the other, while something asked ahead could have.
    preferred: usize,
}

impl Turns {
    /// Turns for `limit` operations at once (`limits::BACKING_CONCURRENCY`).
    #[must_use]
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit: limit.max(1), state: Mutex::default(), queued: Condvar::new() })
    }

    /// Lets `operation` begin, on another thread, when its turn has come. `call` is the number of its question; two that
    /// wait at the same time have different ones.
    pub fn queue(self: &Arc<Self>, call: u64, priority: Priority, operation: impl FnOnce() + Send + 'static) {
        let mut state = self.lock();
        let priority = if state.promoted.remove(&call) { Priority::Demand } else { priority };
        state.queue(priority).insert(call, Box::new(operation));
        state.waits += u64::from(self.has_to_wait(&state, priority));
        self.call_a_thread(&mut state);
    }

    /// A program waits for question `call` now, which waits for its turn, or will in a moment, or has had it.
    pub fn promote(self: &Arc<Self>, call: u64) {
        let mut state = self.lock();
        if let Some(operation) = state.ahead.remove(&call) {
            state.demand.insert(call, operation);
            self.call_a_thread(&mut state);
        } else {
            state.promoted.insert(call);
            if state.promoted.len() > PROMOTED_MAX {
                state.promoted.pop_first();
            }
        }
    }

    /// Nobody waits for question `call` any more: if it waits for its turn, it never begins.
    pub fn withdraw(&self, call: u64) {
        let mut state = self.lock();
        let withdrawn = (state.demand.remove(&call), state.ahead.remove(&call));
        drop(state);
        drop(withdrawn);
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// `counters` with the figures kept here.
    pub(crate) fn complete(&self, counters: Counters) -> Counters {
        let state = self.lock();
        let (under_way, under_way_most) = (state.under_way as u64, state.under_way_most as u64);
        Counters { under_way, under_way_most, waits: state.waits, ..counters }
    }

    /// Operations asked ahead that may begin now, as far as their part of the turns goes.
    fn ahead_room(&self, state: &State) -> usize {
        let part = self.limit.div_ceil(limits::BACKING_TURNS_PER_AHEAD);
        part.saturating_sub(state.ahead_under_way).min(state.ahead.len())
    }

    fn has_to_wait(&self, state: &State, priority: Priority) -> bool {
        let free = self.limit - state.under_way;
        match priority {
            Priority::Demand => state.demand.len() > free,
            Priority::Prefetch => {
                state.ahead.len() > self.ahead_room(state) || state.ahead.len() + state.demand.len() > free
            }
        }
    }

    /// Wakes a thread, or starts one if those that wait are too few for what may begin.
    fn call_a_thread(self: &Arc<Self>, state: &mut State) {
        self.queued.notify_one();
        if state.demand.len() + self.ahead_room(state) <= state.idle || state.threads >= self.limit {
            return;
        }
        let turns = Arc::clone(self);
        match std::thread::Builder::new().name("backing".to_owned()).spawn(move || turns.work()) {
            Ok(_) => state.threads += 1,
            // What waits does so for a thread that is there, or for the next that asks, or until its deadline.
            Err(error) => tracing::error!(%error, threads = state.threads, "no thread to read the exports with"),
        }
    }

    /// The life of a thread.
    fn work(&self) {
        let mut state = self.lock();
        while let Some((operation, priority)) = self.next(&mut state) {
            drop(state);
            operation();
            state = self.lock();
            state.under_way -= 1;
            state.ahead_under_way -= usize::from(priority == Priority::Prefetch);
            state = self.stay(state);
        }
        state.threads -= 1;
    }

    /// Waits until something may begin, for a while.
    fn stay<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.idle += 1;
        let nothing = |state: &mut State| state.demand.is_empty() && self.ahead_room(state) == 0;
        let waited = self.queued.wait_timeout_while(state, IDLE_MAX, nothing);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.idle -= 1;
        state
    }

    /// The next operation, and why its turn has come.
    fn next(&self, state: &mut State) -> Option<(Operation, Priority)> {
        let ahead_may = self.ahead_room(state) > 0;
        let ahead_is_due = state.demand.is_empty() || state.preferred >= limits::DEMANDS_PER_AHEAD;
        let priority = if ahead_may && ahead_is_due { Priority::Prefetch } else { Priority::Demand };
        let (_, operation) = state.queue(priority).pop_first()?;
        state.preferred = if ahead_may && priority == Priority::Demand { state.preferred + 1 } else { 0 };
        state.under_way += 1;
        state.ahead_under_way += usize::from(priority == Priority::Prefetch);
        state.under_way_most = state.under_way_most.max(state.under_way);
        Some((operation, priority))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn queue(&mut self, priority: Priority) -> &mut Queue {
        match priority {
            Priority::Demand => &mut self.demand,
            Priority::Prefetch => &mut self.ahead,
        }
    }
}
