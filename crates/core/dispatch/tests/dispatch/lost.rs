//! Nodes that fall silent and come back, in virtual time: how soon that is noticed, and what is told when nobody is left.

use std::collections::BTreeMap;
use std::ops::Range;

use forebay_dispatch::limits::FALLBACK_READS_SAVED_MAX;
use forebay_dispatch::{AttemptId, Dispatch, Event, Failure, Source, Waiter, Wanted};
use forebay_types::{Errno, NodeRank, Priority, Time};
use line::{Line, ORDER, at};

use crate::line;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Program(u32);

impl Waiter for Program {
    type Id = u32;

    fn id(&self) -> Option<u32> {
        Some(self.0)
    }
}

type Requests = Dispatch<u8, u8, Program, Line>;

fn want(number: u32, deadline: Time) -> Wanted<Program> {
    Wanted { priority: Priority::Demand, deadline, waiter: Some(Program(number)), holds: Vec::new(), is_alone: false }
}

/// Node 3 while node 2, which it asks first, takes and answers nothing for a while. Node 2 has earlier messages when it
/// goes on; all else is answered within a millisecond.
struct Job {
    dispatch: Requests,
    ms: u64,
    silent_ms: Range<u64>,
    asked: Vec<(AttemptId, Source)>,
    /// Nodes that were asked whether they are there, and until when they may say so.
    pinged: BTreeMap<NodeRank, Time>,
}

impl Job {
    fn new(silent_ms: Range<u64>) -> Self {
        Self { dispatch: Requests::new(Line), ms: 0, silent_ms, asked: Vec::new(), pinged: BTreeMap::new() }
    }

    fn now(&self) -> Time {
        at(self.ms)
    }

    fn is_silent(&self, peer: NodeRank) -> bool {
        peer == ORDER[0] && self.silent_ms.contains(&self.ms)
    }

    /// A millisecond.
    fn step(&mut self) {
        self.ms += 1;
        let now = self.now();
        for (attempt, source) in std::mem::take(&mut self.asked) {
            match source {
                Source::Peer(peer) if self.is_silent(peer) => self.asked.push((attempt, source)),
                _ => drop(self.dispatch.finish_by(now, attempt)),
            }
        }
        for (peer, deadline) in std::mem::take(&mut self.pinged) {
            match self.is_silent(peer) {
                true if now < deadline => drop(self.pinged.insert(peer, deadline)),
                is_silent => self.dispatch.pinged(now, peer, !is_silent),
            }
        }
        if self.dispatch.poll_timeout().is_some_and(|next| next <= now) {
            self.dispatch.run_timers(now);
        }
        while let Some(event) = self.dispatch.poll_event() {
            match event {
                Event::Ask { attempt, source, .. } => self.asked.push((attempt, source)),
                Event::Cancel { attempt } => self.asked.retain(|(asked, _)| *asked != attempt),
                Event::Ping { peer, deadline, .. } => drop(self.pinged.insert(peer, deadline)),
                _ => {}
            }
        }
    }

    /// Programs ask for something every 40 ms.
    fn step_while_read(&mut self) {
        if self.ms.is_multiple_of(40) {
            let key = 10 + (self.ms / 40 % 200) as u8;
            self.dispatch.request(self.now(), key, || key, want(self.ms as u32, at(self.ms + 30_000)));
        }
        self.step();
    }

    /// How long node 2 is not (or is) bypassed from now on, milliseconds.
    fn until_bypassed_is(&mut self, is_bypassed: bool, mut step: impl FnMut(&mut Self)) -> u64 {
        let began = self.ms;
        while self.dispatch.detector().is_suspect(ORDER[0]) != is_bypassed {
            step(self);
            assert!(self.ms < began + 60_000, "a minute is over");
        }
        self.ms - began
    }
}

/// Half a second without a word, the time until that is looked at, and a second for the answer that does not come. One
/// question is enough, and its answer comes from elsewhere.
#[test]
fn a_silent_node_is_noticed_within_1600_ms_of_the_first_question() {
    for asks_at in (10_000..10_200).step_by(7) {
        let mut job = Job::new(9_900..u64::MAX);
        (0..9_800).for_each(|_| job.step_while_read());
        // Earlier requests are answered.
        (9_800..asks_at).for_each(|_| job.step());
        assert!(!job.dispatch.detector().is_suspect(ORDER[0]));
        job.dispatch.request(job.now(), 1, || 1, want(0, at(60_000)));
        let noticed = job.until_bypassed_is(true, Job::step);
        assert!((1_500..=1_600).contains(&noticed), "asked at {asks_at} ms: noticed after {noticed} ms");
        assert_eq!(job.dispatch.request_count(), 0, "the next one has answered meanwhile");
    }
}

/// So a node that was cut off learns of a refresh that it missed, although none of its programs reads.
#[test]
fn an_idle_node_asks_its_parent_every_two_seconds() {
    let mut job = Job::new(u64::MAX..u64::MAX);
    let mut asked_at = Vec::new();
    while job.ms < 60_000 {
        job.step();
        if job.pinged.contains_key(&ORDER[0]) {
            asked_at.push(job.ms);
        }
    }
    // The answer takes a millisecond, and the two seconds count from it.
    let expected: Vec<u64> = (0..29).map(|number| 2_000 + number * 2_001).collect();
    assert_eq!(asked_at, expected);
}

/// It is pinged repeatedly, with growing pauses: within a second while those last no longer.
#[test]
fn a_node_that_goes_on_after_some_seconds_is_used_again_within_one() {
    for away_ms in (1_800..6_000).step_by(90) {
        let back = 10_000 + away_ms;
        let mut job = Job::new(10_000..back);
        (1..back).for_each(|_| job.step_while_read());
        assert!(job.dispatch.detector().is_suspect(ORDER[0]), "away for {away_ms} ms");
        let until_used = job.until_bypassed_is(false, Job::step_while_read);
        assert!(until_used <= 1_000, "away for {away_ms} ms: used again after {until_used} ms");
    }
}

/// All that this node may ask is lost, and what it may read itself is read: the rest is told that there was nobody to ask,
/// and what was read in vain that its time is over.
#[test]
fn a_node_cut_off_without_tokens_reports_that() {
    let mut dispatch = Requests::new(Line);
    ORDER.into_iter().for_each(|rank| dispatch.absent(at(0), rank));
    let saved = FALLBACK_READS_SAVED_MAX as usize;
    for key in 10..=255 {
        dispatch.request(at(0), key, || key, want(u32::from(key), at(3_000)));
    }
    let (mut asked, mut told) = (0, BTreeMap::<i32, usize>::new());
    for ms in (0..=3_000).step_by(50) {
        dispatch.run_timers(at(ms));
        while let Some(event) = dispatch.poll_event() {
            match event {
                Event::Ask { source, .. } => {
                    assert_eq!(source, Source::Backing);
                    asked += 1;
                }
                Event::Failed { finished, why } => {
                    assert!(ms == 3_000 && finished.waiters.len() == 1, "{ms} ms: {why:?}");
                    assert!(matches!(why, Failure::CutOff | Failure::TimedOut), "{why:?}");
                    *told.entry(why.errno().number()).or_default() += 1;
                }
                Event::Ping { peer, .. } => dispatch.pinged(at(ms), peer, false),
                _ => {}
            }
        }
    }
    assert!((saved..246).contains(&asked), "{asked} reads");
    let expected = [(Errno::ETIMEDOUT.number(), asked), (Errno::EHOSTUNREACH.number(), 246 - asked)];
    assert_eq!(told, expected.into());
    assert_eq!(dispatch.request_count(), 0);
}
