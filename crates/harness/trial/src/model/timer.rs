//! Runs what is due, in the order of the times: one thread, started once, that ends when the timer is dropped.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

type Task = Box<dyn FnOnce() + Send>;

/// The timer; what is not due yet when it is dropped never runs.
pub struct Timer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    pending: Mutex<Pending>,
    changed: Condvar,
}

#[derive(Default)]
struct Pending {
    heap: BinaryHeap<Reverse<Due>>,
    added: u64,
    ended: bool,
}

/// Ordered by time, then by the order of adding.
struct Due {
    at: Instant,
    number: u64,
    task: Task,
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

impl Timer {
    /// Starts the thread.
    pub fn start() -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let worker = Arc::clone(&shared);
        let thread = thread::Builder::new().name("model-timer".into()).spawn(move || worker.work())?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Has `task` run at `at`.
    pub fn at(&self, at: Instant, task: Task) {
        let mut pending = self.shared.pending();
        let number = pending.added;
        pending.added += 1;
        let next = pending.heap.peek().map(|Reverse(due)| due.at);
        pending.heap.push(Reverse(Due { at, number, task }));
        if next.is_none_or(|next| at < next) {
            self.shared.changed.notify_one();
        }
    }
}

impl Shared {
    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let mut pending = self.pending();
        while !pending.ended {
            let now = Instant::now();
            pending = match pending.heap.peek().map(|Reverse(due)| due.at) {
                None => self.changed.wait(pending).unwrap_or_else(PoisonError::into_inner),
                Some(at) if at > now => {
                    self.changed.wait_timeout(pending, at - now).unwrap_or_else(PoisonError::into_inner).0
                }
                Some(_) => {
                    let due = pending.heap.pop();
                    drop(pending);
                    if let Some(Reverse(due)) = due {
                        (due.task)();
                    }
                    self.pending()
                }
            };
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.shared.pending().ended = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take()
            // The last task may be what drops the timer.
            && thread.thread().id() != thread::current().id()
        {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    #[test]
    fn tasks_run_in_the_order_of_their_times_and_not_early() {
        let timer = Timer::start().unwrap();
        let start = Instant::now();
        let (sender, receiver) = mpsc::channel();
        for ms in [30u64, 10, 20] {
            let sender = sender.clone();
            let at = start + Duration::from_millis(ms);
            timer.at(at, Box::new(move || sender.send((ms, Instant::now() >= at)).unwrap()));
        }
        let seen: Vec<_> = (0..3).map(|_| receiver.recv_timeout(Duration::from_secs(10)).unwrap()).collect();
        assert_eq!(seen, [(10, true), (20, true), (30, true)]);
    }
}
