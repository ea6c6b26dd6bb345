//! Requests that wait, as tasks: a waiting request takes memory, and a thread only while it has something to do.
//!
//! The threads are this crate's own. A task may meet a blocked disk, which the one thread of a daemon's network must never do. They come on
//! demand, `FUSE_TASK_THREADS_MAX` at most, and end when they have been idle for a while; as long as there are tasks, some stay. The last idle
//! thread begins another one before it goes on with a task. So a waker, which may be called anywhere, begins none.
//!
//! If no thread can be made, the reader that has the task goes on with tasks itself until one can be made, or none is left.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use forebay_types::threads;

use crate::limits;

/// The rest of a request that waits.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// How long a thread waits for something to do before it ends, and a reader in its place before it tries to make one: longer than the
/// pauses of requests that follow each other.
const IDLE: Duration = Duration::from_millis(300);

/// Threads that stay while there are as many tasks: while one goes on with a task, the other is there for those that wake.
const STAYING: usize = 2;

/// Makes a thread that goes on with tasks.
type Begin = fn(Arc<Tasks>) -> std::io::Result<()>;

/// The tasks of a session.
pub(crate) struct Tasks {
    begin: Begin,
    state: Mutex<State>,
    /// A task is ready, or all is over.
    came: Condvar,
    /// A task has ended, or a thread, or bytes of requests are free.
    ended: Condvar,
}

#[derive(Default)]
struct State {
    /// Tasks that are to go on.
    ready: VecDeque<Arc<OneTask>>,
    all: BTreeMap<u64, Arc<OneTask>>,
    /// The number of the last.
    last: u64,
    /// Requests that tasks have, and their bytes.
    admitted: usize,
    bytes: usize,
    /// Of these requests, waits for locks.
    lock_waits: usize,
    /// Readers that wait until these are fewer.
    waits_for_room: usize,
    threads: usize,
    /// Threads that wait for something to do.
    idle: usize,
    /// Threads end when there are no tasks.
    is_closed: bool,
    /// The rest is dropped.
    is_over: bool,
}

struct OneTask {
    number: u64,
    tasks: Weak<Tasks>,
    progress: Mutex<Progress>,
}

enum Progress {
    Waits(Task),
    Ready(Task),
    Runs,
    /// It was woken meanwhile.
    RunsAgain,
    Over,
}

/// The part of the limits that a request takes as a task.
#[derive(Clone, Copy)]
pub(crate) struct Needs {
    pub(crate) bytes: usize,
    pub(crate) waits_for_lock: bool,
}

/// How many tasks there may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Admission {
    Usual,
    /// More, for the last reader, which must go on.
    Reserve,
    /// Any number.
    Always,
}

/// A request with its bytes that a task has, until this is dropped.
pub(crate) struct Admitted {
    tasks: Arc<Tasks>,
    needs: Needs,
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut state = self.tasks.state();
        state.admitted -= 1;
        state.bytes -= self.needs.bytes;
        state.lock_waits -= usize::from(self.needs.waits_for_lock);
        let is_waited_for = state.waits_for_room > 0;
        drop(state);
        if is_waited_for {
            self.tasks.ended.notify_all();
        }
    }
}

impl Default for Tasks {
    fn default() -> Self {
        Self::new(|tasks| {
            let work = move || tasks.work(false);
            thread::Builder::new().name("fuse-task".to_owned()).spawn(work).map(drop)
        })
    }
}

impl Tasks {
    fn new(begin: Begin) -> Self {
        Self { begin, state: Mutex::default(), came: Condvar::new(), ended: Condvar::new() }
    }

    /// Memory for the request of one more task; `None` where there is too much.
    pub(crate) fn admit(self: &Arc<Self>, needs: Needs, admission: Admission) -> Option<Admitted> {
        let mut state = self.state();
        if !state.admits(needs, admission) {
            return None;
        }
        state.admitted += 1;
        state.bytes += needs.bytes;
        state.lock_waits += usize::from(needs.waits_for_lock);
        Some(Admitted { tasks: Arc::clone(self), needs })
    }

    /// Whether that is so because too many wait for locks, whose end is not waited for.
    pub(crate) fn refuses(&self, needs: Needs) -> bool {
        self.state().refuses(needs)
    }

    /// Waits until there is memory for it, or may not be waited for any more.
    pub(crate) fn await_room(&self, needs: Needs) {
        let is_full =
            |state: &mut State| !state.admits(needs, Admission::Usual) && !state.refuses(needs) && !state.is_closed;
        let mut state = self.state();
        state.waits_for_room += 1;
        state = self.ended.wait_while(state, is_full).unwrap_or_else(PoisonError::into_inner);
        state.waits_for_room -= 1;
    }

    /// Begins a task: on this thread, as far as it does not wait, or on another one. May take as long as other tasks if no thread can be made.
    pub(crate) fn spawn(self: &Arc<Self>, task: Task, is_begun_here: bool) {
        let mut state = self.state();
        if state.is_over {
            drop(state);
            return drop(task);
        }
        state.last += 1;
        let number = state.last;
        let progress = Mutex::new(Progress::Ready(task));
        let one = Arc::new(OneTask { number, tasks: Arc::downgrade(self), progress });
        state.all.insert(number, Arc::clone(&one));
        let needs_thread = if is_begun_here {
            drop(state);
            one.go_on();
            state = self.state();
            // A thread that has nothing to do goes on with it when it wakes: wakers begin none.
            state.idle == 0 && state.all.contains_key(&number)
        } else {
            state.ready.push_back(one);
            state.idle == 0
        };
        if needs_thread && !self.begin_thread(&mut state) && state.threads == 0 {
            state.threads += 1;
            drop(state);
            return self.work(true);
        }
        drop(state);
        if !is_begun_here {
            self.came.notify_one();
        }
    }

    /// Whether there is one thread more.
    fn begin_thread(self: &Arc<Self>, state: &mut State) -> bool {
        if state.threads >= threads::FUSE_TASK_THREADS_MAX {
            return false;
        }
        match (self.begin)(Arc::clone(self)) {
            Ok(()) => state.threads += 1,
            Err(error) => {
                if state.threads == 0 {
                    tracing::warn!(%error, "no thread for requests that wait: a reader goes on with them");
                }
                return false;
            }
        }
        true
    }

    /// Goes on with tasks, as long as there are any, and for a while. A reader does so until there is a thread.
    fn work(self: &Arc<Self>, is_reader: bool) {
        while let Some(task) = self.next(is_reader) {
            task.go_on();
        }
    }

    /// The next task for this thread, which otherwise counts no more.
    fn next(self: &Arc<Self>, is_reader: bool) -> Option<Arc<OneTask>> {
        let mut state = self.state();
        loop {
            if let Some(task) = state.ready.pop_front() {
                if state.idle == 0 && state.all.len() >= STAYING {
                    self.begin_thread(&mut state);
                }
                return Some(task);
            }
            if state.all.is_empty() && (state.is_closed || is_reader) {
                break;
            }
            state.idle += 1;
            let (waited, outcome) = self.came.wait_timeout(state, IDLE).unwrap_or_else(PoisonError::into_inner);
            state = waited;
            state.idle -= 1;
            if !outcome.timed_out() || !state.ready.is_empty() {
                continue;
            }
            let staying = state.all.len().min(STAYING);
            // Those that a disk blocks are not there for others.
            let is_spare = state.threads > staying && (state.idle > 0 || state.all.is_empty());
            if is_reader && self.begin_thread(&mut state) || is_spare {
                break;
            }
        }
        state.threads -= 1;
        self.ended.notify_all();
        None
    }

    /// Threads end from now on when there are no tasks, and no reader waits for room.
    pub(crate) fn close(&self) {
        self.state().is_closed = true;
        self.came.notify_all();
        self.ended.notify_all();
    }

    /// Waits until every task and every thread has ended, after `close`. False: not in time.
    pub(crate) fn wait(&self, deadline: Instant) -> bool {
        let is_any_left = |state: &mut State| !state.all.is_empty() || state.threads > 0;
        let within = deadline.saturating_duration_since(Instant::now());
        let waited = self.ended.wait_timeout_while(self.state(), within, is_any_left);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// Drops all tasks that wait, after `close`. One that a thread goes on with is dropped when it waits.
    pub(crate) fn drop_all(&self) {
        let all = {
            let mut state = self.state();
            state.is_over = true;
            state.ready.clear();
            std::mem::take(&mut state.all)
        };
        for task in all.into_values() {
            let progress = std::mem::replace(&mut *task.progress(), Progress::Over);
            drop(progress);
        }
        self.came.notify_all();
        self.ended.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn refuses(&self, needs: Needs) -> bool {
        needs.waits_for_lock && self.lock_waits >= limits::LOCK_WAITS_MAX
    }

    fn admits(&self, needs: Needs, admission: Admission) -> bool {
        let (count_max, bytes_max) = match admission {
            Admission::Usual => (limits::TASKS_MAX, limits::TASK_BYTES_MAX),
            Admission::Reserve => {
                (limits::TASKS_MAX + limits::TASKS_RESERVE, limits::TASK_BYTES_MAX + limits::TASK_BYTES_RESERVE)
            }
            Admission::Always => return true,
        };
        self.admitted < count_max && self.bytes + needs.bytes <= bytes_max && !self.refuses(needs)
    }
}

impl OneTask {
    /// Goes on with it until it waits or ends. One that panics has ended: what it was to answer is answered EIO.
    fn go_on(self: Arc<Self>) {
        let mut task = {
            let mut progress = self.progress();
            match std::mem::replace(&mut *progress, Progress::Runs) {
                Progress::Ready(task) => task,
                other => return *progress = other,
            }
        };
        let waker = Waker::from(Arc::clone(&self));
        let polled = catch_unwind(AssertUnwindSafe(|| task.as_mut().poll(&mut Context::from_waker(&waker))));
        let is_over = match polled {
            Ok(Poll::Pending) => false,
            Ok(Poll::Ready(())) => true,
            Err(_) => {
                tracing::error!("a request has ended in a panic");
                true
            }
        };
        if is_over {
            *self.progress() = Progress::Over;
            drop(task);
            let Some(tasks) = self.tasks.upgrade() else { return };
            let mut state = tasks.state();
            let ended = state.all.remove(&self.number);
            let is_waited_for = state.is_closed && state.all.is_empty();
            drop(state);
            drop(ended);
            if is_waited_for {
                tasks.ended.notify_all();
                tasks.came.notify_all();
            }
            return;
        }
        let mut progress = self.progress();
        match &*progress {
            Progress::RunsAgain => {
                *progress = Progress::Ready(task);
                drop(progress);
                self.push();
            }
            Progress::Over => {
                drop(progress);
                drop(task);
            }
            _ => *progress = Progress::Waits(task),
        }
    }

    fn push(self: Arc<Self>) {
        let Some(tasks) = self.tasks.upgrade() else { return };
        tasks.state().ready.push_back(self);
        tasks.came.notify_one();
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for OneTask {
    fn wake(self: Arc<Self>) {
        let mut progress = self.progress();
        match std::mem::replace(&mut *progress, Progress::RunsAgain) {
            Progress::Waits(task) => *progress = Progress::Ready(task),
            Progress::Runs | Progress::RunsAgain => return,
            other => return *progress = other,
        }
        drop(progress);
        self.push();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::thread::ThreadId;

    use super::*;

    /// How long anything may take that is waited for.
    const DEADLINE: Duration = Duration::from_secs(20);

    /// A gate that tasks wait at, and the threads that have gone on with them.
    #[derive(Default)]
    struct AtGate {
        is_open: AtomicBool,
        wakers: Mutex<Vec<Waker>>,
        threads: Mutex<Vec<ThreadId>>,
        over: AtomicUsize,
    }

    struct Dropped(Arc<AtGate>);

    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.over.fetch_add(1, Ordering::SeqCst);
        }
    }

    impl AtGate {
        fn task(self: &Arc<Self>) -> Task {
            let (gate, over) = (Arc::clone(self), Dropped(Arc::clone(self)));
            Box::pin(async move {
                std::future::poll_fn(|context| {
                    let present = thread::current().id();
                    let mut threads = gate.threads.lock().unwrap();
                    threads.retain(|of| *of != present);
                    threads.push(present);
                    drop(threads);
                    let mut wakers = gate.wakers.lock().unwrap();
                    if gate.is_open.load(Ordering::SeqCst) {
                        return Poll::Ready(());
                    }
                    wakers.push(context.waker().clone());
                    Poll::Pending
                })
                .await;
                drop(over);
            })
        }

        fn open(&self) {
            self.is_open.store(true, Ordering::SeqCst);
            let wakers = std::mem::take(&mut *self.wakers.lock().unwrap());
            // Twice, as wakers may be.
            wakers.into_iter().for_each(|waker| {
                waker.wake_by_ref();
                waker.wake();
            });
        }
    }

    #[track_caller]
    fn eventually(mut condition: impl FnMut() -> bool) {
        let began = Instant::now();
        while !condition() {
            assert!(began.elapsed() < DEADLINE);
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_thousand_tasks_wait_on_a_few_threads_which_end_after_them() {
        let (tasks, gate) = (Arc::<Tasks>::default(), Arc::<AtGate>::default());
        for index in 0..1000 {
            tasks.spawn(gate.task(), index % 2 == 0);
        }
        eventually(|| gate.wakers.lock().unwrap().len() == 1000);
        assert!(tasks.state().threads <= threads::FUSE_TASK_THREADS_MAX);
        eventually(|| tasks.state().threads <= STAYING);
        gate.open();
        eventually(|| gate.over.load(Ordering::SeqCst) == 1000);
        eventually(|| tasks.state().threads == 0);
        assert!(tasks.state().all.is_empty());
        // The reader is one more.
        assert!(gate.threads.lock().unwrap().len() <= 2 * threads::FUSE_TASK_THREADS_MAX + 1);
    }

    #[test]
    fn a_task_that_blocks_its_thread_keeps_no_other_waiting() {
        let (tasks, gate) = (Arc::<Tasks>::default(), Arc::<AtGate>::default());
        let (end, ended) = std::sync::mpsc::channel::<()>();
        tasks.spawn(gate.task(), false);
        tasks.spawn(Box::pin(async move { assert!(ended.recv().is_err()) }), false);
        eventually(|| !gate.wakers.lock().unwrap().is_empty());
        gate.open();
        eventually(|| gate.over.load(Ordering::SeqCst) == 1);
        drop(end);
        eventually(|| tasks.state().all.is_empty());
    }

    #[test]
    fn without_threads_who_has_a_task_goes_on_with_all_of_them() {
        static MAY_BEGIN: AtomicBool = AtomicBool::new(false);
        let none: Begin = |tasks| match MAY_BEGIN.load(Ordering::SeqCst) {
            true => thread::Builder::new().spawn(move || tasks.work(false)).map(drop),
            false => Err(std::io::ErrorKind::WouldBlock.into()),
        };
        let (tasks, gate) = (Arc::new(Tasks::new(none)), Arc::<AtGate>::default());
        let begin = |count| {
            let (tasks, gate) = (Arc::clone(&tasks), Arc::clone(&gate));
            thread::spawn(move || (0..count).for_each(|_| tasks.spawn(gate.task(), true)))
        };
        let (reader, others) = (begin(1), {
            eventually(|| tasks.state().threads == 1);
            begin(10)
        });
        eventually(|| gate.wakers.lock().unwrap().len() == 11);
        assert_eq!(tasks.state().threads, 1);
        eventually(|| reader.is_finished() != others.is_finished());
        gate.open();
        reader.join().unwrap();
        others.join().unwrap();
        assert_eq!((gate.over.load(Ordering::SeqCst), tasks.state().threads), (11, 0));
        // As soon as a thread can be made, the reader reads on.
        gate.is_open.store(false, Ordering::SeqCst);
        let reader = begin(1);
        eventually(|| tasks.state().threads == 1);
        MAY_BEGIN.store(true, Ordering::SeqCst);
        eventually(|| reader.is_finished());
        assert_eq!(tasks.state().all.len(), 1);
        gate.open();
        eventually(|| tasks.state().threads == 0);
    }

    #[test]
    fn a_task_that_panics_ends_alone() {
        let (tasks, gate) = (Arc::<Tasks>::default(), Arc::<AtGate>::default());
        let over = Dropped(Arc::clone(&gate));
        tasks.spawn(
            Box::pin(async move {
                let _over = over;
                panic!("expected by this test");
            }),
            false,
        );
        eventually(|| gate.over.load(Ordering::SeqCst) == 1);
        tasks.spawn(gate.task(), false);
        gate.open();
        eventually(|| gate.over.load(Ordering::SeqCst) == 2);
        eventually(|| tasks.state().all.is_empty());
    }

    #[test]
    fn tasks_that_still_wait_at_the_end_are_dropped_and_no_more_begin() {
        let (tasks, gate) = (Arc::<Tasks>::default(), Arc::<AtGate>::default());
        (0..10).for_each(|_| tasks.spawn(gate.task(), false));
        eventually(|| gate.wakers.lock().unwrap().len() == 10);
        tasks.close();
        assert!(!tasks.wait(Instant::now()));
        tasks.drop_all();
        assert_eq!(gate.over.load(Ordering::SeqCst), 10);
        assert!(tasks.wait(Instant::now() + DEADLINE));
        tasks.spawn(gate.task(), true);
        assert_eq!((gate.over.load(Ordering::SeqCst), gate.wakers.lock().unwrap().len()), (11, 10));
        gate.open();
    }

    #[test]
    fn bytes_beyond_the_limit_wait_for_others_and_a_few_more_do_not() {
        let (tasks, of_bytes) = (Arc::<Tasks>::default(), |bytes| Needs { bytes, waits_for_lock: false });
        let admitted = tasks.admit(of_bytes(limits::TASK_BYTES_MAX), Admission::Usual).unwrap();
        assert!(tasks.admit(of_bytes(1), Admission::Usual).is_none());
        let reserve = tasks.admit(of_bytes(limits::TASK_BYTES_RESERVE), Admission::Reserve).unwrap();
        assert!(tasks.admit(of_bytes(1), Admission::Reserve).is_none());
        assert!(tasks.admit(of_bytes(1), Admission::Always).is_some());
        drop(reserve);
        let waiting = thread::spawn({
            let tasks = Arc::clone(&tasks);
            move || tasks.await_room(of_bytes(1))
        });
        drop(admitted);
        waiting.join().unwrap();
        assert_eq!(tasks.state().bytes, 0);
    }
}
