//! The follower's part of a replicated stream: it asks the leader, writes down what comes next and asks again, which says that it has.

use forebay_types::NodeRank;
use forebay_wire::message::Checked;
use forebay_wire::write_message::WriteMessage;
use forebay_write::timing::{FOLLOW_RETRY_DELAY, FOLLOWED_WITHIN};
use serde::de::DeserializeOwned;

use crate::write::remote::Nodes;

/// A stream that this node follows, with how far it is.
pub trait Stream: Send {
    /// The leader's answer.
    type Answer: DeserializeOwned + Checked + Send;

    /// The node that leads.
    fn leader(&self) -> NodeRank;

    /// Asks it for what comes after all that was taken.
    fn question(&self) -> WriteMessage;

    /// Writes down what comes next; on a thread of the pool where that may block.
    ///
    /// # Errors
    /// Why it cannot be taken: it is asked for again.
    fn take(&mut self, answer: Self::Answer) -> impl Future<Output = Result<(), String>> + Send;

    /// The leader did not answer, or its answer could not be taken. Whether it is not followed any more.
    fn fail(&mut self, failed: String) -> impl Future<Output = bool> + Send;
}

/// Follows until all is over, or it is given up.
pub async fn follow(nodes: &Nodes, mut stream: impl Stream) {
    while !nodes.is_ending() {
        let (leader, question) = (stream.leader(), stream.question());
        let taken = match nodes.answer_of(leader, &question, FOLLOWED_WITHIN).await {
            Ok(answer) => stream.take(answer).await,
            Err(errno) => Err(format!("node {leader} does not answer: {errno}")),
        };
        let Err(failed) = taken else { continue };
        if nodes.is_ending() || stream.fail(failed).await {
            return;
        }
        nodes.pause(FOLLOW_RETRY_DELAY).await;
    }
}
