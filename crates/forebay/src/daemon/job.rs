//! What concerns the job as a whole, carried over the tree: downwards status and shutdown, upwards explain and probe.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use forebay_body::Body;
use forebay_node::Source;
use forebay_transport::{IncomingCall, Replier, Reply};
use forebay_types::{Errno, NodeRank, PIECE_BYTES, ViewPath};
use forebay_wire::{Outcome, Request};
use serde_json::{Value, json};

use super::fetch::chain;
use super::metrics;
use super::service::Service;

/// How long a whole job may take to answer.
const JOB_DEADLINE: Duration = Duration::from_secs(10);

/// What a hop leaves of the time to the next, so that its own answer is still in time.
const HOP_SHARE: f64 = 0.8;

/// Answers a peer's question about the job.
pub(super) async fn answer(service: Arc<Service>, call: IncomingCall) {
    let IncomingCall { request, remaining, reply, .. } = call;
    let left = remaining.mul_f64(HOP_SHARE);
    match request {
        Request::Status => text(reply, status_below(&service, left).await),
        Request::Explain { path } => text(reply, explain(&service, path, left).await),
        Request::Shutdown => {
            let ended = shutdown_below(&service, left).await;
            text(reply, ended);
            service.tell_to_end();
        }
        Request::Probe { payload_bytes } => probe_answer(&service, reply, payload_bytes, left).await,
        _ => reply.answer(Outcome::Failed(Errno::EINVAL), None),
    }
}

/// The state of the whole job, as `status --json` shows it.
pub(super) async fn status(service: &Arc<Service>) -> Value {
    let nodes = match ask_root(service, Request::Status).await {
        Some(Ok(nodes)) => nodes,
        Some(Err(why)) => vec![metrics::node(service), unreachable(super::root_of(&service.forest), &why)],
        None => status_below(service, JOB_DEADLINE).await,
    };
    let mut nodes = nodes;
    nodes.sort_by_key(|node| node["rank"].as_u64());
    json!({"job": metrics::job(service), "totals": metrics::totals(&nodes), "nodes": nodes})
}

/// Ends the daemons of the whole job; the ranks that ended.
pub(super) async fn shutdown(service: &Arc<Service>) -> Value {
    let ended = match ask_root(service, Request::Shutdown).await {
        Some(Ok(ended)) => ended,
        Some(Err(why)) => {
            tracing::warn!(why, "the root does not answer; ending this node alone");
            service.tell_to_end();
            vec![json!(service.options.rank.0)]
        }
        None => {
            let ended = shutdown_below(service, JOB_DEADLINE).await;
            service.tell_to_end();
            ended
        }
    };
    json!({"ended": ended})
}

/// Where an answer for `path` would come from, from this node up to where the question ends.
pub(super) async fn explain_path(service: &Arc<Service>, path: ViewPath) -> Value {
    Value::Array(explain(service, path, JOB_DEADLINE).await)
}

/// Round trips to the root and back with `payload_bytes` on the way back, microseconds each.
pub(super) async fn probe(service: &Arc<Service>, payload_bytes: u32, count: u32) -> Result<Value, String> {
    let Some(parent) = service.forest.first().parent(service.options.rank) else {
        return Err("this node is the root; ask another node".to_owned());
    };
    let mut round_trip_us = Vec::new();
    for _ in 0..count {
        let begun = std::time::Instant::now();
        let reply = call(service, parent, Request::Probe { payload_bytes }, JOB_DEADLINE).await?;
        if let Some(body) = &reply.body {
            body.whole_bytes().await.map_err(|errno| errno.to_string())?;
        }
        round_trip_us.push(begun.elapsed().as_secs_f64() * 1e6);
    }
    Ok(json!({"payload_bytes": payload_bytes, "round_trip_us": round_trip_us}))
}

async fn status_below(service: &Arc<Service>, left: Duration) -> Vec<Value> {
    let mut nodes = vec![metrics::node(service)];
    for (child, answer) in ask_children(service, &Request::Status, left).await {
        match answer {
            Ok(answer) => nodes.extend(answer),
            Err(why) => nodes.push(unreachable(child, &why)),
        }
    }
    nodes
}

async fn shutdown_below(service: &Arc<Service>, left: Duration) -> Vec<Value> {
    let mut ended = Vec::new();
    for (child, answer) in ask_children(service, &Request::Shutdown, left).await {
        match answer {
            Ok(answer) => ended.extend(answer),
            Err(why) => tracing::warn!(%child, why, "a node did not end"),
        }
    }
    ended.push(json!(service.options.rank.0));
    ended
}

async fn explain(service: &Arc<Service>, path: ViewPath, left: Duration) -> Vec<Value> {
    let explanation = service.core().explain(&path);
    let host = &service.options.nodes[service.options.rank.0 as usize].host;
    let answer = if explanation.answers || explanation.source == Source::Backing { "here" } else { "parent" };
    let mut steps = vec![json!({
        "rank": service.options.rank.0, "host": host, "answer": answer,
        "why": explanation.why, "kept": explanation.kept,
    })];
    if let (Source::Peer(parent), false) = (explanation.source, explanation.answers) {
        match ask(service, parent, Request::Explain { path }, left).await {
            Ok(above) => steps.extend(above),
            Err(why) => steps.push(unreachable(parent, &why)),
        }
    }
    steps
}

/// The root makes the payload; every node on the way forwards it while it arrives.
async fn probe_answer(service: &Arc<Service>, reply: Replier, payload_bytes: u32, left: Duration) {
    let Some(parent) = service.forest.first().parent(service.options.rank) else {
        let body = Body::growing(payload_bytes as usize);
        let mut left_bytes = payload_bytes as usize;
        while left_bytes > 0 {
            let piece_bytes = left_bytes.min(PIECE_BYTES);
            body.push(service.pool().take(piece_bytes).freeze(piece_bytes));
            left_bytes -= piece_bytes;
        }
        return reply.answer(Outcome::Body, Some(body));
    };
    match call(service, parent, Request::Probe { payload_bytes }, left).await {
        Ok(answer) => reply.answer(answer.outcome, answer.body),
        Err(_) => reply.answer(Outcome::Failed(Errno::EHOSTUNREACH), None),
    }
}

/// Asks the root for a JSON array; `None` when this node is the root.
async fn ask_root(service: &Arc<Service>, request: Request) -> Option<Result<Vec<Value>, String>> {
    let root = super::root_of(&service.forest);
    if root == service.options.rank {
        return None;
    }
    Some(ask(service, root, request, JOB_DEADLINE).await)
}

async fn ask_children(
    service: &Arc<Service>,
    request: &Request,
    left: Duration,
) -> Vec<(NodeRank, Result<Vec<Value>, String>)> {
    let children = service.forest.first().children(service.options.rank);
    let ask_child = |child| {
        let (service, request) = (Arc::clone(service), request.clone());
        (child, tokio::spawn(async move { ask(&service, child, request, left).await }))
    };
    let mut answers = Vec::new();
    for (child, task) in children.map(ask_child).collect::<Vec<_>>() {
        answers.push((child, task.await.unwrap_or_else(|error| Err(error.to_string()))));
    }
    answers
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

async fn call(service: &Arc<Service>, to: NodeRank, request: Request, deadline: Duration) -> Result<Reply, String> {
    let endpoint = service.endpoint().ok_or("the daemon is starting")?;
    let reply = endpoint.call(to, request, deadline).await.map_err(|error| chain(&error))?;
    match reply.outcome {
        Outcome::Failed(errno) => Err(errno.to_string()),
        _ => Ok(reply),
    }
}

pub(super) fn text(reply: Replier, values: Vec<Value>) {
    let bytes = Bytes::from(Value::Array(values).to_string());
    reply.answer(Outcome::Text, Some(Body::whole(bytes)));
}

fn unreachable(rank: NodeRank, why: &str) -> Value {
    json!({"rank": rank.0, "state": "unreachable", "why": why})
}
