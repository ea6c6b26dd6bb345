//! A start-up of which the first node sees nothing, because all programs run on others.
//!
//! Every node records; the first one alone writes down. Where its own kernel asks nothing, it asks the nodes below it for
//! what theirs did, and those pass on what the first of them has that has something. A job whose nodes do nothing is
//! asked less and less often.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use forebay_body::Body;
use forebay_transport::IncomingCall;
use forebay_types::{Errno, NodeRank, Time, limits};
use forebay_wire::recording::{decode_uses, encode_uses};
use forebay_wire::{Outcome, Request, Use};

use crate::service::Service;
use crate::{gather, readiness};

/// How long nodes are left alone at most of which none has used anything.
const INTERVAL_LONGEST: Duration = Duration::from_secs(60);

/// How long the other nodes may take.
const DEADLINE: Duration = Duration::from_secs(5);

/// How long they may keep the end of the job waiting.
const END_DEADLINE: Duration = Duration::from_millis(500);

/// What a hop leaves of the time to the next, so that its own answer is still in time.
const HOP_SHARE: f64 = 0.8;

/// What was used at another node, as far as it is known.
#[derive(Default)]
pub(super) struct Elsewhere(Mutex<State>);

#[derive(Default)]
struct State {
    uses: Vec<Use>,
    interval: Duration,
    next: Time,
}

impl Elsewhere {
    pub fn uses(&self) -> Vec<Use> {
        self.state().uses.clone()
    }

    pub fn count(&self) -> usize {
        self.state().uses.len()
    }

    /// Asks the other nodes if they are there and it is time to.
    pub async fn look(&self, service: &Arc<Service>) {
        if readiness::is_job_up(service) && self.state().next <= service.now() {
            self.ask(service, DEADLINE).await;
        }
    }

    async fn ask(&self, service: &Arc<Service>, left: Duration) {
        let found = first_below(Arc::clone(service), service.options.rank, left).await;
        let uses = found.and_then(|body| decode_uses(&body.contiguous()?).ok()).unwrap_or_default();
        let mut state = self.state();
        // One that is lost took nothing of what is known with it.
        let is_news = uses.len() > state.uses.len();
        state.interval = if is_news { limits::START_UP_QUIET } else { (state.interval * 2).min(INTERVAL_LONGEST) };
        state.interval = state.interval.max(limits::START_UP_QUIET);
        state.next = service.now().after(state.interval);
        if is_news {
            state.uses = uses;
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Looks a last time what other nodes have used, before they end.
pub(crate) async fn look_before_end(service: &Arc<Service>) {
    if super::record::is_recorder(service) && service.core().recorded_count() == 0 {
        service.prefill().elsewhere.ask(service, END_DEADLINE).await;
    }
}

/// Answers a node above that wants to know what was used here or below.
pub(crate) async fn tell(service: Arc<Service>, call: IncomingCall) {
    let own = service.core().recorded();
    let body = match own.is_empty() {
        true => first_below(Arc::clone(&service), service.options.rank, call.remaining.mul_f64(HOP_SHARE)).await,
        false => Some(Body::whole(Bytes::from(encode_uses(&own)))),
    };
    match body {
        Some(body) => call.reply.answer(Outcome::Body, Some(body)),
        None => call.reply.answer(Outcome::Failed(Errno::ENODATA), None),
    }
}

/// What the first of the nodes below `parent` has that has something. All are asked at once; the order is that of the
/// tree, so that it is the same node every time.
fn first_below(
    service: Arc<Service>,
    parent: NodeRank,
    left: Duration,
) -> Pin<Box<dyn Future<Output = Option<Arc<Body>>> + Send>> {
    Box::pin(async move {
        let children = service.forest.first().children(parent);
        let mut asked: Vec<_> =
            children.map(|child| tokio::spawn(first_from(Arc::clone(&service), child, left))).collect();
        let mut first = None;
        for task in &mut asked {
            if first.is_some() {
                task.abort();
            } else {
                first = task.await.ok().flatten();
            }
        }
        first
    })
}

/// What a node or one below it has; when it is not there, its children are asked in its place.
async fn first_from(service: Arc<Service>, node: NodeRank, left: Duration) -> Option<Arc<Body>> {
    let deadline = Instant::now() + left;
    let epoch = service.core().epoch();
    let there = gather::call(&service, node, Request::Ping { epoch }, left.min(limits::PING_DEADLINE)).await;
    let left = deadline.saturating_duration_since(Instant::now());
    if there.is_err() {
        return first_below(service, node, left).await;
    }
    let body = gather::call(&service, node, Request::Recording, left).await.ok()?.body?;
    body.whole_bytes().await.ok().map(|()| body)
}
