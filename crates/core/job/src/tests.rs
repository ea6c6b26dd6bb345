//! Whole starts in virtual time: nodes that come late or never, ways that are cut, daemons that are started anew.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::merge::{Below, merged};

const MS: u64 = 1_000_000;

/// Below the bits of a ticket that tell here whose it is.
const TICKET_BITS: u64 = u32::MAX as u64;

/// Something that happens at a time; the number keeps the order of what happens at once.
#[derive(PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Event {
    Ready(u32),
    Forgets(u32),
    Report { from: u32, to: u32, ticket: u64 },
    Answer { from: u32, to: u32, ticket: u64 },
    Deadline { from: u32, to: u32, ticket: u64 },
    Timeout(u32),
}

struct Start {
    nodes: Vec<Readiness>,
    /// When each daemon listens and is ready, in milliseconds; `None` for one that never does.
    ready_ms: Vec<Option<u64>>,
    cut: BTreeSet<(u32, u32)>,
    settle_after: Option<Duration>,
    fan_out: u32,
    now: u64,
    events: BTreeSet<(u64, u64, Event)>,
    count: u64,
    contents: std::collections::BTreeMap<u64, Report>,
    /// The ticket of each node's report that waits for an answer, by who holds it and whose it is.
    waiting: std::collections::BTreeMap<(u32, u32), u64>,
    answers: std::collections::BTreeMap<u64, ReportAnswer>,
    announced: Vec<(u32, Report, bool)>,
    passed_over: BTreeSet<(u32, u32)>,
    reports: usize,
    settled_ms: Vec<Option<u64>>,
}

impl Start {
    fn new(ready_ms: &[Option<u64>], fan_out: u32, settle_after: Option<Duration>) -> Self {
        let count = ready_ms.len();
        let mut start = Self {
            nodes: Vec::new(),
            ready_ms: ready_ms.to_vec(),
            cut: BTreeSet::new(),
            settle_after,
            fan_out,
            now: 0,
            events: BTreeSet::new(),
            count: 0,
            contents: std::collections::BTreeMap::new(),
            waiting: std::collections::BTreeMap::new(),
            answers: std::collections::BTreeMap::new(),
            announced: Vec::new(),
            passed_over: BTreeSet::new(),
            reports: 0,
            settled_ms: vec![None; count],
        };
        start.nodes = (0..count as u32).map(|rank| start.node(rank)).collect();
        for (rank, ready) in (0..).zip(ready_ms) {
            if let Some(ready) = ready {
                start.at(ready * MS, Event::Ready(rank));
            }
        }
        start
    }

    fn forest(&self) -> Forest {
        Forest::single(self.ready_ms.len() as u32, self.fan_out).unwrap()
    }

    /// The nodes that are there and have nobody above them who is.
    fn tops(&self) -> Vec<u32> {
        let is_there = |rank: NodeRank| self.ready_ms[rank.0 as usize].is_some();
        let forest = self.forest();
        let is_top = |rank: &NodeRank| is_there(*rank) && !forest.first().failover_order(*rank).any(is_there);
        (0..self.ready_ms.len() as u32).map(NodeRank).filter(is_top).map(|rank| rank.0).collect()
    }

    fn node(&self, rank: u32) -> Readiness {
        let forest = self.forest();
        Readiness::new(ReadinessOptions { rank: NodeRank(rank), forest, settle_after: self.settle_after })
    }

    fn at(&mut self, time: u64, event: Event) {
        self.count += 1;
        self.events.insert((time, self.count, event));
    }

    fn listens(&self, rank: u32) -> bool {
        self.ready_ms[rank as usize].is_some_and(|ready| ready * MS <= self.now)
    }

    fn run(&mut self, until_ms: u64) {
        while self.events.first().is_some_and(|(time, _, _)| *time <= until_ms * MS) {
            let Some((time, _, event)) = self.events.pop_first() else { break };
            self.now = time;
            self.happen(event);
        }
    }

    fn happen(&mut self, event: Event) {
        let now = Time(self.now);
        match event {
            Event::Ready(rank) => {
                self.nodes[rank as usize].handle_ready(now, Duration::from_nanos(self.now));
                self.carry_out(rank);
            }
            Event::Forgets(rank) => self.forget(rank),
            Event::Report { from, to, ticket } if self.listens(to) && !self.cut.contains(&(from, to)) => {
                let report = self.contents.remove(&ticket).unwrap();
                self.waiting.insert((to, from), ticket);
                self.nodes[to as usize].handle_report(now, NodeRank(from), report);
                self.carry_out(to);
            }
            Event::Report { from, to, ticket } => self.lose(from, to, ticket, "connection refused"),
            Event::Answer { from, to, ticket } => {
                let answer = self.answers.remove(&ticket).unwrap();
                self.nodes[to as usize].handle_answer(now, NodeRank(from), ReportTicket(ticket & TICKET_BITS), answer);
                self.carry_out(to);
            }
            Event::Deadline { from, to, ticket } => {
                let answer = ReportAnswer::Lost("timed out".to_owned());
                self.nodes[from as usize].handle_answer(now, NodeRank(to), ReportTicket(ticket & TICKET_BITS), answer);
                self.carry_out(from);
            }
            Event::Timeout(rank) => {
                if self.nodes[rank as usize].poll_timeout().is_some_and(|due| due <= now) {
                    self.nodes[rank as usize].run_timers(now);
                    self.carry_out(rank);
                }
            }
        }
    }

    /// A daemon dies, and another begins in its place: what it was told is lost with its connections.
    fn forget(&mut self, rank: u32) {
        if !self.listens(rank) || self.nodes[rank as usize].settled().is_some() {
            return;
        }
        let mut new = self.node(rank);
        // Numbers of daemons before must not be taken for its own.
        new.next_ticket = self.nodes[rank as usize].next_ticket + 1000;
        self.nodes[rank as usize] = new;
        let lost: Vec<(u32, u64)> = self
            .waiting
            .iter()
            .filter(|((to, _), _)| *to == rank)
            .map(|((_, from), ticket)| (*from, *ticket))
            .collect();
        self.waiting.retain(|(to, _), _| *to != rank);
        lost.into_iter().for_each(|(from, ticket)| self.lose(from, rank, ticket, "connection lost"));
        self.at(self.now, Event::Ready(rank));
    }

    fn lose(&mut self, from: u32, to: u32, ticket: u64, why: &str) {
        self.answers.insert(ticket, ReportAnswer::Lost(why.to_owned()));
        self.at(self.now + MS / 10, Event::Answer { from: to, to: from, ticket });
    }

    fn carry_out(&mut self, rank: u32) {
        while let Some(effect) = self.nodes[rank as usize].poll_effect() {
            // Milliseconds are one hop on a slow network, and differ from hop to hop.
            let delay = MS / 10 + (u64::from(rank) * 7919 + self.count * 104_729) % MS;
            match effect {
                ReadinessEffect::Report { to, ticket, report } => {
                    self.reports += 1;
                    let ticket = ticket.0 | u64::from(rank) << 32;
                    self.contents.insert(ticket, report);
                    let deadline = self.now + limits::REPORT_DEADLINE.as_nanos() as u64;
                    self.at(deadline, Event::Deadline { from: rank, to: to.0, ticket });
                    self.at(self.now + delay, Event::Report { from: rank, to: to.0, ticket });
                }
                ReadinessEffect::Answer { to, settled } => {
                    let ticket = self.waiting.remove(&(rank, to.0)).expect("only a report is answered, and once");
                    self.answers.insert(ticket, settled.map_or(ReportAnswer::Noted, ReportAnswer::Settled));
                    self.at(self.now + delay, Event::Answer { from: rank, to: to.0, ticket });
                }
                ReadinessEffect::Announce { report, is_last } => self.announced.push((rank, report, is_last)),
                ReadinessEffect::PassOver { peer } => drop(self.passed_over.insert((rank, peer.0))),
                ReadinessEffect::Settled { .. } => self.settled_ms[rank as usize] = Some(self.now / MS),
            }
        }
        if let Some(due) = self.nodes[rank as usize].poll_timeout() {
            self.at(due.0.max(self.now), Event::Timeout(rank));
        }
    }

    fn last(&self) -> &(u32, Report, bool) {
        self.announced.last().expect("something is announced")
    }

    /// The nodes that a report names, each.
    fn missing(&self, report: &Report) -> BTreeSet<u32> {
        let forest = self.forest();
        let mut missing = BTreeSet::new();
        let mut todo: Vec<Missing> = report.missing.clone();
        while let Some(Missing { rank, with_all_below }) = todo.pop() {
            missing.insert(rank.0);
            let below = forest.first().children(rank).filter(|_| with_all_below);
            todo.extend(below.map(|rank| Missing { rank, with_all_below }));
        }
        missing
    }
}

impl Start {
    fn all_ready(count: usize, skew_ms: u64, fan_out: u32) -> Self {
        let ready: Vec<_> = (0..count as u64).map(|rank| Some(rank.wrapping_mul(7919) % (skew_ms + 1))).collect();
        Self::new(&ready, fan_out, None)
    }
}

#[test]
fn a_start_costs_two_messages_a_node() {
    for (count, fan_out) in [(1, 4), (2, 4), (5, 1), (73, 8), (1000, 4), (4000, 32)] {
        let mut start = Start::all_ready(count, 0, fan_out);
        start.run(1000);
        assert_eq!(start.reports, count - 1, "{count} nodes");
        let [(0, report, true)] = start.announced.as_slice() else { panic!("{:?}", start.announced) };
        assert!(report.is_complete() && report.ready_count as usize == count, "{report:?}");
        assert!(start.settled_ms.iter().all(Option::is_some), "everybody knows");
        assert!(start.nodes.iter().all(|node| node.poll_timeout().is_none()), "and nobody waits for anything");
    }
}

#[test]
fn stragglers_are_named_while_they_are_waited_for() {
    let forest = Forest::single(40, 3).unwrap();
    let tree = forest.first();
    let is_inner = |rank: &NodeRank| !tree.is_leaf(*rank) && *rank != tree.root();
    let late = (0..40).map(NodeRank).find(is_inner).unwrap();
    let mut ready = vec![Some(0); 40];
    ready[late.0 as usize] = Some(3000);
    let mut start = Start::new(&ready, 3, None);
    start.run(2900);
    let (0, report, false) = start.last().clone() else { panic!("{:?}", start.last()) };
    assert_eq!((start.missing(&report), report.ready_count), (BTreeSet::from([late.0]), 39));
    assert!(report.troubles.iter().any(|trouble| trouble.rank == late && trouble.why == "connection refused"));
    for child in tree.children(late) {
        assert!(start.passed_over.contains(&(child.0, late.0)), "{child} asks somebody else meanwhile");
    }
    start.run(6000);
    let (0, report, true) = start.last().clone() else { panic!("{:?}", start.last()) };
    assert!(report.is_complete() && report.ready_count == 40, "{report:?}");
    assert_eq!(report.slowest, Some(Slowest { took_ms: 3000, rank: late }));
}

#[test]
fn a_root_that_never_comes_is_announced_by_the_next() {
    let mut start = Start::new(&[Some(0); 30], 4, Some(Duration::from_secs(10)));
    let root = start.forest().first().root();
    start.ready_ms[root.0 as usize] = None;
    let [next] = start.tops()[..] else { panic!("{:?}", start.tops()) };
    start.ready_ms[next as usize] = None;
    let mut start = Start::new(&start.ready_ms, 4, start.settle_after);
    start.run(20_000);
    let (top, report, true) = start.last().clone() else { panic!("{:?}", start.last()) };
    assert_eq!(start.tops(), [top]);
    assert_eq!((start.missing(&report), report.ready_count), (BTreeSet::from([root.0, next]), 28));
    assert_eq!(start.settled_ms.iter().flatten().count(), 28);
}

#[test]
fn late_questions_about_readiness_are_answered_at_once() {
    let forest = Forest::single(10, 2).unwrap();
    let late = (0..10).map(NodeRank).find(|rank| forest.first().is_leaf(*rank)).unwrap();
    let mut ready = vec![Some(0); 10];
    ready[late.0 as usize] = Some(5000);
    let mut start = Start::new(&ready, 2, Some(Duration::from_secs(2)));
    start.run(4000);
    assert!(start.last().2 && start.missing(&start.last().1) == BTreeSet::from([late.0]));
    start.run(5100);
    let settled = start.nodes[late.0 as usize].settled();
    assert_eq!(settled, Some(&[Missing { rank: late, with_all_below: true }][..]));
}

#[test]
fn a_daemon_of_a_job_that_is_up_says_so_and_nothing_else() {
    let forest = Forest::single(5, 2).unwrap();
    let options = ReadinessOptions { rank: NodeRank(1), forest, settle_after: None };
    let mut node = Readiness::of_job_that_is_up(options);
    node.handle_ready(Time(0), Duration::ZERO);
    assert_eq!(node.poll_effect(), None);
    node.handle_report(Time(5), NodeRank(3), Report::default());
    assert_eq!(node.poll_effect(), Some(ReadinessEffect::Answer { to: NodeRank(3), settled: Some(Vec::new()) }));
    assert_eq!(node.poll_timeout(), None);
}

#[test]
fn a_report_of_more_nodes_than_can_be_counts_no_further() {
    let forest = Forest::single(9, 2).unwrap();
    let [own, other] = [0, 1].map(|child| forest.first().children(forest.first().root()).nth(child).unwrap());
    let reports = BTreeMap::from([(other, Report { ready_count: u32::MAX, ..Report::default() })]);
    let slowest = Slowest { took_ms: 0, rank: own };
    let below = Below { rank: own, tree: forest.first(), slowest, reports: &reports, troubles: Vec::new() };
    assert_eq!(merged(below, forest.first().root()).ready_count, u32::MAX);
}

#[test]
fn nodes_that_contradict_each_other_end_nothing_in_a_circle() {
    let forest = Forest::single(9, 2).unwrap();
    let mut node = Readiness::new(ReadinessOptions { rank: NodeRank(0), forest, settle_after: None });
    node.handle_ready(Time(0), Duration::ZERO);
    let says =
        |rank| Report { missing: vec![Missing { rank: NodeRank(rank), with_all_below: true }], ..Report::default() };
    node.handle_report(Time(1), NodeRank(1), says(2));
    node.handle_report(Time(2), NodeRank(2), says(1));
    assert!(!node.current.is_complete() || node.settled().is_some());
}

/// Times of nodes of which some are late and some never come.
fn times(count: usize) -> impl Strategy<Value = Vec<Option<u64>>> {
    let time = prop_oneof![6 => (0u64..40).prop_map(Some), 2 => (0u64..4000).prop_map(Some), 1 => Just(None)];
    proptest::collection::vec(time, 1..count)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever comes late, never, or dies on the way: nobody announces more than is true, and in the end the first
    /// node that is there names exactly those that are not.
    #[test]
    fn exactly_the_missing_are_named(
        ready in times(70),
        fan_out in 1u32..9,
        deaths in proptest::collection::vec((0u32..70, 0u64..3000), 0..5),
    ) {
        let mut start = Start::new(&ready, fan_out, Some(Duration::from_secs(30)));
        // Of more lost roots than there are stand-ins for nothing is said here.
        prop_assume!(start.tops().len() == 1);
        for (rank, time) in deaths.into_iter().filter(|(rank, _)| (*rank as usize) < ready.len()) {
            start.at(time * MS, Event::Forgets(rank));
        }
        // The end of the start is told along a chain of all nodes, each of which asks every 1.5 s.
        start.run(30_000 + 70 * 1_500 + 15_000);
        let absent: BTreeSet<u32> = (0..).zip(&ready).filter(|(_, ready)| ready.is_none()).map(|(rank, _)| rank).collect();
        let lasts: Vec<_> = start.announced.iter().filter(|(_, _, is_last)| *is_last).collect();
        prop_assert_eq!(lasts.len(), 1, "{:?}", lasts);
        prop_assert_eq!(vec![lasts[0].0], start.tops());
        prop_assert_eq!(start.missing(&lasts[0].1), absent.clone());
        prop_assert_eq!(lasts[0].1.ready_count as usize, ready.len() - absent.len());
        for (rank, report, _) in &start.announced {
            prop_assert!(report.ready_count as usize + absent.len() <= ready.len(), "{rank}: {report:?}");
            prop_assert!(!report.is_complete() || absent.is_empty(), "{rank}: {report:?}");
        }
        for (rank, ready) in ready.iter().enumerate() {
            prop_assert_eq!(start.settled_ms[rank].is_some(), ready.is_some(), "node {}", rank);
        }
    }

    /// Ways that are cut one way make nodes report past them; never is a node taken for ready that is not.
    #[test]
    fn cut_ways_are_gone_round(
        count in 2usize..50,
        fan_out in 1u32..5,
        cuts in proptest::collection::vec((0u32..50, 0u32..50), 0..6),
    ) {
        let mut start = Start::new(&vec![Some(0); count], fan_out, Some(Duration::from_secs(30)));
        start.cut = cuts.into_iter().filter(|(from, _)| (*from as usize) < count).collect();
        start.run(120_000);
        for (_, report, _) in &start.announced {
            prop_assert!(report.ready_count as usize <= count, "{report:?}");
        }
        prop_assert!(start.settled_ms.iter().all(Option::is_some));
    }
}
