//! When a job is up: every node tells the one above it that it and all below it are ready, once, and the root knows.
//!
//! A node that is ready and has heard the same of all below it reports to its parent. The root announces to the job's starter, and the
//! answers to the reports carry back down that the job is up. So a start costs two messages a node, and each node hears only from its
//! children. A parent that cannot be reached is waited for, then passed over. The next in the failover order (`Tree::failover_order`)
//! hears the report, and the parent is still tried. If no node is left above one, it announces in the root's place.
//!
//! While nodes are missing, reports name them, so the root can name them at any time. A report is made again when they change,
//! not more often than `limits::REPORT_INTERVAL`. This crate does not know how a node was started. A node that will never come
//! is told by its launcher, and missed here until `ReadinessOptions::settle_after`.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use forebay_overlay::Forest;
use forebay_types::{NodeRank, Time, limits};
use forebay_wire::{Missing, Report, Slowest, Trouble};

use crate::merge::{Below, merged};
use crate::upstream::{ReportTicket, Upstream};

/// A node's settings for its part.
#[derive(Clone, Debug)]
pub struct ReadinessOptions {
    /// This node.
    pub rank: NodeRank,
    /// The trees of the job; readiness goes up the first.
    pub forest: Forest,
    /// How long after its start the job is up without those that are missing; `None` when it is not without all.
    pub settle_after: Option<Duration>,
}

/// The result of a report.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReportAnswer {
    /// It arrived.
    Noted,
    /// The job is up, without these.
    Settled(Vec<Missing>),
    /// It did not, or nobody knows.
    Lost(String),
}

/// A step for the driver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReadinessEffect {
    /// Carry a report to a node above. One that is on its way there already need not be waited for any more.
    Report {
        /// Where to.
        to: NodeRank,
        /// Its name.
        ticket: ReportTicket,
        /// The report.
        report: Report,
    },
    /// Answer the last report of a node.
    Answer {
        /// Whose.
        to: NodeRank,
        /// The nodes without which the job is up; `None` while it starts.
        settled: Option<Vec<Missing>>,
    },
    /// No node is above this one: tell the job's starter.
    Announce {
        /// How far the job is.
        report: Report,
        /// Whether the job is up; nothing follows then.
        is_last: bool,
    },
    /// A node above is passed over: it should not be asked for anything else either.
    PassOver {
        /// Which.
        peer: NodeRank,
    },
    /// The job is up, without these.
    Settled {
        /// Nodes that are missing.
        missing: Vec<Missing>,
    },
}

/// One node's part in the start of a job.
#[derive(Debug)]
pub struct Readiness {
    options: ReadinessOptions,
    /// Whom this node may report to, best first.
    failover_order: Vec<NodeRank>,
    /// The reports to those that have been tried, in that order.
    upstream: Vec<Upstream>,
    now: Time,
    own: Option<Own>,
    /// The last report of each node that made one.
    reports: BTreeMap<NodeRank, Report>,
    /// Whose reports wait for an answer, and until when.
    held: BTreeMap<NodeRank, Time>,
    /// This node's present report on itself and all below it.
    current: Report,
    /// Its report on all nodes, when no node is above it.
    whole: Option<Report>,
    /// Number of `current`: another when it says something else.
    version: u64,
    next_ticket: u64,
    announced: Option<Announced>,
    settled: Option<Vec<Missing>>,
    effects: VecDeque<ReadinessEffect>,
}

/// This node is ready.
#[derive(Clone, Copy, Debug)]
struct Own {
    since: Time,
    slowest: Slowest,
}

#[derive(Debug)]
struct Announced {
    at: Time,
    report: Report,
}

impl Readiness {
    /// A node of which nothing is known yet, not even that it is ready itself. Its time begins at 0.
    #[must_use]
    pub fn new(options: ReadinessOptions) -> Self {
        let failover_order = options.forest.first().failover_order(options.rank).collect();
        Self {
            options,
            failover_order,
            upstream: Vec::new(),
            now: Time(0),
            own: None,
            reports: BTreeMap::new(),
            held: BTreeMap::new(),
            current: Report::default(),
            whole: None,
            version: 0,
            next_ticket: 0,
            announced: None,
            settled: None,
            effects: VecDeque::new(),
        }
    }

    /// A node of a job that is up: it has nothing to report, and answers reports with that.
    #[must_use]
    pub fn of_job_that_is_up(options: ReadinessOptions) -> Self {
        Self { settled: Some(Vec::new()), ..Self::new(options) }
    }

    /// This node is ready, having taken so long.
    pub fn handle_ready(&mut self, now: Time, took: Duration) {
        let took_ms = u32::try_from(took.as_millis()).unwrap_or(u32::MAX);
        let slowest = Slowest { took_ms, rank: self.options.rank };
        self.now = now;
        self.own.get_or_insert(Own { since: now, slowest });
        self.look_anew();
    }

    /// A node reports to this one. Its answer follows as an effect, perhaps much later.
    pub fn handle_report(&mut self, now: Time, from: NodeRank, report: Report) {
        self.now = now;
        if self.settled.is_some() {
            return self.answer(from);
        }
        // A report of missing nodes is answered immediately, and the rest when the job is up.
        let until = if report.is_complete() { now.after(limits::REPORT_HELD_MAX) } else { now };
        self.held.insert(from, until);
        self.reports.insert(from, report);
        self.look_anew();
    }

    /// A report of this node was answered, or got lost.
    pub fn handle_answer(&mut self, now: Time, from: NodeRank, ticket: ReportTicket, answer: ReportAnswer) {
        self.now = now;
        if let ReportAnswer::Settled(missing) = answer {
            return self.settle(missing);
        }
        let Some(at) = self.failover_order.iter().position(|peer| *peer == from) else { return };
        let is_heard = at == self.open_count();
        let Some(upstream) = self.upstream.get_mut(at).filter(|upstream| upstream.ends(ticket)) else { return };
        match answer {
            ReportAnswer::Lost(why) => {
                let trouble = Trouble::new(from, self.options.rank, &why);
                if upstream.on_lost(now, trouble) && is_heard {
                    upstream.is_passed_over = true;
                    self.effects.push_back(ReadinessEffect::PassOver { peer: from });
                }
            }
            _ => upstream.on_noted(),
        }
        self.look_anew();
    }

    /// When `run_timers` has something to do.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        let held = self.held.values().min().copied();
        let reports = (0..self.upstream.len()).filter_map(|at| self.due(at)).min();
        [held, reports, self.announcement_due(), self.settle_due()].into_iter().flatten().min()
    }

    /// Does what is due.
    pub fn run_timers(&mut self, now: Time) {
        self.now = now;
        self.go_on();
    }

    /// The next thing to do.
    pub fn poll_effect(&mut self) -> Option<ReadinessEffect> {
        self.effects.pop_front()
    }

    /// The nodes without which the job is up; `None` while it starts.
    #[must_use]
    pub fn settled(&self) -> Option<&[Missing]> {
        self.settled.as_deref()
    }

    /// Looks what there is to say now, and goes on.
    fn look_anew(&mut self) {
        if let Some(own) = self.own.filter(|_| self.settled.is_none()) {
            let report = self.merged(own, self.options.rank);
            if report != self.current {
                self.current = report;
                self.version += 1;
            }
            self.whole = self.is_top().then(|| self.merged(own, self.options.forest.first().root()));
        }
        self.go_on();
    }

    fn go_on(&mut self) {
        if self.settled.is_none() && self.own.is_some() {
            self.report_up();
            self.announce();
        }
        self.answer_held();
    }

    /// How many of the failover order are passed over: the place of the one that hears the report. At the end, no node is left.
    fn open_count(&self) -> usize {
        self.upstream.iter().position(|upstream| !upstream.is_passed_over).unwrap_or(self.upstream.len())
    }

    fn is_top(&self) -> bool {
        self.open_count() == self.failover_order.len()
    }

    fn report_up(&mut self) {
        let open = self.open_count();
        if open == self.upstream.len() && open < self.failover_order.len() {
            self.upstream.push(Upstream::default());
        }
        for at in 0..self.upstream.len() {
            if self.due(at).is_some_and(|due| due <= self.now) {
                self.send(at);
            }
        }
    }

    /// This node's report on `top` and all below it.
    fn merged(&self, own: Own, top: NodeRank) -> Report {
        let below = Below {
            rank: self.options.rank,
            tree: self.options.forest.first(),
            slowest: own.slowest,
            reports: &self.reports,
            troubles: self.upstream.iter().filter_map(|upstream| upstream.trouble()).cloned().collect(),
        };
        merged(below, top)
    }

    /// When the current report is to go to the node at that place.
    fn due(&self, at: usize) -> Option<Time> {
        let own = self.own.as_ref().filter(|_| self.settled.is_none())?;
        let is_heard = at <= self.open_count();
        self.upstream[at].due(self.version, self.current.is_complete(), own.since).filter(|_| is_heard)
    }

    fn send(&mut self, at: usize) {
        let ticket = ReportTicket(self.next_ticket);
        self.next_ticket += 1;
        self.upstream[at].on_sent(self.now, ticket, self.version);
        let (to, report) = (self.failover_order[at], self.current.clone());
        self.effects.push_back(ReadinessEffect::Report { to, ticket, report });
    }

    /// When there is something to announce.
    fn announcement_due(&self) -> Option<Time> {
        let whole = self.whole.as_ref().filter(|_| self.settled.is_none())?;
        match &self.announced {
            Some(Announced { report, .. }) if report == whole => None,
            _ if whole.is_complete() => Some(self.now),
            Some(Announced { at, .. }) => Some(at.after(limits::REPORT_INTERVAL)),
            None => self.own.map(|own| own.since.after(limits::REPORT_INTERVAL)),
        }
    }

    fn settle_due(&self) -> Option<Time> {
        let is_open = self.settled.is_none() && self.whole.is_some();
        self.options.settle_after.filter(|_| is_open).map(|after| Time(0).after(after))
    }

    fn announce(&mut self) {
        let is_over = self.settle_due().is_some_and(|due| due <= self.now);
        let is_due = self.announcement_due().is_some_and(|due| due <= self.now);
        let Some(report) = self.whole.clone().filter(|_| is_over || is_due) else { return };
        let is_last = is_over || report.is_complete();
        self.announced = Some(Announced { at: self.now, report: report.clone() });
        self.effects.push_back(ReadinessEffect::Announce { report: report.clone(), is_last });
        if is_last {
            self.settle(report.missing);
        }
    }

    fn settle(&mut self, missing: Vec<Missing>) {
        if self.settled.is_none() {
            self.settled = Some(missing.clone());
            self.effects.push_back(ReadinessEffect::Settled { missing });
        }
        let held = std::mem::take(&mut self.held);
        held.into_keys().for_each(|from| self.answer(from));
        self.reports.clear();
    }

    fn answer_held(&mut self) {
        let now = self.now;
        let due: Vec<NodeRank> = self.held.iter().filter(|(_, until)| **until <= now).map(|(from, _)| *from).collect();
        for from in due {
            self.held.remove(&from);
            self.answer(from);
        }
    }

    fn answer(&mut self, to: NodeRank) {
        self.effects.push_back(ReadinessEffect::Answer { to, settled: self.settled.clone() });
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
