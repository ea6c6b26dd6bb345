//! Threads that make calls on the backing file system, as the I/O scheduler lets them begin (`forebay_schedule`). Other threads take turns
//! with them.
//!
//! They are as many as are needed, up to the scheduler's limit: a backing file system that hangs holds them and nothing
//! else of the daemon. A call that waits for one is an entry in a queue. One is made at the start and stays, so that calls go on where the
//! machine gives no more.
//!
//! Where the machine gives no more threads, a caller gets its call back: the threads that there are may hang, and it must not wait for them.

use std::io;
#[cfg(test)]
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forebay_read::AttemptId;
use forebay_schedule::{Class, IoScheduler};
use forebay_types::Priority;
use forebay_types::threads::BACKING_IDLE_MAX;
use tokio::sync::Notify;

use crate::environment::{BackingThreads, CallNumber, Operation, Turn};

/// How often who waits for a turn looks whether all is over.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Threads that stay.
const STAYING: usize = 1;

/// Numbers of calls and turns that wait: above those of attempts.
const CALLS_FIRST: u64 = 1 << 63;

/// Threads of the machine.
pub struct Threads(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    submitted: Condvar,
    look_again: Notify,
    /// How a thread is begun that does this.
    begin: Box<dyn Fn(Operation) -> io::Result<()> + Send + Sync>,
}

struct State {
    scheduler: IoScheduler<Operation>,
    threads: usize,
    /// Threads that wait, also those that have been woken and do not run yet.
    idle: usize,
    calls: u64,
    /// No further thread could be made, which is told once until one can be.
    is_short: bool,
    is_over: bool,
}

impl State {
    fn next_number(&mut self) -> u64 {
        self.calls += 1;
        CALLS_FIRST + self.calls
    }
}

impl Threads {
    /// For `limit` operations at once.
    pub fn new(limit: usize) -> Self {
        Self::begun_by(limit, |work| std::thread::Builder::new().name("backing".to_owned()).spawn(work).map(drop))
    }

    fn begun_by(limit: usize, begin: impl Fn(Operation) -> io::Result<()> + Send + Sync + 'static) -> Self {
        let state = State {
            scheduler: IoScheduler::new(limit),
            threads: 0,
            idle: 0,
            calls: 0,
            is_short: false,
            is_over: false,
        };
        let (state, submitted, begin) = (Mutex::new(state), Condvar::new(), Box::new(begin));
        let threads = Self(Arc::new(Shared { state, submitted, look_again: Notify::new(), begin }));
        threads.0.begin_thread(&mut threads.0.lock());
        threads
    }

    /// Those of a machine that gives so many threads.
    #[cfg(test)]
    pub fn at_most(given: usize, limit: usize) -> Self {
        let begun = AtomicUsize::new(0);
        Self::begun_by(limit, move |work| match begun.fetch_add(1, Ordering::Relaxed) < given {
            true => std::thread::Builder::new().spawn(work).map(drop),
            false => Err(io::ErrorKind::WouldBlock.into()),
        })
    }

    /// How many had to wait.
    #[cfg(test)]
    pub fn waits(&self) -> u64 {
        self.0.lock().scheduler.counters().waits
    }
}

impl BackingThreads for Threads {
    fn submit(&self, attempt: AttemptId, priority: Priority, operation: Operation) {
        let mut state = self.0.lock();
        state.scheduler.submit(attempt.0, priority, operation);
        self.0.call_a_thread(&mut state);
    }

    fn promote(&self, attempt: AttemptId) {
        let mut state = self.0.lock();
        if state.scheduler.promote(attempt.0) {
            self.0.call_a_thread(&mut state);
        }
    }

    fn withdraw(&self, attempt: AttemptId) {
        let withdrawn = self.0.lock().scheduler.withdraw(attempt.0);
        drop(withdrawn);
    }

    fn call(&self, class: Class, call: Operation) -> Result<CallNumber, Operation> {
        let mut state = self.0.lock();
        let number = state.next_number();
        state.scheduler.submit(number, class, call);
        if self.0.call_a_thread(&mut state) {
            return Ok(CallNumber(number));
        }
        state.scheduler.withdraw(number).map_or(Ok(CallNumber(number)), Err)
    }

    fn take_back(&self, call: CallNumber) -> Option<Operation> {
        self.0.lock().scheduler.withdraw(call.0)
    }

    fn look_again(&self) -> &Notify {
        &self.0.look_again
    }

    fn take_turn(&self, class: Class, is_over: &dyn Fn() -> bool) -> Option<Turn> {
        let mut state = self.0.lock();
        if state.scheduler.begin_at_once(class) {
            return Some(Box::new(OwnTurn { threads: Arc::clone(&self.0), class }));
        }
        // Until then a thread has it, which begins it as any operation, and holds it for the caller.
        let ((begin, begun), (end, ended)) = (channel(), channel::<()>());
        let hold = move || {
            if begin.send(()).is_ok() {
                let _ = ended.recv();
            }
        };
        let number = state.next_number();
        state.scheduler.submit(number, class, Box::new(hold));
        self.0.call_a_thread(&mut state);
        drop(state);
        loop {
            match begun.recv_timeout(LOOK_EVERY) {
                Ok(()) => return Some(Box::new(end)),
                Err(RecvTimeoutError::Timeout) if !is_over() => {}
                Err(_) => {
                    self.withdraw(AttemptId(number));
                    return None;
                }
            }
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.0.lock().is_over = true;
        self.0.submitted.notify_all();
    }
}

/// A turn that was free.
struct OwnTurn {
    threads: Arc<Shared>,
    class: Class,
}

impl Drop for OwnTurn {
    fn drop(&mut self) {
        let mut state = self.threads.lock();
        state.scheduler.end(self.class);
        if state.scheduler.ready_count() > 0 {
            self.threads.call_a_thread(&mut state);
        }
    }
}

impl Shared {
    /// Wakes a thread, or starts one if those that wait are too few for what may begin. Whether there are enough.
    fn call_a_thread(self: &Arc<Self>, state: &mut State) -> bool {
        self.submitted.notify_one();
        if state.scheduler.ready_count() <= state.idle || state.threads >= state.scheduler.limit() {
            return true;
        }
        self.begin_thread(state)
    }

    fn begin_thread(self: &Arc<Self>, state: &mut State) -> bool {
        let threads = Arc::clone(self);
        match (self.begin)(Box::new(move || threads.work())) {
            Ok(()) => {
                state.threads += 1;
                state.is_short = false;
                true
            }
            // Reads wait for a thread that is there, or for the next submission, or until their deadline.
            Err(error) => {
                if !std::mem::replace(&mut state.is_short, true) {
                    tracing::error!(%error, threads = state.threads, "no thread for calls on the backing file system");
                }
                self.look_again.notify_waiters();
                false
            }
        }
    }

    /// The life of a thread.
    fn work(self: &Arc<Self>) {
        let mut state = self.lock();
        loop {
            let Some((operation, class)) = state.scheduler.begin() else {
                state = self.stay(state);
                if state.scheduler.ready_count() == 0 && (state.is_over || state.threads > STAYING) {
                    break;
                }
                continue;
            };
            // The end of one operation may have made room for several.
            if state.scheduler.ready_count() > 0 {
                self.call_a_thread(&mut state);
            }
            drop(state);
            operation();
            state = self.lock();
            state.scheduler.end(class);
        }
        state.threads -= 1;
    }

    /// Waits until something may begin, for a while; who stays wakes for nothing else.
    fn stay<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.idle += 1;
        let idle_max = if state.threads > STAYING { BACKING_IDLE_MAX } else { Duration::MAX };
        let nothing = |state: &mut State| state.scheduler.ready_count() == 0 && !state.is_over;
        let waited = self.submitted.wait_timeout_while(state, idle_max, nothing);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.idle -= 1;
        state
    }

    /// A panic ends the process, so a poisoned lock is never seen.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::mpsc::{Receiver, Sender, channel};

    use forebay_schedule::OPERATIONS_PER_PREFETCH;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    /// Operations that begin on threads and end by hand.
    struct Slow {
        threads: Threads,
        begin: Sender<u64>,
        begun: Receiver<u64>,
        ends: BTreeMap<u64, Sender<()>>,
    }

    impl Slow {
        fn new(limit: usize) -> Self {
            let (begin, begun) = channel();
            Self { threads: Threads::new(limit), begin, begun, ends: BTreeMap::new() }
        }

        fn ask(&mut self, priority: Priority, attempts: impl IntoIterator<Item = u64>) {
            for attempt in attempts {
                let ((end, ended), begin) = (channel(), self.begin.clone());
                self.ends.insert(attempt, end);
                let operation = move || {
                    begin.send(attempt).unwrap();
                    // An error says that the test is over.
                    let _ = ended.recv();
                };
                self.threads.submit(AttemptId(attempt), priority, Box::new(operation));
            }
        }

        fn next(&self) -> u64 {
            self.begun.recv_timeout(PATIENCE).unwrap()
        }

        fn end(&mut self, attempt: u64) {
            self.ends.remove(&attempt).unwrap().send(()).unwrap();
        }
    }

    #[test]
    fn a_program_finds_a_thread_however_much_is_prefetched() {
        let mut slow = Slow::new(2 * OPERATIONS_PER_PREFETCH);
        slow.ask(Priority::Prefetch, 1..100);
        assert_eq!([slow.next(), slow.next()].iter().sum::<u64>(), 3, "a part of the threads");
        slow.ask(Priority::Demand, [200]);
        assert_eq!(slow.next(), 200);
    }

    #[test]
    fn promoted_operations_take_a_free_thread() {
        let mut slow = Slow::new(2);
        slow.ask(Priority::Prefetch, [1, 2]);
        assert_eq!(slow.next(), 1);
        slow.threads.promote(AttemptId(2));
        assert_eq!(slow.next(), 2);
    }

    #[test]
    fn without_further_threads_the_one_that_stays_makes_all_calls() {
        let threads = Threads::at_most(STAYING, 8);
        let (begin, begun) = channel();
        for attempt in 0..2 {
            let begin = begin.clone();
            threads.submit(AttemptId(attempt), Priority::Demand, Box::new(move || begin.send(attempt).unwrap()));
            assert_eq!(begun.recv_timeout(PATIENCE), Ok(attempt));
            // Longer than others stay.
            std::thread::sleep(2 * BACKING_IDLE_MAX);
        }
    }

    #[test]
    fn no_more_threads_than_allowed_and_what_is_withdrawn_never_begins() {
        let mut slow = Slow::new(1);
        slow.ask(Priority::Demand, 1..4);
        assert_eq!(slow.next(), 1);
        slow.threads.withdraw(AttemptId(2));
        assert!(slow.begun.try_recv().is_err(), "one at a time");
        slow.end(1);
        assert_eq!(slow.next(), 3);
        assert_eq!(slow.threads.0.lock().threads, 1);
    }
}
