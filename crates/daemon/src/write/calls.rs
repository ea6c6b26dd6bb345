//! This node's calls on the backing file system of the burst tier. They take turns with the reads of the exports, as the I/O scheduler has
//! it (`forebay_schedule`): those that a program waits for go first, those of landing last, no more of these in a second than
//! `--drain-rate` and `--drain-ops` allow.
//!
//! A call that a program waits for is made by the thread that waits. A task of landing waits for the rate, then for its turn, without a
//! thread; one of the threads of `BackingThreads` makes its calls. Small calls that follow each other are made in one turn, since each turn
//! costs two changes of threads.
//!
//! A turn is for what the backing file system does, and for this node's own log; it is never held while something else is waited for:
//! neither another turn, nor the tree, nor another node.
//!
//! Landing is the leader's. A node that has stood still, or waited long for its turn, may not be that any more: it is looked at
//! before each call (`MayLand`), so that only the call itself can come too late.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use forebay_latency::Register;
use forebay_read::AttemptId;
use forebay_schedule::Class;
use forebay_types::{Errno, Priority};
use forebay_upload::Turns as Uploading;
use tokio::sync::oneshot;

use super::pace::{End, Pace};
use crate::environment::{BackingThreads, Operation};

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
    end: End,
    /// Calls in the pool so far.
    served: AtomicU64,
    may_land: MayLand,
    /// How long calls take, once it is their turn.
    pub latencies: Arc<Register>,
}

/// The count of calls of landing against the limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cost {
    /// Bytes that they write.
    pub bytes: u64,
    /// How many they are.
    pub calls: u64,
}

impl Cost {
    /// Of so many calls that write nothing.
    pub fn calls(calls: u64) -> Self {
        Self { bytes: 0, calls }
    }
}

/// The maker of calls of landing.
#[derive(Clone, Copy)]
pub enum By<'a> {
    /// The leader, which waits for the rate before each.
    Leader,
    /// The same for a stripe, for all of which it has waited.
    StripeOfLeader,
    /// A task of a node that writes a stripe for the leader, which has waited, while it may. Its thread must not block.
    Helper(&'a MayLand),
}

/// Whether this node may land: where it leads the tree, or for the node that does (`stripe_lease`).
#[derive(Clone, Default)]
pub struct MayLand(Arc<OnceLock<Box<dyn Fn() -> bool + Send + Sync>>>);

impl MayLand {
    /// Only while that is so.
    pub fn while_it_holds(may_land: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        let only_while: Self = Self::default();
        only_while.set(may_land);
        only_while
    }

    fn set(&self, may_land: impl Fn() -> bool + Send + Sync + 'static) {
        // A daemon owns one tree at most.
        let _ = self.0.set(Box::new(may_land));
    }

    /// Makes a call unless the tree is not this node's any more.
    ///
    /// # Errors
    /// EAGAIN then, else what the call says.
    pub fn call<T, E: TooLate>(&self, call: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        if self.0.get().is_none_or(|may_land| may_land()) { call() } else { Err(E::too_late()) }
    }
}

impl Uploading for MayLand {
    fn write(&self, _bytes: u64, call: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        MayLand::call(self, call)
    }

    fn call(&self, call: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        MayLand::call(self, call)
    }
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
            end: End::default(),
            served: AtomicU64::new(0),
            may_land: MayLand::default(),
            latencies: Arc::default(),
        }
    }

    /// The most that lands a second, if there is a limit.
    pub fn drain_bytes_per_s(&self) -> Option<u64> {
        self.bytes.per_s()
    }

    /// From now on nothing lands unless that is so when the turn has come.
    pub fn land_only_while(&self, may_land: impl Fn() -> bool + Send + Sync + 'static) {
        self.may_land.set(may_land);
    }

    /// Ends all waits; no more is sent.
    pub fn end(&self) {
        self.end.come();
        self.threads.look_again().notify_waiters();
    }

    /// A call that a program waits for. May block.
    pub fn serve<T>(&self, call: impl FnOnce() -> T) -> T {
        let _turn = self.threads.take_turn(Class::Demand, &|| self.end.has_come());
        timed(&self.latencies, SERVED, call)
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
        let latencies = Arc::clone(&self.latencies);
        // The task may not wait any more.
        let operation = move || drop(done.send(timed(&latencies, SERVED, call)));
        self.threads.submit(attempt, Priority::Demand, Box::new(operation));
        let mut served = Served { threads: &*self.threads, attempt, outcome };
        (&mut served.outcome).await.map_err(|_| Errno::EIO)
    }

    /// As `serve`, for one that changes what only the leader may. May block.
    ///
    /// # Errors
    /// EAGAIN where the tree is not this node's any more, else what the call says.
    pub fn serve_in_time<T, E: TooLate>(&self, call: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        self.serve(|| self.may_land.call(call))
    }

    /// A call of landing.
    ///
    /// # Errors
    /// EAGAIN where the tree is not this node's any more, else what the call says.
    pub async fn land<T, E>(&self, call: impl FnOnce() -> Result<T, E> + Send + 'static) -> Result<T, E>
    where
        T: Send + 'static,
        E: TooLate + Send + 'static,
    {
        self.land_together(1, |may_land| may_land.call(call)).await
    }

    /// So many calls of landing in one turn.
    ///
    /// # Errors
    /// As `land`.
    pub async fn land_together<T, E>(
        &self,
        calls: u64,
        make: impl FnOnce(&MayLand) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: TooLate + Send + 'static,
    {
        // After the end there are few more, which leave things in order.
        let _ = self.wait_for(Cost::calls(calls)).await;
        self.in_turn("landing-step", make, self.may_land.clone(), true).await
    }

    /// Calls of landing in one turn that write.
    ///
    /// # Errors
    /// EINTR after `end`, EAGAIN where the tree is not this node's any more, or for a helper there are no threads, else what the calls say.
    pub async fn write<T: Send + 'static>(
        &self,
        by: By<'_>,
        cost: Cost,
        make: impl FnOnce(&MayLand) -> Result<T, Errno> + Send + 'static,
    ) -> Result<T, Errno> {
        if matches!(by, By::Leader) {
            self.wait_for(cost).await?;
        }
        match by {
            By::Leader | By::StripeOfLeader => self.in_turn("landing-write", make, self.may_land.clone(), true).await,
            By::Helper(may_land) => self.in_turn("landing-write", make, may_land.clone(), false).await,
        }
    }

    /// Waits until so much may be written, in so many calls.
    ///
    /// # Errors
    /// EINTR after `end`.
    pub async fn wait_for(&self, cost: Cost) -> Result<(), Errno> {
        self.bytes.wait_for(cost.bytes, &self.end).await?;
        self.operations.wait_for(cost.calls, &self.end).await
    }

    /// Has calls made in their turn. Where that does not come, since all is over, or there is no thread for them, this thread makes them if it
    /// `may_block`.
    async fn in_turn<T, E>(
        &self,
        kind: &'static str,
        make: impl FnOnce(&MayLand) -> Result<T, E> + Send + 'static,
        may_land: MayLand,
        may_block: bool,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: TooLate + Send + 'static,
    {
        let (done, mut outcome) = oneshot::channel();
        // The task that waits may have gone.
        let latencies = Arc::clone(&self.latencies);
        let make: Operation = Box::new(move || drop(done.send(timed(&latencies, kind, || make(&may_land)))));
        // A word from now on is heard.
        let told = self.threads.look_again().notified();
        let returned = match self.threads.call(Class::Background, make) {
            Err(make) => Some(make),
            Ok(number) => {
                if !self.end.has_come() {
                    tokio::select! {
                        biased;
                        outcome = &mut outcome => return outcome.unwrap_or_else(|_| Err(E::too_late())),
                        () = told => {}
                    }
                }
                // A call that is not there any more has begun.
                self.threads.take_back(number)
            }
        };
        match returned {
            Some(make) if may_block => make(),
            returned => drop(returned),
        }
        outcome.await.unwrap_or_else(|_| Err(E::too_late()))
    }
}

/// The kind of calls that programs of the burst tier wait for, by which their latencies go.
const SERVED: &str = "burst";

fn timed<T>(latencies: &Register, kind: &'static str, call: impl FnOnce() -> T) -> T {
    let recorded = latencies.guard(kind);
    let outcome = call();
    recorded.done();
    outcome
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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::AtomicBool;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use forebay_read::AttemptId;
    use forebay_types::Priority;
    use tokio::time::Instant;

    use super::*;
    use crate::machine::Threads;

    const TIMEOUT: Duration = Duration::from_secs(60);

    fn with(threads: &Arc<Threads>) -> Arc<dyn BackingThreads> {
        Arc::clone(threads) as _
    }

    fn bytes(bytes: u64) -> Cost {
        Cost { bytes, calls: 1 }
    }

    #[tokio::test]
    async fn waiters_end_with_the_node() {
        let limits = [
            DrainLimits { bytes_per_s: Some(1), ..DrainLimits::default() },
            DrainLimits { operations_per_s: Some(1), ..DrainLimits::default() },
        ];
        for limits in limits {
            let calls = BackingCalls::new(&with(&Arc::new(Threads::new(1))), limits);
            assert_eq!(calls.wait_for(Cost { bytes: 1 << 40, calls: 1 << 40 }).await, Ok(()));
            let waiting = calls.write(By::Leader, bytes(1), |_| Ok(()));
            let (waited, ()) = tokio::join!(waiting, async { calls.end() });
            assert_eq!(waited, Err(Errno::EINTR));
            assert_eq!(calls.write(By::Leader, bytes(1), |_| Ok(())).await, Err(Errno::EINTR));
            assert_eq!(calls.land(|| Ok::<_, Errno>(1)).await, Ok(1), "what leaves things in order is done");
        }
    }

    /// While a call of landing has the only turn, more of them wait, and then programs: these go first.
    #[tokio::test]
    async fn reads_of_programs_go_before_landing_that_waits() {
        let (threads, order) = (Arc::new(Threads::new(1)), Arc::new(Mutex::new(vec![])));
        let calls = Arc::new(BackingCalls::new(&with(&threads), DrainLimits::default()));
        let until_waiting = async |count: u64| {
            until(|| threads.waits() >= count).await;
        };
        let land = |call: Operation| {
            let calls = Arc::clone(&calls);
            tokio::spawn(async move {
                let landed = calls.land(move || {
                    call();
                    Ok::<_, Errno>(())
                });
                assert_eq!(landed.await, Ok(()));
            })
        };
        let note = |what| {
            let order = Arc::clone(&order);
            move || order.lock().unwrap().push(what)
        };
        let (go_on, hold) = channel::<()>();
        let (began, begun) = channel();
        let mut landing = vec![land(Box::new(move || {
            began.send(()).unwrap();
            hold.recv_timeout(TIMEOUT).unwrap();
        }))];
        until(|| begun.try_recv().is_ok()).await;
        landing.extend((0..5).map(|_| land(Box::new(note("landing")))));
        until_waiting(5).await;
        let serve = || {
            let (calls, note) = (Arc::clone(&calls), note("program"));
            std::thread::spawn(move || calls.serve(note))
        };
        let programs: Vec<_> = (0..5).map(|_| serve()).collect();
        until_waiting(10).await;
        go_on.send(()).unwrap();
        programs.into_iter().for_each(|program| program.join().unwrap());
        for landed in landing {
            landed.await.unwrap();
        }
        assert_eq!(*order.lock().unwrap(), [["program"; 5], ["landing"; 5]].concat());
    }

    #[tokio::test]
    async fn a_replaced_leader_that_waited_for_its_turn_lands_no_file() {
        let is_held = Arc::new(AtomicBool::new(true));
        let calls = BackingCalls::new(&with(&Arc::new(Threads::new(1))), DrainLimits::default());
        let asked = Arc::clone(&is_held);
        calls.land_only_while(move || asked.load(Ordering::Relaxed));
        assert_eq!(calls.land(|| Ok::<_, Errno>(1)).await, Ok(1));
        let lost = Arc::clone(&is_held);
        let replaced_between = calls.land_together(2, move |may_land| {
            may_land.call(|| Ok::<_, Errno>(1))?;
            lost.store(false, Ordering::Relaxed);
            may_land.call(|| Ok(2))
        });
        assert_eq!(replaced_between.await, Err(Errno::EAGAIN));
        assert_eq!(calls.land(|| Ok::<_, Errno>(1)).await, Err(Errno::EAGAIN));
        assert_eq!(calls.land(|| Ok::<_, io::Error>(1)).await.unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert_eq!(calls.serve_in_time(|| Ok::<_, Errno>(1)), Err(Errno::EAGAIN));
        // Calls that a program waits for are not the leader's.
        assert_eq!(calls.serve(|| 1), 1);
    }

    /// A helper's call waits for its turn behind a read, and the leader is replaced meanwhile.
    #[tokio::test]
    async fn a_stripe_that_waited_for_its_turn_is_not_written_for_a_replaced_leader() {
        let threads = Arc::new(Threads::new(1));
        let calls = BackingCalls::new(&with(&threads), DrainLimits::default());
        let is_held = Arc::new(AtomicBool::new(true));
        let asked = Arc::clone(&is_held);
        let may_land = MayLand::while_it_holds(move || asked.load(Ordering::Relaxed));
        let write = || calls.write(By::Helper(&may_land), bytes(1), |may_land| may_land.call(|| Ok(1)));
        assert_eq!(write().await, Ok(1));
        let (go_on, hold) = channel::<()>();
        let (began, begun) = channel();
        let read = move || {
            began.send(()).unwrap();
            let _ = hold.recv_timeout(TIMEOUT);
        };
        threads.submit(AttemptId(1), Priority::Demand, Box::new(read));
        until(|| begun.try_recv().is_ok()).await;
        let replaced = async {
            until(|| threads.waits() >= 1).await;
            is_held.store(false, Ordering::Relaxed);
            drop(go_on);
        };
        assert_eq!(tokio::join!(write(), replaced).0, Err(Errno::EAGAIN));
    }

    /// The machine gives no threads: the leader's calls are made by the thread that waits for them, a helper's are refused.
    #[tokio::test]
    async fn without_threads_calls_are_made_where_they_are_waited_for() {
        let calls = BackingCalls::new(&with(&Arc::new(Threads::at_most(0, 4))), DrainLimits::default());
        let own = std::thread::current().id();
        let by = calls.land(|| Ok::<_, Errno>(std::thread::current().id())).await;
        assert_eq!(by, Ok(own));
        assert_eq!(calls.write(By::StripeOfLeader, bytes(1), |_| Ok(1)).await, Ok(1));
        let may_land = MayLand::default();
        assert_eq!(calls.write(By::Helper(&may_land), bytes(1), |_| Ok(1)).await, Err(Errno::EAGAIN));
    }

    /// The only thread hangs with a read, and the machine gives no more: landing does not wait for it.
    #[tokio::test]
    async fn a_read_that_hangs_with_the_last_thread_holds_up_no_landing() {
        let threads = Arc::new(Threads::at_most(1, 4));
        let calls = BackingCalls::new(&with(&threads), DrainLimits::default());
        let (go_on, hold) = channel::<()>();
        let (began, begun) = channel();
        let read = move || {
            began.send(()).unwrap();
            let _ = hold.recv_timeout(TIMEOUT);
        };
        threads.submit(AttemptId(1), Priority::Demand, Box::new(read));
        until(|| begun.try_recv().is_ok()).await;
        assert_eq!(calls.land(|| Ok::<_, Errno>(1)).await, Ok(1));
        drop(go_on);
    }

    /// A call that waits for its turn behind others is made at the end.
    #[tokio::test]
    async fn what_waits_for_its_turn_is_let_go_at_the_end() {
        let threads = Arc::new(Threads::new(1));
        let calls = BackingCalls::new(&with(&threads), DrainLimits::default());
        let (go_on, hold) = channel::<()>();
        let read = move || {
            let _ = hold.recv_timeout(TIMEOUT);
        };
        threads.submit(AttemptId(1), Priority::Demand, Box::new(read));
        let (landed, ()) = tokio::join!(calls.land(|| Ok::<_, Errno>(1)), async { calls.end() });
        assert_eq!(landed, Ok(1));
        drop(go_on);
    }

    async fn until(holds: impl Fn() -> bool) {
        let deadline = Instant::now() + TIMEOUT;
        while !holds() {
            assert!(Instant::now() < deadline);
            tokio::task::yield_now().await;
        }
    }
}
