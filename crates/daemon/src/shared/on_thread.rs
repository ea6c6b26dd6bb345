//! A thread that carries a task out: the task waits without blocking it, and what the task calls may wait on it as on any thread that may block.
//!
//! The runtime's own way (`Handle::block_on`) does not allow that: a wait within a wait panics there.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

struct Woken {
    thread: Thread,
    /// The thread's own mark is not enough: who waits within the task may take that.
    is_woken: AtomicBool,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// Carries a task out on the present thread.
pub fn carry_out<T>(task: impl Future<Output = T>) -> T {
    let mut task = pin!(task);
    let woken = Arc::new(Woken { thread: thread::current(), is_woken: AtomicBool::new(false) });
    let waker = Waker::from(Arc::clone(&woken));
    loop {
        if let Poll::Ready(outcome) = task.as_mut().poll(&mut Context::from_waker(&waker)) {
            return outcome;
        }
        while !woken.is_woken.swap(false, Ordering::Acquire) {
            thread::park();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::oneshot;

    use super::*;

    #[test]
    fn a_wait_within_a_task_takes_no_wake_up_from_it() {
        let ((go, gone), (within, waits)) = (oneshot::channel(), oneshot::channel());
        let other = thread::spawn(move || {
            waits.blocking_recv().unwrap();
            go.send(5).unwrap();
        });
        let task = async {
            let mut gone = pin!(gone);
            // It registers, is woken while it waits below, and is asked again afterwards.
            assert!(std::future::poll_fn(|context| Poll::Ready(gone.as_mut().poll(context).is_pending())).await);
            carry_out(async { within.send(()).unwrap() });
            other.join().unwrap();
            thread::park_timeout(Duration::from_secs(60));
            gone.await.unwrap()
        };
        assert_eq!(carry_out(task), 5);
    }
}
