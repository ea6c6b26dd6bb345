//! The life of what a node runs, for nodes that are simulated within one process: its tasks stop, go on and end together,
//! as those of a process do at SIGSTOP, SIGCONT and SIGKILL.
//!
//! A task lives behind a gate. While the life is paused nothing behind a gate is polled; who was woken meanwhile is polled
//! when it goes on. When the life is ended, everything behind its gates is dropped before `kill` returns, but for the task
//! that called it, which is dropped when it returns. Dropped tasks close their connections, as a kernel closes those of
//! a process that is gone.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::lock::lock;

/// The life of a node's tasks. Cloning shares it.
#[derive(Clone, Default)]
pub struct Life(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    phase: Phase,
    /// In the order they were made, in which they go on and end.
    gates: BTreeMap<u64, Arc<dyn Gate>>,
    gates_made: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Phase {
    #[default]
    Running,
    Paused,
    Ended,
}

impl Life {
    /// A life that begins.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// `future` as a part of this life. It yields nothing when the life ended before it did.
    pub fn gate<F: Future + Send + 'static>(&self, future: F) -> Gated<F> {
        let place = Arc::new(Place::new(future));
        let mut state = lock(&self.0);
        let number = state.gates_made;
        state.gates_made += 1;
        if state.phase != Phase::Ended {
            state.gates.insert(number, Arc::clone(&place) as _);
        }
        drop(state);
        Gated { life: self.clone(), number, place }
    }

    /// Starts `future` as a task of `runtime` and a part of this life.
    pub fn spawn<F>(&self, runtime: &Handle, future: F) -> JoinHandle<Option<F::Output>>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        runtime.spawn(self.gate(future))
    }

    /// From now on nothing is polled.
    pub fn pause(&self) {
        let mut state = lock(&self.0);
        if state.phase == Phase::Running {
            state.phase = Phase::Paused;
        }
    }

    /// Goes on after a pause.
    pub fn resume(&self) {
        let mut state = lock(&self.0);
        if state.phase == Phase::Paused {
            state.phase = Phase::Running;
            let gates: Vec<_> = state.gates.values().cloned().collect();
            drop(state);
            gates.iter().for_each(|gate| gate.resume());
        }
    }

    /// Ends the life, paused or not.
    pub fn kill(&self) {
        let mut state = lock(&self.0);
        state.phase = Phase::Ended;
        let gates = std::mem::take(&mut state.gates);
        drop(state);
        gates.into_values().for_each(|gate| gate.kill());
    }

    fn phase(&self) -> Phase {
        lock(&self.0).phase
    }
}

/// Actions of a life on each of its futures.
trait Gate: Send + Sync {
    fn resume(&self);

    fn kill(&self);
}

/// Where a future stays while it is not being polled.
struct Place<F>(Mutex<Kept<F>>);

struct Kept<F> {
    future: Option<Pin<Box<F>>>,
    waker: Option<Waker>,
    /// It was woken while its life was paused.
    was_woken: bool,
}

impl<F: Future> Place<F> {
    fn new(future: F) -> Self {
        Self(Mutex::new(Kept { future: Some(Box::pin(future)), waker: None, was_woken: false }))
    }

    /// The future, to be polled, if its life runs; the phase otherwise. The life is looked at with the place locked: if it
    /// changes afterwards, the gate hears of it.
    fn take(&self, life: &Life, waker: &Waker) -> Result<Pin<Box<F>>, Phase> {
        let mut kept = lock(&self.0);
        let phase = life.phase();
        kept.waker = Some(waker.clone());
        kept.was_woken = phase == Phase::Paused;
        match phase {
            Phase::Running => kept.future.take().ok_or(Phase::Ended),
            phase => Err(phase),
        }
    }

    /// Puts it back, unless the life has ended while it was polled.
    fn put(&self, life: &Life, future: Pin<Box<F>>) -> Poll<()> {
        let mut kept = lock(&self.0);
        if life.phase() == Phase::Ended {
            return Poll::Ready(());
        }
        kept.future = Some(future);
        Poll::Pending
    }
}

impl<F: Future + Send> Gate for Place<F> {
    fn resume(&self) {
        let mut kept = lock(&self.0);
        let waker = if std::mem::take(&mut kept.was_woken) { kept.waker.take() } else { None };
        drop(kept);
        waker.into_iter().for_each(Waker::wake);
    }

    fn kill(&self) {
        let mut kept = lock(&self.0);
        let (future, waker) = (kept.future.take(), kept.waker.take());
        drop(kept);
        drop(future);
        waker.into_iter().for_each(Waker::wake);
    }
}

/// A future that is part of a life.
#[must_use = "futures do nothing unless polled"]
pub struct Gated<F: Future> {
    life: Life,
    number: u64,
    place: Arc<Place<F>>,
}

impl<F: Future> Future for Gated<F> {
    type Output = Option<F::Output>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut future = match self.place.take(&self.life, context.waker()) {
            Ok(future) => future,
            Err(Phase::Paused) => return Poll::Pending,
            Err(_) => return Poll::Ready(None),
        };
        match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending => self.place.put(&self.life, future).map(|()| None),
        }
    }
}

impl<F: Future> Drop for Gated<F> {
    fn drop(&mut self) {
        let gate = lock(&self.life.0).gates.remove(&self.number);
        drop(gate);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;
    use tokio::time::{Instant, sleep};

    /// Says when it is dropped.
    struct Dropped(Arc<AtomicUsize>);

    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_paused_node_goes_on_late() {
        let life = Life::new();
        let begun = Instant::now();
        let task = life.spawn(&Handle::current(), async move {
            sleep(Duration::from_secs(1)).await;
            let woken = begun.elapsed();
            sleep(Duration::from_secs(1)).await;
            (woken, begun.elapsed())
        });
        sleep(Duration::from_millis(500)).await;
        life.pause();
        sleep(Duration::from_secs(5)).await;
        life.resume();
        let (woken, ended) = task.await.unwrap().unwrap();
        assert_eq!((woken, ended), (Duration::from_millis(5500), Duration::from_millis(6500)));
    }

    #[tokio::test(start_paused = true)]
    async fn tasks_of_a_killed_node_end_at_once() {
        let life = Life::new();
        let drops = Arc::new(AtomicUsize::new(0));
        let forever = |drops: &Arc<AtomicUsize>| {
            let dropped = Dropped(Arc::clone(drops));
            async move {
                sleep(Duration::MAX).await;
                drop(dropped);
            }
        };
        let tasks = [(); 3].map(|()| life.spawn(&Handle::current(), forever(&drops)));
        sleep(Duration::from_millis(1)).await;
        life.pause();
        life.kill();
        assert_eq!(drops.load(Ordering::Relaxed), 3);
        for task in tasks {
            assert!(task.await.unwrap().is_none());
        }
        assert!(life.gate(forever(&drops)).await.is_none(), "nothing begins afterwards");
        assert_eq!(drops.load(Ordering::Relaxed), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_that_ends_itself_runs_no_further() {
        let life = Life::new();
        let own = life.clone();
        let task = life.spawn(&Handle::current(), async move {
            own.kill();
            sleep(Duration::from_millis(1)).await;
        });
        assert!(task.await.unwrap().is_none());
        assert!(lock(&life.0).gates.is_empty());
    }
}
