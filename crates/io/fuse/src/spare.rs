//! Threads for requests that wait, so that a session always has readers for those that do not.
//!
//! A reader handles what it has read, which costs no hand-over between threads. But where handling waits for another node,
//! as many waiting requests as there are readers would stop the whole mount. So the last readers that are free hand such requests
//! (`Handler::may_wait`) to spare threads. These are made on demand and end when they have been idle for a while. If all
//! of them wait, further requests queue in the order in which they came.
//!
//! An INTERRUPT may be read while its request is still queued, or before its handler can be interrupted. So the
//! handler is told of it once more when it has been given the request.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use forebay_types::threads;

use crate::limits;

/// How long a thread waits for another request before it ends: longer than the pauses of programs that ask steadily.
const IDLE: Duration = Duration::from_secs(5);

thread_local! {
    static IS_SPARE: Cell<bool> = const { Cell::new(false) };
}

/// Whether the present thread is one of a session's spare threads, which leaves the readers to other requests while it waits.
#[must_use]
pub fn is_spare_thread() -> bool {
    IS_SPARE.get()
}

/// A request that one thread gives to another.
pub(crate) trait Handed: Send {
    /// The kernel's number of it.
    fn unique(&self) -> u64;

    /// How much memory it takes.
    fn len(&self) -> usize;

    /// Handles it; once.
    fn handle(&mut self);

    /// Tells the handler of an INTERRUPT that came before it was handled.
    fn interrupt(&self);

    /// The session ends before any thread has taken it.
    fn give_back(&mut self);
}

/// The spare threads of a session.
pub(crate) struct Spares {
    threads_max: usize,
    idle: Duration,
    state: Mutex<State>,
    came: Condvar,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Box<dyn Handed>>,
    /// Bytes of the requests that are queued or being handled.
    bytes: usize,
    /// These requests, those that readers have noted, and whether an INTERRUPT came for them.
    under_way: BTreeMap<u64, bool>,
    threads: Vec<ThreadId>,
    /// Threads that wait for a request.
    idle: usize,
    is_closed: bool,
}

impl Default for Spares {
    fn default() -> Self {
        Self::new(threads::SPARE_THREADS_MAX, IDLE)
    }
}

impl Spares {
    fn new(threads_max: usize, idle: Duration) -> Self {
        Self { threads_max, idle, state: Mutex::default(), came: Condvar::new(), ended: Condvar::new() }
    }

    /// Has a spare thread handle a request; `was_interrupted` where an INTERRUPT for it may have come before.
    ///
    /// # Errors
    /// The request, if no thread takes it: too much is queued, the session ends, or no thread can be made.
    pub(crate) fn take(
        self: &Arc<Self>,
        handed: Box<dyn Handed>,
        was_interrupted: bool,
    ) -> Result<(), Box<dyn Handed>> {
        let mut state = self.state();
        let is_full = state.queue.len() >= limits::KERNEL_REQUESTS_KEPT
            || state.bytes.saturating_add(handed.len()) > threads::SPARE_BYTES_MAX;
        if state.is_closed || is_full {
            return Err(handed);
        }
        if state.queue.len() >= state.idle && state.threads.len() < self.threads_max {
            let spares = Arc::clone(self);
            match thread::Builder::new().name("fuse-spare".to_owned()).spawn(move || spares.handle_until_idle()) {
                Ok(started) => state.threads.push(started.thread().id()),
                Err(error) if state.threads.is_empty() => {
                    tracing::warn!(%error, "no thread for a request that waits");
                    return Err(handed);
                }
                // The threads that there are take it in the end.
                Err(_) => {}
            }
        }
        state.bytes += handed.len();
        state.under_way.insert(handed.unique(), was_interrupted);
        state.queue.push_back(handed);
        drop(state);
        self.came.notify_one();
        Ok(())
    }

    /// Notes that an INTERRUPT came for a request.
    pub(crate) fn interrupt(&self, unique: u64) {
        if let Some(is_interrupted) = self.state().under_way.get_mut(&unique) {
            *is_interrupted = true;
        }
    }

    /// A reader is about to handle a request itself.
    pub(crate) fn note_begin(&self, unique: u64) {
        self.state().under_way.insert(unique, false);
    }

    /// It has handled it. Whether an INTERRUPT came for it.
    pub(crate) fn note_end(&self, unique: u64) -> bool {
        self.state().under_way.remove(&unique).unwrap_or(false)
    }

    /// Takes no more requests, and gives back those that are queued. Idle threads end.
    pub(crate) fn close(&self) {
        let queue = {
            let mut state = self.state();
            state.is_closed = true;
            let queue = std::mem::take(&mut state.queue);
            for handed in &queue {
                state.note_end(&**handed);
            }
            queue
        };
        self.came.notify_all();
        queue.into_iter().for_each(|mut handed| handed.give_back());
    }

    /// Waits until every thread but the present one has ended, after `close`. False: not in time.
    pub(crate) fn wait(&self, deadline: Instant) -> bool {
        let present = thread::current().id();
        let is_any_left = |state: &mut State| state.threads.iter().any(|of| *of != present);
        let within = deadline.saturating_duration_since(Instant::now());
        let waited = self.ended.wait_timeout_while(self.state(), within, is_any_left);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    fn handle_until_idle(&self) {
        IS_SPARE.set(true);
        while let Some(mut handed) = self.next() {
            handed.handle();
            let is_interrupted = self.state().note_end(&*handed);
            if is_interrupted {
                handed.interrupt();
            }
        }
    }

    /// The next request for this thread, which otherwise counts no more.
    fn next(&self) -> Option<Box<dyn Handed>> {
        let mut state = self.state();
        state.idle += 1;
        let is_waiting = |state: &mut State| state.queue.is_empty() && !state.is_closed;
        let waited = self.came.wait_timeout_while(state, self.idle, is_waiting);
        state = waited.unwrap_or_else(PoisonError::into_inner).0;
        state.idle -= 1;
        let next = state.queue.pop_front();
        if next.is_none() {
            let present = thread::current().id();
            state.threads.retain(|of| *of != present);
            self.ended.notify_all();
        }
        next
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// A request is neither queued nor handled any more. Whether an INTERRUPT came for it.
    fn note_end(&mut self, handed: &dyn Handed) -> bool {
        self.bytes -= handed.len();
        self.under_way.remove(&handed.unique()).unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How long anything may take that is waited for.
    const DEADLINE: Duration = Duration::from_secs(20);

    /// The events of requests so far, and whether those that are handled may end.
    #[derive(Default)]
    struct Events {
        seen: Mutex<(Vec<(&'static str, u64)>, bool)>,
        changed: Condvar,
    }

    impl Events {
        fn note(&self, what: &'static str, unique: u64) {
            self.seen.lock().unwrap().0.push((what, unique));
            self.changed.notify_all();
        }

        fn let_all_end(&self) {
            self.seen.lock().unwrap().1 = true;
            self.changed.notify_all();
        }

        fn count(&self, what: &str) -> usize {
            self.seen.lock().unwrap().0.iter().filter(|(of, _)| *of == what).count()
        }

        #[track_caller]
        fn wait_for(&self, what: &str, count: usize) {
            let is_missing =
                |seen: &mut (Vec<_>, bool)| seen.0.iter().filter(|(of, _): &&(&str, u64)| *of == what).count() < count;
            let waited = self.changed.wait_timeout_while(self.seen.lock().unwrap(), DEADLINE, is_missing).unwrap();
            assert!(!waited.1.timed_out(), "{count} times {what}: {:?}", waited.0.0);
        }
    }

    struct Waiting(u64, Arc<Events>);

    impl Handed for Waiting {
        fn unique(&self) -> u64 {
            self.0
        }

        fn len(&self) -> usize {
            100
        }

        fn handle(&mut self) {
            self.1.note("begun", self.0);
            drop(self.1.changed.wait_while(self.1.seen.lock().unwrap(), |seen| !seen.1).unwrap());
            self.1.note("handled", self.0);
        }

        fn interrupt(&self) {
            self.1.note("interrupted", self.0);
        }

        fn give_back(&mut self) {
            self.1.note("given back", self.0);
        }
    }

    /// Threads, queued requests, and bytes of all.
    fn counts(spares: &Spares) -> (usize, usize, usize) {
        let state = spares.state();
        (state.threads.len(), state.queue.len(), state.bytes)
    }

    fn take(spares: &Arc<Spares>, events: &Arc<Events>, count: u64) {
        for unique in 0..count {
            assert!(spares.take(Box::new(Waiting(unique, Arc::clone(events))), false).is_ok());
        }
    }

    #[test]
    fn more_requests_than_threads_queue_and_are_handled_in_the_end() {
        let (spares, events) = (Arc::new(Spares::new(4, DEADLINE)), Arc::default());
        take(&spares, &events, 20);
        events.wait_for("begun", 4);
        assert_eq!(counts(&spares), (4, 16, 2000));
        events.let_all_end();
        events.wait_for("handled", 20);
        spares.close();
        assert!(spares.wait(Instant::now() + DEADLINE));
        assert_eq!(counts(&spares), (0, 0, 0));
    }

    #[test]
    fn idle_threads_take_what_comes_next_and_end_without_work() {
        let (spares, events) = (Arc::new(Spares::new(4, Duration::from_millis(50))), Arc::<Events>::default());
        events.let_all_end();
        for _ in 0..50 {
            take(&spares, &events, 1);
        }
        events.wait_for("handled", 50);
        assert!(spares.wait(Instant::now() + DEADLINE), "idle threads end");
        take(&spares, &events, 1);
        events.wait_for("handled", 51);
    }

    #[test]
    fn an_interrupt_of_a_queued_request_follows_its_handling() {
        let (spares, events) = (Arc::new(Spares::new(1, DEADLINE)), Arc::default());
        take(&spares, &events, 3);
        events.wait_for("begun", 1);
        spares.interrupt(2);
        spares.interrupt(9);
        assert_eq!(events.count("interrupted"), 0);
        events.let_all_end();
        events.wait_for("interrupted", 1);
        spares.close();
        assert!(spares.wait(Instant::now() + DEADLINE));
        let mut seen = events.seen.lock().unwrap().0.clone();
        assert_eq!(seen.split_off(seen.len() - 2), [("handled", 2), ("interrupted", 2)]);
    }

    #[test]
    fn a_session_that_ends_gives_queued_requests_back_and_takes_no_more() {
        let (spares, events) = (Arc::new(Spares::new(2, DEADLINE)), Arc::default());
        take(&spares, &events, 10);
        events.wait_for("begun", 2);
        spares.close();
        assert_eq!(events.count("given back"), 8);
        assert!(spares.take(Box::new(Waiting(77, Arc::clone(&events))), false).is_err());
        assert!(!spares.wait(Instant::now()), "two are being handled");
        events.let_all_end();
        assert!(spares.wait(Instant::now() + DEADLINE));
        assert_eq!((events.count("handled"), counts(&spares)), (2, (0, 0, 0)));
    }

    #[test]
    fn requests_beyond_the_limits_stay_with_their_reader() {
        struct Large(Waiting);
        impl Handed for Large {
            fn unique(&self) -> u64 {
                self.0.unique()
            }
            fn len(&self) -> usize {
                threads::SPARE_BYTES_MAX - 50
            }
            fn handle(&mut self) {
                self.0.handle();
            }
            fn interrupt(&self) {
                self.0.interrupt();
            }
            fn give_back(&mut self) {
                self.0.give_back();
            }
        }
        let (spares, events) = (Arc::new(Spares::new(2, DEADLINE)), Arc::<Events>::default());
        assert!(spares.take(Box::new(Large(Waiting(0, Arc::clone(&events)))), false).is_ok());
        assert!(spares.take(Box::new(Waiting(1, Arc::clone(&events))), false).is_err());
        events.let_all_end();
        spares.close();
        assert!(spares.wait(Instant::now() + DEADLINE));
    }
}
