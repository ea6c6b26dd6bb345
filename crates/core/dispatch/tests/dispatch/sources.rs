//! The dispatch against what any history must keep to, and by hand where one decision matters.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use forebay_dispatch::limits::{CHECK_INTERVAL, FALLBACK_READS_SAVED_MAX};
use forebay_dispatch::{AttemptId, Dispatch, Event, HoldId, Joined, RequestId, Source, Waiter, Wanted};
use forebay_types::{Priority, Time};
use line::{Line, ORDER, at};
use proptest::prelude::*;

use crate::line;

/// A waiter: a number of its own, and the one by which it is withdrawn, which it may share.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Program {
    number: usize,
    id: u8,
}

impl Waiter for Program {
    type Id = u8;

    fn id(&self) -> Option<u8> {
        Some(self.id)
    }
}

type Requests = Dispatch<u8, u8, Program, Line>;

fn want(number: usize, deadline: Time) -> Wanted<Program> {
    let waiter = Some(Program { number, id: number as u8 });
    Wanted { priority: Priority::Demand, deadline, waiter, holds: Vec::new(), is_alone: false }
}

fn asked(dispatch: &mut Requests) -> Vec<(AttemptId, Source)> {
    let ask = |event| match event {
        Event::Ask { attempt, source, .. } => Some((attempt, source)),
        _ => None,
    };
    std::iter::from_fn(|| dispatch.poll_event()).filter_map(ask).collect()
}

/// A driver's state: the attempts that it must still report, and the waiters that have left.
#[derive(Default)]
struct Driver {
    asked: BTreeSet<AttemptId>,
    filling: BTreeSet<AttemptId>,
    left: Vec<usize>,
}

impl Driver {
    fn take(&mut self, dispatch: &mut Requests) {
        while let Some(event) = dispatch.poll_event() {
            match event {
                Event::Ask { attempt, .. } => assert!(self.asked.insert(attempt), "a number is used once"),
                Event::Cancel { attempt } => {
                    assert!(
                        self.asked.remove(&attempt) || self.filling.remove(&attempt),
                        "cancelled, and not under way"
                    );
                }
                Event::Promote { attempt, .. } => assert!(self.asked.contains(&attempt)),
                Event::Late { waiters, .. } => self.left.extend(waiters.iter().map(|waiter| waiter.number)),
                Event::Failed { finished, .. } => {
                    self.left.extend(finished.waiters.iter().map(|waiting| waiting.who.number));
                }
                Event::Ping { .. } | Event::BodyLost { .. } | Event::LeftAlone { .. } => {}
            }
        }
    }

    fn nth(&self, number: usize) -> Option<AttemptId> {
        self.asked.iter().nth(number % self.asked.len().max(1)).copied()
    }
}

/// A dispatch and all that ever waited for it.
struct History {
    dispatch: Requests,
    driver: Driver,
    now: Time,
    /// The numbers of those who may be withdrawn together.
    waiting: BTreeMap<u8, Vec<usize>>,
    joined_count: usize,
}

impl History {
    fn new() -> Self {
        let (dispatch, driver) = (Requests::new(Line), Driver::default());
        Self { dispatch, driver, now: at(1), waiting: BTreeMap::new(), joined_count: 0 }
    }

    fn take_step(&mut self, number: usize, (action, key, pick): (u8, u8, usize)) {
        let now = self.now;
        match action {
            0..5 => self.ask(number, key, pick),
            5..10 => {
                if let Some(attempt) = self.driver.nth(pick) {
                    self.driver.asked.remove(&attempt);
                    self.report(action, attempt);
                }
            }
            10 => {
                if let Some(filling) = self.driver.filling.pop_first() {
                    assert!(self.dispatch.end_filling(self.now, filling, true).is_some());
                }
            }
            11 => self.withdraw(pick as u8 % 8),
            12 => self.dispatch.release(now, HoldId(u64::from(key) % 2)),
            13 => {
                if let Some(request) = self.dispatch.find(&key) {
                    match pick % 2 {
                        0 => self.dispatch.hold(request, HoldId(pick as u64 / 2 % 2)),
                        _ => self.dispatch.ask_anew(now, request),
                    }
                }
            }
            _ => self.dispatch.pinged(now, ORDER[pick % 2], pick % 3 > 0),
        }
    }

    fn ask(&mut self, number: usize, key: u8, pick: usize) {
        let waiter = Program { number, id: pick as u8 % 8 };
        let priority = if pick.is_multiple_of(3) { Priority::Prefetch } else { Priority::Demand };
        let holds = if pick.is_multiple_of(5) { vec![HoldId(u64::from(key) % 2)] } else { Vec::new() };
        let deadline = self.now.after(Duration::from_millis(200 + 97 * pick as u64));
        self.dispatch.request(
            self.now,
            key,
            || key,
            Wanted { priority, deadline, waiter: Some(waiter), holds, is_alone: false },
        );
        self.waiting.entry(waiter.id).or_default().push(number);
        self.joined_count += 1;
    }

    /// Reports an outcome of an attempt.
    fn report(&mut self, action: u8, attempt: AttemptId) {
        let now = self.now;
        let ended = match action {
            5 => self.dispatch.finish_by(now, attempt),
            6 => {
                self.driver.filling.insert(attempt);
                self.dispatch.begin_filling(now, attempt)
            }
            7 => return self.dispatch.lost(now, attempt),
            8 => return self.dispatch.spoilt(now, attempt),
            _ => return self.dispatch.timed_out(now, attempt),
        };
        let waiters = ended.expect("an attempt that was asked is of a request under way").waiters;
        self.driver.left.extend(waiters.iter().map(|waiting| waiting.who.number));
    }

    fn withdraw(&mut self, id: u8) {
        self.dispatch.withdraw(id);
        let gone = self.waiting.remove(&id).unwrap_or_default();
        let left = &mut self.driver.left;
        let gone: Vec<usize> = gone.into_iter().filter(|number| !left.contains(number)).collect();
        left.extend(gone);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Whatever is asked, answered, lost, held, withdrawn and timed out, in whatever order: every waiter leaves exactly
    /// once, every attempt ends exactly once, nothing waits past its deadline, and nothing is left.
    #[test]
    fn every_waiter_leaves_once_and_nothing_is_left(
        steps in proptest::collection::vec((0u8..16, 0u8..12, 0usize..64, 0u64..400), 1..120),
    ) {
        let mut history = History::new();
        for (number, (action, key, pick, ms)) in steps.iter().copied().enumerate() {
            history.now = history.now.after(Duration::from_millis(ms));
            history.take_step(number, (action, key, pick));
            history.dispatch.run_timers(history.now);
            history.driver.take(&mut history.dispatch);
            let next = history.dispatch.poll_timeout();
            prop_assert!(next.is_none_or(|next| next > history.now), "it wants to be told the time it was told");
        }
        let History { mut dispatch, mut driver, now, joined_count, .. } = history;
        dispatch.run_timers(now.after(Duration::from_secs(60)));
        driver.take(&mut dispatch);
        prop_assert_eq!(dispatch.request_count(), 0);
        prop_assert!(driver.asked.is_empty(), "{:?}", driver.asked);
        prop_assert_eq!(dispatch.under_way_count(), driver.filling.len());
        let everybody: BTreeSet<usize> = driver.left.iter().copied().collect();
        prop_assert_eq!((driver.left.len(), everybody.len()), (joined_count, joined_count), "each leaves once");
    }
}

/// Requests that wait for a token, without a node to ask, go to the first node that is back, all of them immediately.
#[test]
fn a_node_that_is_back_is_asked_at_once_for_all_that_waits() {
    let mut dispatch = Requests::new(Line);
    ORDER.into_iter().for_each(|rank| dispatch.absent(at(0), rank));
    let count = FALLBACK_READS_SAVED_MAX as usize + 100;
    let requests: Vec<RequestId> = (0..count)
        .map(|number| {
            // As many keys as there are requests: none is 9, which may not be read.
            let key = (number % 250) as u8;
            let key = if key == 9 { 255 } else { key };
            match dispatch.request(at(0), key, || key, want(number, at(30_000))) {
                Joined::First(request) | Joined::Coalesced(request) => request,
            }
        })
        .collect();
    assert_eq!(asked(&mut dispatch).len(), FALLBACK_READS_SAVED_MAX as usize, "reads of its own");
    dispatch.pinged(at(50), ORDER[0], true);
    let sources: Vec<Source> = asked(&mut dispatch).into_iter().map(|(_, source)| source).collect();
    assert_eq!(sources, vec![Source::Peer(ORDER[0]); requests.len() - FALLBACK_READS_SAVED_MAX as usize]);
}

/// A node that was asked in vain and comes back is used again by what was parked because of it.
#[test]
fn a_node_that_was_lost_is_asked_again_when_it_is_back() {
    let mut dispatch = Requests::new(Line);
    for number in 0..=FALLBACK_READS_SAVED_MAX as usize {
        let key = 10 + number as u8;
        dispatch.request(at(0), key, || key, want(number, at(30_000)));
        for _ in ORDER {
            asked(&mut dispatch).into_iter().for_each(|(attempt, source)| match source {
                Source::Peer(_) => dispatch.lost(at(0), attempt),
                Source::Backing => {}
            });
        }
    }
    while dispatch.poll_event().is_some() {}
    dispatch.pinged(at(300), ORDER[1], true);
    let [(_, source)] = asked(&mut dispatch)[..] else { panic!("one waits for a token") };
    assert_eq!(source, Source::Peer(ORDER[1]));
}

/// Each waiter waits until its own deadline, in any order, and an attempt that has time left goes on.
#[test]
fn each_caller_waits_until_its_own_deadline() {
    let mut dispatch = Requests::new(Line);
    dispatch.request(at(0), 1, || 1, want(1, at(30_000)));
    assert_eq!(asked(&mut dispatch).len(), 1);
    dispatch.request(at(10), 1, || 1, want(2, at(110)));
    dispatch.run_timers(at(109));
    assert!(asked(&mut dispatch).is_empty());
    dispatch.run_timers(at(110));
    let mut late = Vec::new();
    while let Some(event) = dispatch.poll_event() {
        match event {
            Event::Late { waiters, .. } => late.extend(waiters.iter().map(|waiter| waiter.number)),
            other => panic!("the attempt of the first goes on: {other:?}"),
        }
    }
    assert_eq!((late, dispatch.request_count()), (vec![2], 1));
}

/// A request that has meaning for nodes only ends when none is left to ask.
#[test]
fn unreadable_files_fail_when_no_other_node_is_left() {
    let mut dispatch = Requests::new(Line);
    dispatch.request(at(0), 9, || 9, want(1, at(30_000)));
    for _ in ORDER {
        let [(attempt, _)] = asked(&mut dispatch)[..] else { panic!("one attempt at a time") };
        dispatch.spoilt(at(0), attempt);
    }
    assert!(matches!(dispatch.poll_event(), Some(Event::Failed { .. })));
    assert_eq!(dispatch.request_count(), 0);
}

/// The time between two looks is the least that a driver has to be woken for.
#[test]
fn an_idle_node_looks_after_its_parent_only() {
    let dispatch = Requests::new(Line);
    assert!(dispatch.poll_timeout().unwrap() > at(0).after(CHECK_INTERVAL));
}

#[test]
fn a_node_asks_no_parent_whether_it_is_there_before_it_may() {
    let mut dispatch = Requests::new(Line);
    dispatch.set_heartbeat(false);
    assert_eq!(dispatch.poll_timeout(), None);
    dispatch.run_timers(at(5_000));
    assert!(dispatch.poll_event().is_none());
    dispatch.set_heartbeat(true);
    let due = dispatch.poll_timeout().unwrap();
    dispatch.run_timers(due);
    assert!(matches!(dispatch.poll_event(), Some(Event::Ping { .. })));
}
