//! Refreshes, carried over the tree: each step is taken here, then by the children, then answered.
//!
//! A child that cannot be reached is bypassed, and its children are asked in its place; it is named in the end. The root
//! leads, one refresh after the other; whoever is asked by the user passes the wish on to it.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use forebay_node::QUIET_MAX;
use forebay_transport::Replier;
use forebay_types::{Epoch, NodeRank, ViewPath};
use forebay_wire::{JobMessage, RefreshStep};
use serde_json::{Value, json};

use super::backing::Backing;
use super::core::Core;
use super::entry_ttl::EntryTtl;
use super::view::{View, invalidate};
use crate::shared::gather;
use crate::shared::node::Node;

/// How long one step may take on the whole job: the kernel may make a node wait for requests that are under way.
const STEP_DEADLINE: Duration = Duration::from_secs(9);

/// What a hop leaves of the time to the next, so that its own answer is still in time.
const HOP_SHARE: f64 = 0.9;

/// A step of a refresh of some paths.
type Step = (Epoch, RefreshStep, Vec<ViewPath>);

/// What it takes to lead a refresh, or to take a step of one.
pub struct Refresh {
    node: Arc<Node>,
    core: Arc<Core>,
    backing: Arc<Backing>,
    view: Arc<View>,
    entry_ttl: Arc<EntryTtl>,
    /// Held by whoever leads one.
    leading: tokio::sync::Mutex<()>,
}

impl Refresh {
    pub fn new(
        node: &Arc<Node>,
        core: &Arc<Core>,
        backing: &Arc<Backing>,
        view: &Arc<View>,
        entry_ttl: &Arc<EntryTtl>,
    ) -> Arc<Self> {
        Arc::new(Self {
            node: Arc::clone(node),
            core: Arc::clone(core),
            backing: Arc::clone(backing),
            view: Arc::clone(view),
            entry_ttl: Arc::clone(entry_ttl),
            leading: tokio::sync::Mutex::default(),
        })
    }

    /// Leads a refresh for a peer.
    pub async fn answer_lead(self: Arc<Self>, paths: Vec<ViewPath>, reply: Replier) {
        let outcome = self.lead(paths).await;
        gather::answer_all(reply, &[outcome]);
    }

    /// Takes a step that a peer asks for.
    pub async fn answer(self: Arc<Self>, step: Step, remaining: Duration, reply: Replier) {
        let (epoch, step, paths) = step;
        let reached = self.take_step(epoch, step, paths, remaining.mul_f64(HOP_SHARE)).await;
        let reached: Vec<u32> = reached.iter().map(|rank| rank.0).collect();
        gather::answer_all(reply, &reached);
    }

    /// Refreshes `paths` on the whole job: how long it took, and the nodes that were not reached.
    ///
    /// # Errors
    /// When no node that may lead can be reached.
    pub async fn refresh(&self, paths: Vec<ViewPath>) -> Result<Value, String> {
        let leaders: Vec<NodeRank> = {
            let suspects = self.core.lock().suspects();
            let candidates = self.node.forest.first().root_candidates();
            candidates.filter(|rank| !suspects.contains(rank)).collect()
        };
        let mut why = "no node that may lead it can be reached".to_owned();
        for leader in leaders {
            if leader == self.node.rank() {
                return Ok(self.lead(paths).await);
            }
            let request = JobMessage::LeadRefresh { paths: paths.clone() };
            match gather::ask::<Value>(&self.node, leader, request, STEP_DEADLINE * 3).await {
                Ok(mut answer) if answer.len() == 1 => return Ok(answer.remove(0)),
                Ok(_) => why = format!("node {leader} answered what is no outcome"),
                Err(error) => why = error,
            }
        }
        Err(format!("nothing was refreshed for certain: {why}; try again"))
    }

    async fn lead(&self, paths: Vec<ViewPath>) -> Value {
        let begun = Instant::now();
        let _one_at_a_time = self.leading.lock().await;
        let epoch = self.next_epoch();
        let mut reached: Option<Vec<NodeRank>> = None;
        for step in [RefreshStep::Quiet, RefreshStep::Hold, RefreshStep::Release] {
            let mut took = self.take_step(epoch, step, paths.clone(), STEP_DEADLINE).await;
            took.sort_unstable();
            reached = Some(match reached {
                Some(earlier) => earlier.into_iter().filter(|rank| took.contains(rank)).collect(),
                None => took,
            });
        }
        let reached = reached.unwrap_or_default();
        let all = (0..self.node.options.nodes.len() as u32).map(NodeRank);
        let unreached: Vec<u32> = all.filter(|rank| !reached.contains(rank)).map(|rank| rank.0).collect();
        let took_ms = begun.elapsed().as_secs_f64() * 1e3;
        tracing::info!(%epoch, ?unreached, took_ms, "refreshed");
        json!({"epoch": epoch.0, "reached": reached.len(), "unreached": unreached, "took_ms": took_ms})
    }

    /// A number above all that were given: by the time of day, since whoever leads may have been started after the last one.
    fn next_epoch(&self) -> Epoch {
        let today = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
        Epoch(today.max(self.core.lock().epoch().0 + 1))
    }

    /// Takes a step here and below; the nodes that took it.
    async fn take_step(&self, epoch: Epoch, step: RefreshStep, paths: Vec<ViewPath>, left: Duration) -> Vec<NodeRank> {
        let request = JobMessage::Refresh { epoch, step, paths: paths.clone() };
        let known = self.core.lock().epoch();
        let (below, here) = tokio::join!(
            gather::ask_children::<u32>(&self.node, known, self.node.rank(), &request, left),
            self.step_here(epoch, step, paths)
        );
        let below = below.answers.into_iter().map(NodeRank);
        below.chain(here.then_some(self.node.rank())).collect()
    }

    async fn step_here(&self, epoch: Epoch, step: RefreshStep, paths: Vec<ViewPath>) -> bool {
        self.backing.forget_descriptors();
        match step {
            RefreshStep::Quiet => return self.make_quiet(epoch, paths).await,
            RefreshStep::Hold => return self.core.decide(|core, now| core.handle_hold(now, epoch, paths)),
            RefreshStep::Release => {
                self.core.decide(|core, now| core.handle_release(now, epoch));
                self.entry_ttl.be_quiet(None);
            }
        }
        true
    }

    /// From now on the kernel remembers nothing; what it remembers of `paths` it forgets. Twice: an answer that was on its
    /// way to the kernel when the first began may have come between.
    async fn make_quiet(&self, epoch: Epoch, paths: Vec<ViewPath>) -> bool {
        self.core.decide(|core, now| core.handle_quiet(now, epoch, paths.clone()));
        self.entry_ttl.be_quiet(Some(QUIET_MAX));
        let Some(notifier) = self.view.notifier() else {
            return true;
        };
        let core = Arc::clone(&self.core);
        let told = tokio::task::spawn_blocking(move || {
            for _ in 0..2 {
                let stale = core.lock().stale_within(&paths);
                invalidate(&notifier, &stale);
            }
        });
        told.await.is_ok()
    }
}
