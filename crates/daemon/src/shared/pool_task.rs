//! A task that threads for calls that may block go on with: whenever something has woken it, and only while it has something to do.
//!
//! It may lock what others hold while they write to the node's disk, and write there itself. The network's thread, which has the other tasks,
//! must not wait for a disk. A task of the runtime hands it to a thread each time: a waker may be called by any thread, also by a simulated one
//! of another node, and begins none.

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use tokio::sync::{Notify, oneshot};

use crate::environment::Operation;

/// Something has woken the task.
#[derive(Default)]
struct Woken(Notify);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}

/// The result of what may block, on a thread that `block` has for it; `None` when the daemon ends.
pub async fn block<T: Send + 'static>(
    block: impl FnOnce(Operation),
    operation: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (done, outcome) = oneshot::channel();
    // The receiver may be gone.
    block(Box::new(move || drop(done.send(operation()))));
    outcome.await.ok()
}

/// The outcome of a task of which `block` has each part done by a thread; `None` when the daemon ends.
pub async fn on_pool<T: Send + 'static>(
    block: impl Fn(Operation),
    task: impl Future<Output = T> + Send + 'static,
) -> Option<T> {
    let (woken, mut task) = (Arc::<Woken>::default(), Box::pin(task));
    loop {
        let waker = Waker::from(Arc::clone(&woken));
        let go_on = move || {
            let polled = task.as_mut().poll(&mut Context::from_waker(&waker));
            (polled, task)
        };
        match self::block(&block, go_on).await? {
            (Poll::Ready(outcome), _) => return Some(outcome),
            (Poll::Pending, rest) => task = rest,
        }
        woken.0.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;

    /// A wake-up while a thread goes on with the task is not lost.
    #[tokio::test]
    async fn a_task_has_a_thread_only_while_it_goes_on() {
        let parts = Arc::new(AtomicUsize::new(0));
        let (of_pool, own) = (Arc::clone(&parts), thread::current().id());
        let block = move |operation: Operation| {
            let parts = Arc::clone(&of_pool);
            thread::spawn(move || {
                operation();
                parts.fetch_add(1, Ordering::SeqCst);
            });
        };
        let (go, gone) = oneshot::channel();
        let task = async move {
            let mut is_first = true;
            std::future::poll_fn(|context| {
                context.waker().wake_by_ref();
                if std::mem::replace(&mut is_first, false) { Poll::Pending } else { Poll::Ready(()) }
            })
            .await;
            gone.await.unwrap();
            thread::current().id()
        };
        let waits = async {
            while parts.load(Ordering::SeqCst) < 2 {
                tokio::task::yield_now().await;
            }
            go.send(()).unwrap();
        };
        let (by, ()) = tokio::join!(on_pool(block, task), waits);
        assert_ne!(by, Some(own));
    }

    /// Threads that the daemon does not have any more drop what they get.
    #[tokio::test]
    async fn a_task_is_over_with_its_threads() {
        assert_eq!(on_pool(drop, std::future::pending::<()>()).await, None);
    }
}
