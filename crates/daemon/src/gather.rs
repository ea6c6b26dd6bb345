//! Asking nodes about the job: a node and all below it, past those that are dead or silent.
//!
//! A node is asked whether it is there before it is asked anything that takes time, so a silent one costs a second; its
//! children are asked in its place. Who stands below whom follows from the tree alone.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use forebay_body::Body;
use forebay_transport::{Replier, Reply};
use forebay_types::{NodeRank, limits};
use forebay_wire::{Outcome, Request};
use serde_json::Value;

use crate::fetch::chain;
use crate::service::Service;

/// What nodes answered, and who did not.
#[derive(Default)]
pub(super) struct Gathered {
    pub answers: Vec<Value>,
    pub unreachable: Vec<(NodeRank, String)>,
}

impl Gathered {
    fn add(&mut self, other: Self) {
        self.answers.extend(other.answers);
        self.unreachable.extend(other.unreachable);
    }
}

/// What `top` and all below it answer; when it does not itself, its children are asked in its place.
pub(super) fn ask_from(
    service: &Arc<Service>,
    top: NodeRank,
    request: Request,
    left: Duration,
) -> Pin<Box<dyn Future<Output = Gathered> + Send>> {
    let service = Arc::clone(service);
    Box::pin(async move {
        let deadline = Instant::now() + left;
        match ask_if_there(&service, top, request.clone(), left).await {
            Ok(answers) => Gathered { answers, unreachable: Vec::new() },
            Err(why) => {
                let left = deadline.saturating_duration_since(Instant::now());
                let mut gathered = ask_children(&service, top, &request, left).await;
                gathered.unreachable.push((top, why));
                gathered
            }
        }
    })
}

/// Asks the children of `parent`, all at once.
pub(super) async fn ask_children(
    service: &Arc<Service>,
    parent: NodeRank,
    request: &Request,
    left: Duration,
) -> Gathered {
    let children = service.forest.first().children(parent);
    let tasks: Vec<_> = children.map(|child| tokio::spawn(ask_from(service, child, request.clone(), left))).collect();
    let mut gathered = Gathered::default();
    for task in tasks {
        gathered.add(task.await.unwrap_or_default());
    }
    gathered
}

/// Asks a node that says first that it is there.
pub(super) async fn ask_if_there(
    service: &Arc<Service>,
    to: NodeRank,
    request: Request,
    left: Duration,
) -> Result<Vec<Value>, String> {
    let deadline = Instant::now() + left;
    let epoch = service.core().epoch();
    call(service, to, Request::Ping { epoch }, left.min(limits::PING_DEADLINE)).await?;
    ask(service, to, request, deadline.saturating_duration_since(Instant::now())).await
}

pub(super) async fn ask(
    service: &Arc<Service>,
    to: NodeRank,
    request: Request,
    deadline: Duration,
) -> Result<Vec<Value>, String> {
    let reply = call(service, to, request, deadline).await?;
    let body = reply.body.ok_or("an answer without text")?;
    body.whole_bytes().await.map_err(|errno| errno.to_string())?;
    let bytes = body.contiguous().unwrap_or_default();
    serde_json::from_slice(&bytes).map_err(|error| format!("an answer that is no JSON array: {error}"))
}

pub(super) async fn call(
    service: &Arc<Service>,
    to: NodeRank,
    request: Request,
    deadline: Duration,
) -> Result<Reply, String> {
    let endpoint = service.endpoint().ok_or("the daemon is starting")?;
    let reply = endpoint.call(to, request, deadline).await.map_err(|error| chain(&error))?;
    match reply.outcome {
        Outcome::Failed(errno) => Err(errno.to_string()),
        _ => Ok(reply),
    }
}

/// Answers with JSON.
pub(super) fn text(reply: Replier, values: Vec<Value>) {
    let bytes = Bytes::from(Value::Array(values).to_string());
    reply.answer(Outcome::Text, Some(Body::whole(bytes)));
}
