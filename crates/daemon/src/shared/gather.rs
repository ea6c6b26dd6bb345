//! Asking nodes about the job: a node and all below it, past those that are dead or silent.
//!
//! A node is asked whether it is there before it is asked anything that takes time, so a silent one costs a second; its
//! children are asked in its place. The order of nodes follows from the tree alone. `epoch` is the number of the last
//! refresh that this node knows of, which a node hears when it is asked whether it is there. Answers are JSON arrays.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use forebay_body::Body;
use forebay_dispatch::limits::PING_DEADLINE;
use forebay_transport::{Replier, Reply};
use forebay_types::{Epoch, NodeRank};
use forebay_wire::{JobMessage, Outcome, Request};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::node::Node;

/// The type of nodes' answers.
pub trait Answer: DeserializeOwned + Send + 'static {}

impl<T: DeserializeOwned + Send + 'static> Answer for T {}

/// The nodes' answers, and the nodes that did not answer.
pub struct Gathered<T> {
    pub answers: Vec<T>,
    pub unreachable: Vec<(NodeRank, String)>,
}

impl<T> Gathered<T> {
    fn none() -> Self {
        Self { answers: Vec::new(), unreachable: Vec::new() }
    }

    fn add(&mut self, other: Self) {
        self.answers.extend(other.answers);
        self.unreachable.extend(other.unreachable);
    }
}

/// The answers of `top` and all below it; when it does not itself, its children are asked in its place. So they are
/// where `top` is this node, which adds its own answer.
pub fn ask_from<T: Answer>(
    node: Arc<Node>,
    epoch: Epoch,
    top: NodeRank,
    message: JobMessage,
    left: Duration,
) -> Pin<Box<dyn Future<Output = Gathered<T>> + Send>> {
    Box::pin(async move {
        if top == node.rank() {
            return ask_children(&node, epoch, top, &message, left).await;
        }
        let deadline = Instant::now() + left;
        match ask_if_there(&node, epoch, top, message.clone(), left).await {
            Ok(answers) => Gathered { answers, unreachable: Vec::new() },
            Err(why) => {
                let left = deadline.saturating_duration_since(Instant::now());
                let mut gathered = ask_children(&node, epoch, top, &message, left).await;
                gathered.unreachable.push((top, why));
                gathered
            }
        }
    })
}

/// Asks the children of `parent`, all at once.
pub async fn ask_children<T: Answer>(
    node: &Arc<Node>,
    epoch: Epoch,
    parent: NodeRank,
    message: &JobMessage,
    left: Duration,
) -> Gathered<T> {
    let children = node.forest.first().children(parent);
    let ask = |child| node.spawn(ask_from(Arc::clone(node), epoch, child, message.clone(), left));
    let tasks: Vec<_> = children.map(ask).collect();
    let mut gathered = Gathered::none();
    for task in tasks {
        gathered.add(task.await.unwrap_or_else(|_| Gathered::none()));
    }
    gathered
}

/// Asks a node that says first that it is there.
pub async fn ask_if_there<T: Answer>(
    node: &Node,
    epoch: Epoch,
    to: NodeRank,
    message: JobMessage,
    left: Duration,
) -> Result<Vec<T>, String> {
    let deadline = Instant::now() + left;
    is_there(node, epoch, to, left).await?;
    ask(node, to, message, deadline.saturating_duration_since(Instant::now())).await
}

/// Has a node say that it is there, within a second; else the reason why it does not.
pub async fn is_there(node: &Node, epoch: Epoch, to: NodeRank, left: Duration) -> Result<(), String> {
    call(node, to, Request::from(JobMessage::Ping).in_epoch(epoch), left.min(PING_DEADLINE)).await.map(drop)
}

/// Asks a node.
pub async fn ask<T: Answer>(
    node: &Node,
    to: NodeRank,
    message: JobMessage,
    deadline: Duration,
) -> Result<Vec<T>, String> {
    let reply = call(node, to, message, deadline).await?;
    let body = reply.body.ok_or("an answer that is not text")?;
    body.whole_bytes().await.map_err(|errno| errno.to_string())?;
    let bytes = body.contiguous().unwrap_or_default();
    serde_json::from_slice(&bytes).map_err(|error| format!("invalid answer: {error}"))
}

/// Sends a node a request.
pub async fn call(node: &Node, to: NodeRank, request: impl Into<Request>, deadline: Duration) -> Result<Reply, String> {
    let endpoint = node.endpoint().ok_or("the daemon is starting")?;
    let reply = endpoint.call(to, request, deadline).await.map_err(|error| chain(&error))?;
    match reply.outcome {
        Outcome::Failed(errno) => Err(errno.to_string()),
        _ => Ok(reply),
    }
}

/// Answers whoever gathers.
pub fn answer_all(reply: Replier, values: &[impl Serialize]) {
    // Fails only for maps whose keys are no text.
    let bytes = Bytes::from(serde_json::to_vec(values).unwrap_or_default());
    reply.answer(Outcome::Text, Some(Body::whole(bytes)));
}

/// An error and its causes in one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
