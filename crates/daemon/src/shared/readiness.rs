//! The daemon's part in the start of its job: carries the reports of `forebay_job::Readiness`, and tells the keeper what
//! whoever started the job is to hear.
//!
//! A daemon that nobody starts by a job spec has no such part, and says that the job is up.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use forebay_job::{Readiness, ReadinessEffect, ReadinessOptions, ReportAnswer, ReportTicket};
use forebay_keeper::Link;
use forebay_transport::Replier;
use forebay_types::{NodeRank, Time, limits};
use forebay_wire::{JobMessage, Missing, Outcome, Report};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::shared::gather;
use crate::shared::node::Node;

/// Ranges of ranks that an announcement names: with its reasons it stays below the 4 KiB that a pipe takes at once, or
/// the lines of two nodes might be mixed on their way through a launcher.
const ANNOUNCED_RANGES_MAX: usize = 150;

/// Reasons that an announcement gives.
const ANNOUNCED_TROUBLES_MAX: usize = 6;

/// The receiver of signs of other nodes that the start of a job shows.
pub trait PeerSigns: Send + Sync {
    /// It has answered.
    fn is_there(&self, peer: NodeRank);

    /// It does not answer.
    fn is_absent(&self, peer: NodeRank);

    /// All that are there have answered.
    fn job_is_up(&self);
}

/// A daemon's knowledge of the start of its job.
pub struct Starting {
    node: Arc<Node>,
    signs: Arc<dyn PeerSigns>,
    core: Mutex<Readiness>,
    link: Link,
    /// Nodes whose reports wait for an answer.
    waiting: Mutex<HashMap<NodeRank, Replier>>,
    changed: Notify,
}

impl Starting {
    /// `None` for a daemon that was not started by a job spec.
    pub fn new(node: &Arc<Node>, link: &Link, signs: Arc<dyn PeerSigns>) -> Option<Arc<Self>> {
        let settle_after = node.options.report?.settle_after;
        let options = ReadinessOptions { rank: node.rank(), forest: node.forest.clone(), settle_after };
        let core = if node.is_job_up() { Readiness::of_job_that_is_up(options) } else { Readiness::new(options) };
        Some(Arc::new(Self {
            node: Arc::clone(node),
            signs,
            core: Mutex::new(core),
            link: link.clone(),
            waiting: Mutex::default(),
            changed: Notify::new(),
        }))
    }

    /// This node is ready. Reports until the job is up, and answers those of others as long as the daemon runs.
    pub async fn take_part(self: Arc<Self>) {
        let Some(report) = self.node.options.report else { return };
        let took = now_unix_ms().saturating_sub(report.started_unix_ms);
        self.with_core(|core, now| core.handle_ready(now, Duration::from_millis(took)));
        loop {
            let due = lock(&self.core).poll_timeout();
            let changed = self.changed.notified();
            match due {
                Some(due) if due <= self.node.now() => self.with_core(Readiness::run_timers),
                Some(due) => drop(tokio::time::timeout(self.node.remaining(due), changed).await),
                None => changed.await,
            }
        }
    }

    /// A node below this one reports.
    pub fn answer(self: &Arc<Self>, from: NodeRank, report: Report, reply: Replier) {
        let earlier = lock(&self.waiting).insert(from, reply);
        earlier.into_iter().for_each(|reply| reply.answer(Outcome::Noted { settled: None }, None));
        self.with_core(|core, now| core.handle_report(now, from, report));
    }

    /// Whether the job is up without that node.
    pub fn is_missing(&self, rank: NodeRank) -> bool {
        let core = lock(&self.core);
        let missing = core.settled().unwrap_or_default();
        let names = |wanted: NodeRank, below: bool| {
            missing.iter().any(|missing| missing.rank == wanted && (missing.with_all_below || !below))
        };
        names(rank, false)
            || (!missing.is_empty() && self.node.forest.first().ancestors(rank).any(|above| names(above, true)))
    }

    fn with_core(self: &Arc<Self>, decide: impl FnOnce(&mut Readiness, Time)) {
        let mut core = lock(&self.core);
        decide(&mut core, self.node.now());
        let effects: Vec<ReadinessEffect> = std::iter::from_fn(|| core.poll_effect()).collect();
        drop(core);
        effects.into_iter().for_each(|effect| self.carry_out(effect));
        self.changed.notify_one();
    }

    fn carry_out(self: &Arc<Self>, effect: ReadinessEffect) {
        match effect {
            ReadinessEffect::Report { to, ticket, report } => {
                self.node.spawn(Arc::clone(self).report_to(to, ticket, report));
            }
            ReadinessEffect::Answer { to, settled } => {
                let reply = lock(&self.waiting).remove(&to);
                reply.into_iter().for_each(|reply| reply.answer(Outcome::Noted { settled: settled.clone() }, None));
            }
            ReadinessEffect::Announce { report, is_last } => {
                self.link.announce(announcement(&self.node, &report, is_last));
            }
            ReadinessEffect::PassOver { peer } => {
                tracing::info!(%peer, "a node above does not answer while the job starts; the next hears of this one");
                self.signs.is_absent(peer);
            }
            ReadinessEffect::Settled { missing } => {
                tracing::info!(missing = missing.len(), "the job is up");
                self.node.set_job_up();
                self.signs.job_is_up();
                self.link.job_is_up();
            }
        }
    }

    async fn report_to(self: Arc<Self>, to: NodeRank, ticket: ReportTicket, report: Report) {
        let reply = gather::call(&self.node, to, JobMessage::Report { report }, limits::REPORT_DEADLINE).await;
        let answer = match reply.map(|reply| reply.outcome) {
            Ok(Outcome::Noted { settled: Some(missing) }) => ReportAnswer::Settled(missing),
            Ok(Outcome::Noted { settled: None }) => ReportAnswer::Noted,
            Ok(_) => ReportAnswer::Lost("an answer that does not belong to a report".to_owned()),
            Err(why) => ReportAnswer::Lost(why),
        };
        if !matches!(answer, ReportAnswer::Lost(_)) {
            self.signs.is_there(to);
        }
        self.with_core(|core, now| core.handle_answer(now, to, ticket, answer));
    }
}

/// The announcement to the command that started the job: how many nodes are ready, and which are not.
fn announcement(node: &Node, report: &Report, is_last: bool) -> Value {
    let (missing, is_cut) = ranges(node, &report.missing);
    let troubles: Vec<Value> = report
        .troubles
        .iter()
        .take(ANNOUNCED_TROUBLES_MAX)
        .map(|trouble| json!({"rank": trouble.rank, "by": trouble.by, "why": trouble.why}))
        .collect();
    json!({
        "by": node.rank(), "ready": report.ready_count, "is_last": is_last,
        "missing": missing, "is_cut": report.is_cut || is_cut, "troubles": troubles,
        "slowest": report.slowest.map(|slowest| json!({"rank": slowest.rank, "took_ms": slowest.took_ms})),
    })
}

/// The first and last ranks of each run of missing nodes, and whether there are more.
fn ranges(node: &Node, missing: &[Missing]) -> (Vec<(u32, u32)>, bool) {
    let mut ranks = std::collections::BTreeSet::new();
    let mut todo: Vec<Missing> = missing.to_vec();
    while let Some(Missing { rank, with_all_below }) = todo.pop() {
        ranks.insert(rank.0);
        let below = node.forest.first().children(rank).filter(|_| with_all_below);
        todo.extend(below.map(|rank| Missing { rank, with_all_below }));
    }
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for rank in ranks {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == rank => *last = rank,
            _ => ranges.push((rank, rank)),
        }
    }
    let is_cut = ranges.len() > ANNOUNCED_RANGES_MAX;
    ranges.truncate(ANNOUNCED_RANGES_MAX);
    (ranges, is_cut)
}

fn now_unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// A panic ends the process, so a poisoned lock is never seen.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
