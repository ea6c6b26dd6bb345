//! Threads for calls that may block, beside everything else.
//!
//! They come on demand, up to a limit, and end when they have been idle for a while. Some are made at the start and stay: at its limit of
//! processes a machine gives no thread, and calls then wait for those that there are. The runtime's own pool keeps none, and panics then.
//!
//! A call that lasts, such as a wait for a drain, never has the last of them: it is dropped where no other thread is to be had. So calls
//! on which the tree and the kernel depend go on.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use forebay_types::threads::{BLOCKING_IDLE_MAX, BLOCKING_THREADS_STAYING};
use tokio::runtime::Handle;

use crate::environment::Operation;

/// Threads of the machine. They end with this, or with what they are at.
pub struct BlockingThreads(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    submitted: Condvar,
    /// An operation has ended.
    ended: Condvar,
    limit: usize,
    begin: Begin,
}

/// Begins a thread that does this.
type Begin = Box<dyn Fn(Operation) -> io::Result<()> + Send + Sync>;

#[derive(Default)]
struct State {
    queue: VecDeque<(Operation, Lasting)>,
    threads: usize,
    /// Threads that wait, also those that have been woken and do not run yet.
    idle: usize,
    /// Operations that last, in the queue or under way.
    lasting: usize,
    /// When others than those that stay were needed last.
    needed_at: Option<Instant>,
    /// No further thread could be made, which is told once until one can be.
    is_short: bool,
    is_over: bool,
}

/// Whether an operation may last.
type Lasting = bool;

impl BlockingThreads {
    /// For `limit` operations at once. The threads are in the runtime's context.
    ///
    /// # Errors
    /// When those that stay cannot be made.
    pub fn start(limit: usize, runtime: Handle) -> io::Result<Self> {
        Self::begun_by(limit, move |work| {
            let runtime = runtime.clone();
            let work = move || {
                let _entered = runtime.enter();
                work();
            };
            std::thread::Builder::new().name("blocking".to_owned()).spawn(work).map(drop)
        })
    }

    fn begun_by(limit: usize, begin: impl Fn(Operation) -> io::Result<()> + Send + Sync + 'static) -> io::Result<Self> {
        let (state, submitted, ended) = (Mutex::default(), Condvar::new(), Condvar::new());
        let threads = Self(Arc::new(Shared { state, submitted, ended, limit, begin: Box::new(begin) }));
        let mut state = threads.0.lock();
        (0..BLOCKING_THREADS_STAYING).try_for_each(|_| threads.0.begin_thread(&mut state))?;
        drop(state);
        Ok(threads)
    }

    /// Has an operation done by the next thread that is free. One that lasts is dropped where none can be had for it; so is each after `end`.
    pub fn submit(&self, operation: Operation, lasts: Lasting) {
        let mut state = self.0.lock();
        if state.is_over {
            return;
        }
        let needs_thread = state.idle <= state.queue.len() || lasts && !state.has_spare();
        let begun = if needs_thread && state.threads < self.0.limit { self.0.begin_thread(&mut state) } else { Ok(()) };
        if let Err(error) = begun
            && !std::mem::replace(&mut state.is_short, true)
        {
            tracing::warn!(%error, threads = state.threads, lasts, "no further thread for calls that may block");
        }
        if lasts && !state.has_spare() {
            drop(state);
            return drop(operation);
        }
        state.lasting += usize::from(lasts);
        state.queue.push_back((operation, lasts));
        drop(state);
        self.0.submitted.notify_one();
    }

    /// Begins no operation from now on, and waits for those that are under way. False: not in time.
    pub fn end(&self, within: Duration) -> bool {
        let deadline = Instant::now() + within;
        self.0.close();
        let under_way = |state: &mut State| state.threads > 0;
        let left = deadline.saturating_duration_since(Instant::now());
        let waited = self.0.ended.wait_timeout_while(self.0.lock(), left, under_way);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}

impl Drop for BlockingThreads {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Shared {
    fn begin_thread(self: &Arc<Self>, state: &mut State) -> io::Result<()> {
        let threads = Arc::clone(self);
        (self.begin)(Box::new(move || threads.work()))?;
        state.threads += 1;
        state.is_short = false;
        Ok(())
    }

    /// The life of a thread.
    fn work(&self) {
        let mut state = self.lock();
        loop {
            if let Some((operation, lasts)) = state.queue.pop_front() {
                if state.threads > state.idle + state.lasting + BLOCKING_THREADS_STAYING {
                    state.needed_at = Some(Instant::now());
                }
                drop(state);
                operation();
                state = self.lock();
                state.lasting -= usize::from(lasts);
                continue;
            }
            if state.is_over {
                break;
            }
            let is_spare = state.has_spare();
            // Otherwise a few operations a second would keep each from being idle for long.
            if is_spare && state.needed_at.is_none_or(|needed| needed.elapsed() >= BLOCKING_IDLE_MAX) {
                break;
            }
            state.idle += 1;
            // One that stays wakes for nothing else, so that a node at rest is left alone.
            let idle_max = if is_spare { BLOCKING_IDLE_MAX } else { Duration::MAX };
            let waited = self.submitted.wait_timeout(state, idle_max).unwrap_or_else(PoisonError::into_inner);
            state = waited.0;
            state.idle -= 1;
            if waited.1.timed_out() && state.queue.is_empty() && state.has_spare() {
                break;
            }
        }
        state.threads -= 1;
        drop(state);
        self.ended.notify_all();
    }

    fn close(&self) {
        let mut state = self.lock();
        state.is_over = true;
        let left = std::mem::take(&mut state.queue);
        drop(state);
        drop(left);
        self.submitted.notify_all();
    }

    /// A panic ends the process, so a poisoned lock is never seen.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether more threads than those that stay are for what does not last.
    fn has_spare(&self) -> bool {
        self.threads - self.lasting > BLOCKING_THREADS_STAYING
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::sync::mpsc::{Receiver, Sender, channel};

    use rustix::process::{Resource, Rlimit, Uid, setrlimit};

    use super::*;
    use crate::shared::pool_task::on_pool;

    const PATIENCE: Duration = Duration::from_secs(60);
    const LIMIT: usize = 8;
    const CHILD: &str = "FOREBAY_TEST_NO_THREADS";

    /// Of a machine that gives so many threads.
    fn at_most(given: usize) -> BlockingThreads {
        let given = Mutex::new(given);
        let begin = move |work| {
            let mut given = given.lock().unwrap();
            *given = given.checked_sub(1).ok_or(io::ErrorKind::WouldBlock)?;
            std::thread::Builder::new().spawn(work).map(drop)
        };
        BlockingThreads::begun_by(LIMIT, begin).unwrap()
    }

    /// Operations that say that they have begun, and end when told to or when nobody can tell them any more.
    struct Slow {
        begin: Sender<usize>,
        begun: Receiver<usize>,
    }

    impl Slow {
        fn new() -> Self {
            let (begin, begun) = channel();
            Self { begin, begun }
        }

        fn submit(&self, threads: &BlockingThreads, number: usize, lasts: Lasting) -> Sender<()> {
            let ((end, ended), begin) = (channel(), self.begin.clone());
            let operation = move || {
                begin.send(number).unwrap();
                let _ = ended.recv();
            };
            threads.submit(Box::new(operation), lasts);
            end
        }

        fn next(&self) -> usize {
            self.begun.recv_timeout(PATIENCE).unwrap()
        }
    }

    #[test]
    fn without_further_threads_those_that_stay_do_everything() {
        let (threads, slow) = (at_most(BLOCKING_THREADS_STAYING), Slow::new());
        let mut ends: Vec<_> = (0..LIMIT).map(|number| Some(slow.submit(&threads, number, false))).collect();
        // Two begin at a time, in any order.
        for _ in 0..LIMIT {
            assert!(ends[slow.next()].take().is_some());
        }
        assert!(threads.end(PATIENCE));
    }

    /// As drains do.
    #[tokio::test]
    async fn tasks_that_wait_keep_none_of_the_threads_that_stay() {
        let threads = Arc::new(at_most(BLOCKING_THREADS_STAYING));
        let (begin, mut begun) = tokio::sync::mpsc::unbounded_channel();
        let go = tokio::sync::watch::Sender::new(());
        let tasks: Vec<_> = (0..LIMIT)
            .map(|number| {
                let (threads, begin, mut gone) = (Arc::clone(&threads), begin.clone(), go.subscribe());
                let task = async move {
                    begin.send(number).unwrap();
                    gone.changed().await.unwrap();
                    number
                };
                tokio::spawn(on_pool(move |operation| threads.submit(operation, false), task))
            })
            .collect();
        for _ in 0..LIMIT {
            begun.recv().await.unwrap();
        }
        go.send(()).unwrap();
        for (number, task) in tasks.into_iter().enumerate() {
            assert_eq!(task.await.unwrap(), Some(number));
        }
        assert!(threads.end(PATIENCE));
    }

    #[test]
    fn what_lasts_never_has_the_last_threads() {
        let (threads, slow) = (at_most(BLOCKING_THREADS_STAYING + 1), Slow::new());
        let lasting = slow.submit(&threads, 1, true);
        assert_eq!(slow.next(), 1);
        let refused = slow.submit(&threads, 2, true);
        assert!(refused.send(()).is_err(), "it is dropped");
        let ends = [3, 4].map(|number| slow.submit(&threads, number, false));
        assert_eq!([slow.next(), slow.next()].iter().sum::<usize>(), 7);
        drop((lasting, ends));
        assert!(threads.end(PATIENCE));
    }

    #[test]
    fn no_more_threads_than_allowed_and_those_that_are_idle_end() {
        let (threads, slow) = (at_most(usize::MAX), Slow::new());
        let ends: Vec<_> = (0..2 * LIMIT).map(|number| slow.submit(&threads, number, false)).collect();
        assert_eq!((0..LIMIT).map(|_| slow.next()).max(), Some(LIMIT - 1));
        assert!(slow.begun.try_recv().is_err());
        assert_eq!(threads.0.lock().threads, LIMIT);
        drop(ends);
        let rests = |state: &mut State| state.threads > BLOCKING_THREADS_STAYING;
        let waited = threads.0.ended.wait_timeout_while(threads.0.lock(), PATIENCE, rests).unwrap();
        assert!(!waited.1.timed_out());
        drop(waited);
        assert!(threads.end(PATIENCE));
    }

    /// As a node's tasks at rest: some wake up several times a second.
    #[test]
    fn threads_end_that_are_not_needed_at_once() {
        let (threads, slow) = (at_most(usize::MAX), Slow::new());
        let ends: Vec<_> = (0..LIMIT).map(|number| slow.submit(&threads, number, false)).collect();
        assert_eq!((0..LIMIT).map(|_| slow.next()).max(), Some(LIMIT - 1));
        drop(ends);
        let deadline = Instant::now() + PATIENCE;
        while threads.0.lock().threads > BLOCKING_THREADS_STAYING {
            assert!(Instant::now() < deadline);
            drop(slow.submit(&threads, LIMIT, false));
            slow.next();
            std::thread::sleep(BLOCKING_IDLE_MAX / 40);
        }
        assert!(threads.end(PATIENCE));
    }

    #[test]
    fn at_the_end_nothing_begins_and_what_is_under_way_is_waited_for() {
        let (threads, slow) = (at_most(BLOCKING_THREADS_STAYING), Slow::new());
        let ends = [1, 2].map(|number| slow.submit(&threads, number, false));
        assert_eq!([slow.next(), slow.next()].iter().sum::<usize>(), 3);
        let waits = slow.submit(&threads, 3, false);
        assert!(!threads.end(Duration::ZERO));
        assert!(waits.send(()).is_err(), "it is dropped");
        drop(ends);
        assert!(threads.end(PATIENCE));
        assert!(slow.submit(&threads, 4, false).send(()).is_err());
    }

    /// Alone it passes. As its own child it is a user who may have no further process: for root there is no such limit.
    #[test]
    fn a_node_at_its_limit_of_processes_goes_on() {
        const NAME: &str = "machine::blocking_threads::tests::a_node_at_its_limit_of_processes_goes_on";
        if std::env::var_os(CHILD).is_none() {
            let program = std::env::current_exe().unwrap();
            let child = Command::new(program).args(["--exact", NAME, "--nocapture"]).env(CHILD, "1").output().unwrap();
            assert!(child.status.success(), "{child:?}");
            return;
        }
        crate::end_the_process();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let _entered = runtime.enter();
        let machine = crate::machine::Machine::here().unwrap();
        setrlimit(Resource::Nproc, Rlimit { current: Some(0), maximum: Some(0) }).unwrap();
        if rustix::process::geteuid().is_root() {
            let nobody = Uid::from_raw(65534);
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
        }
        assert!(std::thread::Builder::new().spawn(|| ()).is_err(), "no thread can be made");
        let slow = Slow::new();
        for number in 0..LIMIT {
            let begin = slow.begin.clone();
            crate::environment::Environment::block(&*machine, Box::new(move || begin.send(number).unwrap()));
        }
        let mut begun: Vec<_> = (0..LIMIT).map(|_| slow.next()).collect();
        begun.sort_unstable();
        assert_eq!(begun, (0..LIMIT).collect::<Vec<_>>());
    }
}
