//! A start-up of which the first node sees nothing, because all programs run on others.
//!
//! Every node records; the first one alone writes down. Where its own kernel asks nothing, it asks the nodes below it for
//! what theirs did, and those pass on what the first of them has that has something. A job whose nodes do nothing is
//! asked less and less often.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use forebay_body::Body;
use forebay_dispatch::limits::PING_DEADLINE;
use forebay_transport::Replier;
use forebay_types::{Epoch, Errno, NodeRank, Time};
use forebay_wire::recording::{decode_uses, encode_uses};
use forebay_wire::{JobMessage, Outcome, Request, Use};

use tokio::time::Instant;

use super::source::is_recorder;
use crate::limits;
use crate::read::core::Core;
use crate::shared::gather;
use crate::shared::node::Node;

/// How long nodes are left alone at most of which none has used anything.
const INTERVAL_LONGEST: Duration = Duration::from_secs(60);

/// How long the other nodes may take.
const DEADLINE: Duration = Duration::from_secs(5);

/// How long they may keep the end of the job waiting.
const END_DEADLINE: Duration = Duration::from_millis(500);

/// The share of the time that a hop leaves to the next, so that its own answer is still in time.
const HOP_SHARE: f64 = 0.8;

/// The uses recorded at another node, as far as they are known.
pub struct RemoteRecording {
    node: Arc<Node>,
    core: Arc<Core>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    uses: Vec<Use>,
    interval: Duration,
    next: Time,
}

impl RemoteRecording {
    pub fn new(node: &Arc<Node>, core: &Arc<Core>) -> Arc<Self> {
        Arc::new(Self { node: Arc::clone(node), core: Arc::clone(core), state: Mutex::default() })
    }

    pub fn uses(&self) -> Vec<Use> {
        self.state().uses.clone()
    }

    pub fn count(&self) -> usize {
        self.state().uses.len()
    }

    /// Asks the other nodes if they are there and it is time to.
    pub async fn look(&self) {
        if self.node.is_job_up() && self.state().next <= self.node.now() {
            self.ask(DEADLINE).await;
        }
    }

    /// Looks a last time what other nodes have used, before they end.
    pub async fn look_before_end(&self) {
        if is_recorder(&self.node) && self.core.lock().recorded_count() == 0 {
            self.ask(END_DEADLINE).await;
        }
    }

    /// Answers a node above that wants to know what was used here or below.
    pub async fn tell(&self, remaining: Duration, reply: Replier) {
        let own = self.core.lock().recorded();
        let body = match own.is_empty() {
            true => self.first_below(remaining.mul_f64(HOP_SHARE)).await,
            false => Some(Body::whole(Bytes::from(encode_uses(&own)))),
        };
        match body {
            Some(body) => reply.answer(Outcome::Body, Some(body)),
            None => reply.answer(Outcome::Failed(Errno::ENODATA), None),
        }
    }

    async fn ask(&self, left: Duration) {
        let found = self.first_below(left).await;
        let uses = found.and_then(|body| decode_uses(&body.contiguous()?).ok()).unwrap_or_default();
        let mut state = self.state();
        // One that is lost took nothing of what is known with it.
        let is_news = uses.len() > state.uses.len();
        state.interval = if is_news { limits::START_UP_QUIET } else { (state.interval * 2).min(INTERVAL_LONGEST) };
        state.interval = state.interval.max(limits::START_UP_QUIET);
        state.next = self.node.now().after(state.interval);
        if is_news {
            state.uses = uses;
        }
    }

    async fn first_below(&self, left: Duration) -> Option<Arc<Body>> {
        let epoch = self.core.lock().epoch();
        first_below(Arc::clone(&self.node), epoch, self.node.rank(), left).await
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The recording of the first of the nodes below `parent` that has one. All are asked at once; the order is that of the
/// tree, so that it is the same node every time.
fn first_below(
    node: Arc<Node>,
    epoch: Epoch,
    parent: NodeRank,
    left: Duration,
) -> Pin<Box<dyn Future<Output = Option<Arc<Body>>> + Send>> {
    Box::pin(async move {
        let children = node.forest.first().children(parent);
        let mut asked: Vec<_> =
            children.map(|child| node.spawn(first_from(Arc::clone(&node), epoch, child, left))).collect();
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

/// The recording of a node or one below it; when it is not there, its children are asked in its place.
async fn first_from(node: Arc<Node>, epoch: Epoch, from: NodeRank, left: Duration) -> Option<Arc<Body>> {
    let deadline = Instant::now() + left;
    let there =
        gather::call(&node, from, Request::from(JobMessage::Ping).in_epoch(epoch), left.min(PING_DEADLINE)).await;
    let left = deadline.saturating_duration_since(Instant::now());
    if there.is_err() {
        return first_below(node, epoch, from, left).await;
    }
    let body = gather::call(&node, from, JobMessage::Recording, left).await.ok()?.body?;
    body.whole_bytes().await.ok().map(|()| body)
}
