//! How nodes of the burst tier reach each other, whatever is between them.

use std::borrow::Cow;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use forebay_types::{Errno, NodeRank};
use forebay_wire::Outcome;
use forebay_wire::message::{Checked, decode};
use forebay_wire::write_message::WriteMessage;
use serde::de::DeserializeOwned;
use tokio::task::JoinHandle;

use crate::environment::{Operation, since_boot};

/// An event that a task waits for, without a thread.
pub type Waiting<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// An answer with its body.
pub type Answered = (Outcome, Vec<u8>);

/// The same as it comes from another node: the body in parts.
pub type Called = (Outcome, Vec<Bytes>);

/// Why a node does not answer.
pub enum Unanswered {
    /// It may later.
    Yet(String),
    /// It will not.
    Ever(String),
}

/// See the module.
pub trait Calls: Send + Sync {
    /// This node.
    fn own(&self) -> NodeRank;

    /// The ranks of all nodes but this one.
    fn others(&self) -> Vec<NodeRank>;

    /// The answer of a node within a time, or why there is none.
    fn call<'a>(
        &'a self,
        to: NodeRank,
        message: &'a WriteMessage,
        within: Duration,
    ) -> Waiting<'a, Result<Called, Unanswered>>;

    /// A time that goes by.
    fn pause(&self, time: Duration) -> Waiting<'static, ()>;

    /// Has something done that may block, on one of the threads for that.
    fn block(&self, operation: Operation);

    /// Has a task done beside the others.
    fn spawn(&self, task: Waiting<'static, ()>) -> JoinHandle<()>;

    /// A task that another thread than the daemon's runtime goes on with, and that waits for the network.
    fn in_context(&self, task: Waiting<'static, ()>) -> Waiting<'static, ()> {
        task
    }

    /// Answers that a node has not given yet are not waited for any more.
    fn forsake(&self, _: NodeRank) {}

    /// Waits end.
    fn end(&self) {}

    /// The time since the machine was started.
    fn since_boot(&self) -> Duration {
        since_boot()
    }
}

/// Waits until all are over. Their outcomes come in the order of their ends.
pub async fn all<T>(waiting: Vec<Waiting<'_, T>>) -> Vec<T> {
    until(waiting, |_| false).await
}

/// The same until what some have come to `is_enough`. The others are dropped.
pub async fn until<T>(mut waiting: Vec<Waiting<'_, T>>, is_enough: impl Fn(&[T]) -> bool) -> Vec<T> {
    let mut ended = vec![];
    std::future::poll_fn(|context| {
        waiting.retain_mut(|one| match one.as_mut().poll(context) {
            Poll::Ready(came_to) => {
                ended.push(came_to);
                false
            }
            Poll::Pending => true,
        });
        if waiting.is_empty() || is_enough(&ended) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    ended
}

/// Fills `into` with `parts`, which are as long together.
pub fn copy(parts: &[Bytes], mut into: &mut [u8]) {
    for part in parts {
        let (here, after) = into.split_at_mut(part.len());
        here.copy_from_slice(part);
        into = after;
    }
}

/// A body that is not a file's contents.
pub fn whole(body: &[Bytes]) -> Cow<'_, [u8]> {
    match body {
        [body] => Cow::Borrowed(body),
        parts => Cow::Owned(parts.concat()),
    }
}

/// An answer that is a value.
pub fn decoded<T: DeserializeOwned + Checked>(outcome: &Outcome, body: &[Bytes]) -> Result<T, Errno> {
    match outcome {
        Outcome::Body => decode(&whole(body)).map_err(|_| Errno::EPROTO),
        _ => Err(Errno::EPROTO),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(seconds: u64) -> Waiting<'static, u64> {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            seconds
        })
    }

    /// A vote that is decided does not wait for a silent member.
    #[tokio::test(start_paused = true)]
    async fn those_that_are_not_needed_are_not_waited_for() {
        let began = tokio::time::Instant::now();
        let ended = until([3, 600, 1, 2].map(after).into(), |ended| ended.len() == 2).await;
        assert_eq!((ended, began.elapsed()), (vec![1, 2], Duration::from_secs(2)));
        assert_eq!(all([2, 1].map(after).into()).await, [1, 2]);
        assert!(all::<u64>(vec![]).await.is_empty());
    }
}
