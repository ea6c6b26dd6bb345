//! This node's calls on the backing file system of the burst tier. They take turns with the reads of the exports, as the I/O scheduler has
//! it (`forebay_schedule`): those that a program waits for go first, those of landing last, no more of these in a second than
//! `--drain-rate` and `--drain-ops` allow.
//!
//! A turn is for what the backing file system does, and never held while something else is waited for: neither another turn, nor the
//! tree, nor another node.
//!
//! Landing is the tree's owner's. A node that has stood still, or waited long for its turn, may not be that any more: it is looked at
//! when the call's turn has come, so that only the call itself can come too late.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use forebay_read::AttemptId;
use forebay_schedule::Class;
use forebay_types::{Errno, Priority};
use tokio::sync::oneshot;

use crate::environment::BackingThreads;

/// How long is slept before it is looked whether all is over.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Numbers of calls in the pool: above those of the view's attempts, and below those of turns that wait (`machine::Threads`).
const SERVED_FIRST: u64 = 1 << 62;

/// How much of landing a second at most. `None`: as much as goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DrainLimits {
    /// Bytes that are written.
    pub bytes_per_s: Option<u64>,
    /// Calls.
    pub operations_per_s: Option<u64>,
}

/// See the module.
pub struct BackingCalls {
    threads: Arc<dyn BackingThreads>,
    bytes: Pace,
    operations: Pace,
    is_over: AtomicBool,
    /// Calls in the pool so far.
    served: AtomicU64,
    /// Whether this node may land, where it owns the tree.
    may_land: OnceLock<Box<dyn Fn() -> bool + Send + Sync>>,
}

/// Why a call of landing was not made: the tree is not this node's beyond doubt.
pub trait TooLate {
    /// As an error of the call: EAGAIN.
    fn too_late() -> Self;
}

impl TooLate for Errno {
    fn too_late() -> Self {
        Self::EAGAIN
    }
}

impl TooLate for io::Error {
    fn too_late() -> Self {
        Errno::EAGAIN.into()
    }
}

impl BackingCalls {
    /// In turn with `threads`.
    pub fn new(threads: &Arc<dyn BackingThreads>, limits: DrainLimits) -> Self {
        Self {
            threads: Arc::clone(threads),
            bytes: Pace::new(limits.bytes_per_s),
            operations: Pace::new(limits.operations_per_s),
            is_over: AtomicBool::new(false),
            served: AtomicU64::new(0),
            may_land: OnceLock::new(),
        }
    }

    /// From now on nothing lands by `land` and `write` unless that is so when the turn has come.
    pub fn land_only_while(&self, may_land: impl Fn() -> bool + Send + Sync + 'static) {
        // A daemon owns one tree at most.
        let _ = self.may_land.set(Box::new(may_land));
    }

    /// Ends all waits; no more is sent.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// A call that a program waits for. May block.
    pub fn serve<T>(&self, call: impl FnOnce() -> T) -> T {
        self.in_turn(Class::Demand, call)
    }

    /// The result of a call that a program waits for by a task, on a thread that reads the exports. A call whose task is dropped is not
    /// made, if it has not begun.
    ///
    /// # Errors
    /// EIO where the daemon ends.
    pub async fn serve_in_pool<T: Send + 'static>(
        &self,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Errno> {
        let (done, outcome) = oneshot::channel();
        let attempt = AttemptId(SERVED_FIRST + self.served.fetch_add(1, Ordering::Relaxed));
        // The task may not wait any more.
        self.threads.submit(attempt, Priority::Demand, Box::new(move || drop(done.send(call()))));
        let mut served = Served { threads: &*self.threads, attempt, outcome };
        (&mut served.outcome).await.map_err(|_| Errno::EIO)
    }

    /// A call of landing. May block.
    ///
    /// # Errors
    /// EAGAIN where the tree is not this node's any more, else what the call says.
    pub fn land<T, E: TooLate>(&self, call: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        // After the end there are few more, which leave things in order.
        let _ = self.wait_for(0, 1);
        self.land_paced_in_time(call)
    }

    /// A call of landing that writes so many bytes. May block.
    ///
    /// # Errors
    /// EINTR after `end`, EAGAIN where the tree is not this node's any more, else what the call says.
    pub fn write<T>(&self, bytes: u64, call: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
        self.wait_for(bytes, 1)?;
        self.land_paced_in_time(call)
    }

    /// The same, unless the tree is not this node's any more. May block.
    ///
    /// # Errors
    /// EAGAIN then, else what the call says.
    pub fn land_paced_in_time<T, E: TooLate>(&self, call: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        self.land_paced(|| self.in_time(call))
    }

    fn in_time<T, E: TooLate>(&self, call: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        if self.may_land.get().is_none_or(|may_land| may_land()) { call() } else { Err(E::too_late()) }
    }

    /// A call of landing whose bytes and operations the node that owns the tree has waited for. May block.
    pub fn land_paced<T>(&self, call: impl FnOnce() -> T) -> T {
        self.in_turn(Class::Background, call)
    }

    /// Waits until so many bytes may be written, in so many calls.
    ///
    /// # Errors
    /// EINTR after `end`.
    pub fn wait_for(&self, bytes: u64, operations: u64) -> Result<(), Errno> {
        self.bytes.wait_for(bytes, &self.is_over)?;
        self.operations.wait_for(operations, &self.is_over)
    }

    fn in_turn<T>(&self, class: Class, call: impl FnOnce() -> T) -> T {
        let _turn = self.threads.take_turn(class, &|| self.is_over.load(Ordering::Relaxed));
        call()
    }
}

/// A call in the pool that a task waits for.
struct Served<'a, T> {
    threads: &'a dyn BackingThreads,
    attempt: AttemptId,
    outcome: oneshot::Receiver<T>,
}

impl<T> Drop for Served<'_, T> {
    fn drop(&mut self) {
        self.threads.withdraw(self.attempt);
    }
}

/// So much a second at most.
struct Pace {
    per_s: Option<u64>,
    turns: Mutex<Turns>,
}

/// When the next ones may go.
#[derive(Default)]
struct Turns {
    began: Option<Instant>,
    next: Duration,
}

impl Pace {
    fn new(per_s: Option<u64>) -> Self {
        Self { per_s, turns: Mutex::default() }
    }

    fn wait_for(&self, count: u64, is_over: &AtomicBool) -> Result<(), Errno> {
        let until = self.per_s.filter(|_| count > 0).map(|rate| {
            let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
            let began = *turns.began.get_or_insert_with(Instant::now);
            began + turns.next(began.elapsed(), count, rate)
        });
        loop {
            if is_over.load(Ordering::Relaxed) {
                return Err(Errno::EINTR);
            }
            let left = until.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(LOOK_EVERY));
        }
    }
}

impl Turns {
    /// When so many may go which somebody asks for `now`: when those before them have had their time.
    fn next(&mut self, now: Duration, count: u64, rate: u64) -> Duration {
        let turn = self.next.max(now);
        self.next = turn + Duration::from_secs_f64(count as f64 / rate.max(1) as f64);
        turn
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::machine::Threads;

    const S: Duration = Duration::from_secs(1);

    const PATIENCE: Duration = Duration::from_secs(60);

    #[test]
    fn each_waits_for_those_before_and_an_idle_time_is_not_saved_up() {
        let mut turns = Turns::default();
        assert_eq!(turns.next(Duration::ZERO, 200, 100), Duration::ZERO);
        assert_eq!(turns.next(Duration::ZERO, 100, 100), S * 2);
        assert_eq!(turns.next(S, 100, 100), S * 3);
        assert_eq!(turns.next(S * 60, 100, 100), S * 60);
        assert_eq!(turns.next(S * 60, 100, 100), S * 61);
    }

    fn with(threads: &Arc<Threads>) -> Arc<dyn BackingThreads> {
        Arc::clone(threads) as _
    }

    #[test]
    fn who_waits_is_let_go_at_the_end() {
        let limits = [
            DrainLimits { bytes_per_s: Some(1), ..DrainLimits::default() },
            DrainLimits { operations_per_s: Some(1), ..DrainLimits::default() },
        ];
        for limits in limits {
            let calls = BackingCalls::new(&with(&Arc::new(Threads::new(1))), limits);
            assert_eq!(calls.wait_for(1 << 40, 1 << 40), Ok(()));
            std::thread::scope(|scope| {
                let waiting = scope.spawn(|| calls.write(1, || Ok(())));
                calls.end();
                assert_eq!(waiting.join().unwrap(), Err(Errno::EINTR));
            });
        }
    }

    /// While a call of landing has the only turn, more of them wait, and then programs: these go first.
    #[test]
    fn what_programs_read_goes_before_landing_that_waits() {
        let (threads, order) = (Arc::new(Threads::new(1)), Mutex::new(vec![]));
        let calls = BackingCalls::new(&with(&threads), DrainLimits::default());
        let wait_for_waiting = |count| {
            let deadline = Instant::now() + PATIENCE;
            while threads.waits() < count {
                assert!(Instant::now() < deadline, "{} of {count} wait", threads.waits());
                std::thread::yield_now();
            }
        };
        let (go_on, hold) = channel::<()>();
        let (began, begun) = channel();
        let note = |what| order.lock().unwrap().push(what);
        let (calls, note) = (&calls, &note);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let held = calls.land(|| {
                    began.send(()).unwrap();
                    hold.recv_timeout(PATIENCE).unwrap();
                    Ok::<_, Errno>(())
                });
                assert_eq!(held, Ok(()));
            });
            begun.recv_timeout(PATIENCE).unwrap();
            for _ in 0..5 {
                scope.spawn(move || {
                    calls.land(|| {
                        note("landing");
                        Ok::<_, Errno>(())
                    })
                });
            }
            wait_for_waiting(5);
            for _ in 0..5 {
                scope.spawn(move || calls.serve(|| note("program")));
            }
            wait_for_waiting(10);
            go_on.send(()).unwrap();
        });
        assert_eq!(order.into_inner().unwrap(), [["program"; 5], ["landing"; 5]].concat());
    }

    #[test]
    fn nothing_lands_of_an_owner_that_was_replaced_while_it_waited_for_its_turn() {
        let is_held = Arc::new(AtomicBool::new(true));
        let calls = BackingCalls::new(&with(&Arc::new(Threads::new(1))), DrainLimits::default());
        let asked = Arc::clone(&is_held);
        calls.land_only_while(move || asked.load(Ordering::Relaxed));
        assert_eq!(calls.land(|| Ok::<_, Errno>(1)), Ok(1));
        is_held.store(false, Ordering::Relaxed);
        assert_eq!(calls.land(|| Ok::<_, Errno>(1)), Err(Errno::EAGAIN));
        assert_eq!(calls.write(1, || Ok(1)), Err(Errno::EAGAIN));
        assert_eq!(calls.land(|| Ok::<_, io::Error>(1)).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert_eq!(calls.land_paced_in_time(|| Ok::<_, Errno>(1)), Err(Errno::EAGAIN));
        // Calls that a program waits for, or that another node has waited for, are not the owner's.
        assert_eq!((calls.serve(|| 1), calls.land_paced(|| 1)), (1, 1));
    }
}
