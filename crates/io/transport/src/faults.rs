//! How long bytes take on a network within the process, and what keeps them from arriving.
//!
//! A route leads from one node to another; the route back has delays and cuts of its own. Bytes on a route that is cut
//! wait, as those that TCP retransmits do, and arrive when the route is mended.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use forebay_types::NodeRank;
use tokio::time::{Instant, sleep_until};

use crate::lock::lock;

pub(crate) type Latency = dyn Fn(NodeRank, NodeRank) -> Duration + Send + Sync;

/// The faults of one network.
#[derive(Default)]
pub(crate) struct Faults {
    latency: Option<Box<Latency>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    slow: BTreeMap<NodeRank, Duration>,
    /// By the nodes from and to which nothing gets through.
    cuts: BTreeMap<(NodeRank, NodeRank), Cut>,
}

struct Cut {
    since: Instant,
    waiting: Vec<Waker>,
}

impl Faults {
    pub(crate) fn with_latency(latency: Box<Latency>) -> Self {
        Self { latency: Some(latency), ..Self::default() }
    }

    pub(crate) fn cut(&self, from: NodeRank, to: NodeRank) {
        let new = || Cut { since: Instant::now(), waiting: Vec::new() };
        lock(&self.state).cuts.entry((from, to)).or_insert_with(new);
    }

    pub(crate) fn mend(&self, from: NodeRank, to: NodeRank) {
        let cut = lock(&self.state).cuts.remove(&(from, to));
        cut.into_iter().for_each(Cut::wake);
    }

    pub(crate) fn mend_all(&self) {
        let cuts = std::mem::take(&mut lock(&self.state).cuts);
        cuts.into_values().for_each(Cut::wake);
    }

    pub(crate) fn slow(&self, node: NodeRank, by: Duration) {
        lock(&self.state).slow.insert(node, by);
    }
}

impl Cut {
    fn wake(self) {
        self.waiting.into_iter().for_each(Waker::wake);
    }
}

/// The way from one node to another.
#[derive(Clone)]
pub(crate) struct Route {
    faults: Arc<Faults>,
    from: NodeRank,
    to: NodeRank,
}

impl Route {
    pub(crate) fn new(faults: &Arc<Faults>, from: NodeRank, to: NodeRank) -> Self {
        Self { faults: Arc::clone(faults), from, to }
    }

    pub(crate) fn back(&self) -> Self {
        Self::new(&self.faults, self.to, self.from)
    }

    /// When what leaves now is due.
    pub(crate) fn due(&self) -> Instant {
        let latency = self.faults.latency.as_ref().map_or(Duration::ZERO, |latency| latency(self.from, self.to));
        let state = lock(&self.faults.state);
        let slow = [self.from, self.to].into_iter().filter_map(|node| state.slow.get(&node)).sum::<Duration>();
        Instant::now() + latency + slow
    }

    /// The time until which all that was due has arrived.
    pub(crate) fn arrived_until(&self) -> Instant {
        let state = lock(&self.faults.state);
        state.cuts.get(&(self.from, self.to)).map_or_else(Instant::now, |cut| cut.since)
    }

    /// Ready when no cut keeps what is due then from arriving.
    pub(crate) fn poll_open(&self, due: Instant, context: &Context<'_>) -> Poll<()> {
        let mut state = lock(&self.faults.state);
        match state.cuts.get_mut(&(self.from, self.to)) {
            Some(cut) if due > cut.since => {
                if !cut.waiting.iter().any(|waker| waker.will_wake(context.waker())) {
                    cut.waiting.push(context.waker().clone());
                }
                Poll::Pending
            }
            _ => Poll::Ready(()),
        }
    }

    /// Takes as long as a packet takes.
    pub(crate) async fn travel(&self) {
        let due = self.due();
        if due > Instant::now() {
            sleep_until(due).await;
        }
        std::future::poll_fn(|context| self.poll_open(due, context)).await;
    }
}
