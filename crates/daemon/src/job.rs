//! What concerns the job as a whole, carried over the tree: downwards status and shutdown, upwards explain and probe.
//!
//! No node that is dead or silent hides another (`gather`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use forebay_body::Body;
use forebay_node::Source;
use forebay_transport::{IncomingCall, Replier};
use forebay_types::{Errno, NodeRank, PIECE_BYTES, ViewPath};
use forebay_wire::{Outcome, Request};
use serde_json::{Value, json};

use crate::gather::{Gathered, ask_children, ask_from, ask_if_there, call, text};
use crate::service::Service;
use crate::{metrics, prefill, readiness};

/// How long a whole job may take to answer.
const JOB_DEADLINE: Duration = Duration::from_secs(10);

/// What a hop leaves of the time to the next, so that its own answer is still in time.
const HOP_SHARE: f64 = 0.8;

/// Whether the job is being ended from this node: it stays until it has told who ended.
static ENDS_JOB: AtomicBool = AtomicBool::new(false);

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
            if !ENDS_JOB.load(Ordering::Relaxed) {
                service.tell_to_end();
            }
        }
        Request::Probe { payload_bytes } => probe_answer(&service, reply, payload_bytes, left).await,
        _ => reply.answer(Outcome::Failed(Errno::EINVAL), None),
    }
}

/// The state of the whole job, as `status --json` shows it.
pub(super) async fn status(service: &Arc<Service>) -> Value {
    let mut nodes = status_from(service, service.forest.first().root(), JOB_DEADLINE).await;
    nodes.sort_by_key(|node| node["rank"].as_u64());
    json!({"job": metrics::job(service), "totals": metrics::totals(&nodes), "nodes": nodes})
}

/// Ends the daemons of the whole job; the ranks that ended.
pub(super) async fn shutdown(service: &Arc<Service>) -> Value {
    ENDS_JOB.store(true, Ordering::Relaxed);
    let mut ended = shutdown_from(service, service.forest.first().root(), JOB_DEADLINE).await;
    // It may not have been asked, having lost who would ask it.
    let own = json!(service.options.rank.0);
    if !ended.contains(&own) {
        ended.push(own);
    }
    service.tell_to_end();
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

async fn status_from(service: &Arc<Service>, top: NodeRank, left: Duration) -> Vec<Value> {
    if top == service.options.rank {
        return status_below(service, left).await;
    }
    with_unreachable(service, ask_from(service, top, Request::Status, left).await)
}

async fn status_below(service: &Arc<Service>, left: Duration) -> Vec<Value> {
    let below = ask_children(service, service.options.rank, &Request::Status, left).await;
    [vec![metrics::node(service)], with_unreachable(service, below)].concat()
}

fn with_unreachable(service: &Service, gathered: Gathered) -> Vec<Value> {
    let Gathered { mut answers, unreachable: silent } = gathered;
    answers.extend(silent.iter().map(|(rank, why)| unreachable(service, *rank, why)));
    answers
}

async fn shutdown_from(service: &Arc<Service>, top: NodeRank, left: Duration) -> Vec<Value> {
    if top == service.options.rank {
        return shutdown_below(service, left).await;
    }
    without_unreachable(ask_from(service, top, Request::Shutdown, left).await)
}

async fn shutdown_below(service: &Arc<Service>, left: Duration) -> Vec<Value> {
    prefill::look_before_end(service).await;
    let below = ask_children(service, service.options.rank, &Request::Shutdown, left).await;
    [without_unreachable(below), vec![json!(service.options.rank.0)]].concat()
}

fn without_unreachable(gathered: Gathered) -> Vec<Value> {
    for (rank, why) in gathered.unreachable {
        tracing::warn!(%rank, why, "a node did not end");
    }
    gathered.answers
}

async fn explain(service: &Arc<Service>, path: ViewPath, left: Duration) -> Vec<Value> {
    let explanation = service.core().explain(&path);
    let host = &service.options.nodes[service.options.rank.0 as usize].host;
    let answer = if explanation.answers || explanation.source == Source::Backing { "here" } else { "parent" };
    let mut steps = vec![json!({
        "rank": service.options.rank.0, "host": host, "answer": answer,
        "why": explanation.why, "kept": explanation.kept,
    })];
    if !explanation.answers {
        steps.extend(explain_above(service, &explanation.line, &path, left).await);
    }
    steps
}

/// The steps from the first of a line on that answers.
async fn explain_above(service: &Arc<Service>, line: &[NodeRank], path: &ViewPath, left: Duration) -> Vec<Value> {
    let deadline = Instant::now() + left;
    let mut steps = Vec::new();
    for peer in line {
        let left = deadline.saturating_duration_since(Instant::now());
        match ask_if_there(service, *peer, Request::Explain { path: path.clone() }, left).await {
            Ok(above) => {
                steps.extend(above);
                break;
            }
            Err(why) => steps.push(unreachable(service, *peer, &why)),
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

fn unreachable(service: &Service, rank: NodeRank, why: &str) -> Value {
    let state = if readiness::is_missing(service, rank) { "missing" } else { "unreachable" };
    json!({"rank": rank.0, "host": service.options.nodes[rank.0 as usize].host, "state": state, "why": why})
}
