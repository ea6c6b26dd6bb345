//! How long requests wait, for whom and at whom, when nodes answer that they are there and nothing else.

use forebay_dispatch::{Dispatch, Event, Failure, HoldId, Joined, Source, Waiter, Wanted};
use forebay_types::{Priority, Referral, Time};
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

/// A program asks with 30 s of time, and another joins every `step_ms` with `joiner_ms`: when the backing file system is
/// read, and how many were told before that their time is over.
fn wait_for_last_resort(step_ms: u64, joiner_ms: u64) -> (Option<u64>, usize) {
    let mut dispatch = Requests::new(Line);
    dispatch.request(at(0), 1, || 1, want(0, at(30_000)));
    let (mut late_count, mut number) = (0, 0);
    for ms in (0..120_000).step_by(100) {
        if ms > 0 && ms % step_ms == 0 {
            number += 1;
            dispatch.request(at(ms), 1, || 1, want(number, at(ms + joiner_ms)));
        }
        dispatch.run_timers(at(ms));
        while let Some(event) = dispatch.poll_event() {
            match event {
                Event::Ping { peer, .. } => dispatch.pinged(at(ms), peer, true),
                Event::Ask { source: Source::Backing, .. } => return (Some(ms), late_count),
                Event::Late { waiters, .. } => late_count += waiters.len(),
                Event::Failed { finished, .. } => late_count += finished.waiters.len(),
                _ => {}
            }
        }
    }
    (None, late_count)
}

/// A later waiter neither puts off nor brings forward the last resort of the first.
#[test]
fn the_last_resort_comes_however_many_join() {
    assert_eq!(wait_for_last_resort(1_000_000, 0), (Some(20_000), 0), "alone");
    for step_ms in [1_000, 19_000] {
        assert_eq!(wait_for_last_resort(step_ms, 30_000), (Some(20_000), 0), "joined every {step_ms} ms");
    }
    let (read_at, _) = wait_for_last_resort(1_000, 3_000);
    assert_eq!(read_at, Some(20_000), "joined by those who have little time");
}

/// A request that needs no token does not wait behind those that do.
#[test]
fn unreadable_files_fail_although_the_tokens_are_gone() {
    let mut dispatch = Requests::new(Line);
    for key in 10..250 {
        dispatch.request(at(0), key, || key, want(u32::from(key), at(3_000)));
    }
    dispatch.request(at(0), 9, || 9, want(9, at(3_000)));
    let mut failed = None;
    for ms in (0..4_000).step_by(100) {
        dispatch.run_timers(at(ms));
        while let Some(event) = dispatch.poll_event() {
            match event {
                Event::Ping { peer, .. } => dispatch.pinged(at(ms), peer, true),
                Event::Failed { finished, why } if finished.key == 9 => failed = Some((ms, why)),
                _ => {}
            }
        }
    }
    assert_eq!(failed, Some((2_000, Failure::NoSource)));
}

#[test]
fn a_node_that_sent_a_whole_body_is_not_taken_for_silent() {
    let mut dispatch = Requests::new(Line);
    dispatch.run_timers(at(1_000));
    dispatch.pinged(at(1_000), ORDER[0], true);
    while dispatch.poll_event().is_some() {}
    dispatch.request(at(1_000), 1, || 1, want(0, at(30_000)));
    let Some(Event::Ask { attempt, .. }) = dispatch.poll_event() else { panic!("it is asked for") };
    dispatch.begin_filling(at(1_001), attempt).unwrap();
    dispatch.end_filling(at(1_002), attempt, true).unwrap();
    dispatch.run_timers(at(1_600));
    assert!(!std::iter::from_fn(|| dispatch.poll_event()).any(|event| matches!(event, Event::Ping { .. })));
}

/// Node 2 has sent for seconds what node 1 sends in milliseconds: what it was asked is asked of node 1, which is told to ask nobody.
#[test]
fn a_node_that_is_far_slower_than_others_is_left_alone() {
    let mut dispatch = Requests::new(Line);
    let events = |dispatch: &mut Requests| std::iter::from_fn(|| dispatch.poll_event()).collect::<Vec<_>>();
    let ask = |dispatch: &mut Requests, ms: u64, key: u8| {
        dispatch.request(at(ms), key, || key, want(u32::from(key), at(ms + 30_000)));
        match &events(dispatch)[..] {
            [Event::Ask { attempt, source, referral, .. }] => (*attempt, *source, *referral),
            other => panic!("{other:?}"),
        }
    };
    for key in [241, 243, 245, 247] {
        let (attempt, source, _) = ask(&mut dispatch, 0, key);
        assert_eq!(source, Source::Peer(ORDER[1]));
        dispatch.begin_filling(at(1), attempt).unwrap();
        dispatch.note_bytes(at(2), attempt);
        dispatch.end_filling(at(10), attempt, true).unwrap();
    }
    let slow = [240, 242].map(|key| {
        let (attempt, source, referral) = ask(&mut dispatch, 10, key);
        assert_eq!((source, referral), (Source::Peer(ORDER[0]), Referral::Refused));
        dispatch.begin_filling(at(20), attempt).unwrap();
        dispatch.note_bytes(at(30), attempt);
        attempt
    });
    let (mut told, mut cancelled, mut lost) = (Vec::new(), Vec::new(), 0);
    for ms in (100..10_000).step_by(100) {
        dispatch.run_timers(at(ms));
        for event in events(&mut dispatch) {
            match event {
                Event::Ping { peer, .. } => dispatch.pinged(at(ms), peer, true),
                Event::LeftAlone { peer, .. } => told.push((ms, peer)),
                Event::Cancel { attempt } => cancelled.push(attempt),
                Event::BodyLost { .. } => lost += 1,
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!((&told[..], &cancelled[..], lost), (&[(1600, ORDER[0])][..], &slow[..], 2));
    assert_eq!(dispatch.left_alone(at(10_000)), [ORDER[0]]);
    let (_, source, referral) = ask(&mut dispatch, 10_000, 244);
    assert_eq!((source, referral), (Source::Peer(ORDER[1]), Referral::Alone), "a stand-in must not ask it either");
    let (_, source, _) = ask(&mut dispatch, 10_000, 2);
    assert_eq!(source, Source::Peer(ORDER[0]), "what is not alike goes its way");
    let wanted = Wanted { is_alone: true, ..want(0, at(30_000)) };
    dispatch.request(at(10_000), 250, || 250, wanted);
    assert!(matches!(&events(&mut dispatch)[..], [Event::Ask { source: Source::Backing, .. }]));
    let (_, source, _) = ask(&mut dispatch, 60_000, 246);
    assert_eq!(source, Source::Peer(ORDER[0]), "it has another chance");
}

/// Another node found the one slow for which this one waits: this one reads itself, once, however often it is told so.
#[test]
fn a_stand_in_waits_no_longer_for_a_slow_node() {
    let mut dispatch = Requests::new(Line);
    let Joined::First(request) = dispatch.request(at(0), 240, || 240, want(0, at(30_000))) else { panic!("it is new") };
    let Some(Event::Ask { attempt: slow, source, .. }) = dispatch.poll_event() else { panic!("it is asked for") };
    assert_eq!(source, Source::Peer(ORDER[0]));
    (0..3).for_each(|ms| dispatch.ask_alone(at(10 + ms), request));
    let told: Vec<_> = std::iter::from_fn(|| dispatch.poll_event()).collect();
    let [Event::Cancel { attempt }, Event::Ask { source: Source::Backing, .. }] = &told[..] else { panic!("{told:?}") };
    assert_eq!(*attempt, slow);
}

/// A request that is held is asked of nobody, whatever happens to the nodes meanwhile and however late it becomes, until the
/// last of its holds is released.
#[test]
fn held_requests_are_not_sent() {
    let mut dispatch = Requests::new(Line);
    let [first, second] = [(); 2].map(|()| dispatch.new_hold());
    let wanted = Wanted { holds: vec![first], ..want(0, at(30_000)) };
    let Joined::First(request) = dispatch.request(at(0), 1, || 1, wanted) else { panic!("it is new") };
    dispatch.hold(request, second);
    dispatch.request(at(1), 1, || 1, want(1, at(60_000)));
    dispatch.absent(at(2), ORDER[0]);
    dispatch.pinged(at(3), ORDER[0], true);
    dispatch.go_on(at(4), request);
    for ms in (100..25_000).step_by(100) {
        dispatch.run_timers(at(ms));
        if ms == 10_000 {
            dispatch.release(at(ms), first);
        }
        while let Some(event) = dispatch.poll_event() {
            match event {
                Event::Ping { peer, .. } => dispatch.pinged(at(ms), peer, true),
                other => panic!("after {ms} ms: {other:?}"),
            }
        }
    }
    dispatch.release(at(25_000), second);
    let asked = std::iter::from_fn(|| dispatch.poll_event()).filter(|event| matches!(event, Event::Ask { .. }));
    assert_eq!(asked.count(), 1);
}

/// A request that had to wait begins anew: the node that could not answer then may be able to now.
#[test]
fn released_requests_go_to_the_first_node_again() {
    let mut dispatch = Requests::new(Line);
    let Joined::First(request) = dispatch.request(at(0), 1, || 1, want(0, at(30_000))) else { panic!("it is new") };
    let Some(Event::Ask { attempt, .. }) = dispatch.poll_event() else { panic!("it is asked for") };
    dispatch.spoilt(at(1), attempt);
    dispatch.hold(request, HoldId(1));
    dispatch.release(at(5_000), HoldId(1));
    let ask = |event| match event {
        Event::Ask { source, .. } => Some(source),
        _ => None,
    };
    assert_eq!(std::iter::from_fn(|| dispatch.poll_event()).filter_map(ask).last(), Some(Source::Peer(ORDER[0])));
}

/// Late at the start, then there, then gone without a word: what was asked of it before still waits for it.
#[test]
fn a_node_that_was_absent_once_is_noticed_when_it_is_silent() {
    let mut dispatch = Requests::new(Line);
    dispatch.request(at(0), 1, || 1, Wanted { priority: Priority::Prefetch, ..want(0, at(30_000)) });
    dispatch.absent(at(10), ORDER[0]);
    dispatch.pinged(at(20), ORDER[0], true);
    while dispatch.poll_event().is_some() {}
    dispatch.run_timers(at(1_000));
    let is_ping = |event| matches!(event, Event::Ping { peer, .. } if peer == ORDER[0]);
    assert!(std::iter::from_fn(|| dispatch.poll_event()).any(is_ping));
}

/// When everything is slow, asking everything twice would make it slower: 16 second requests are saved up after a quiet time,
/// and one is earned with every 50 requests.
#[test]
fn second_requests_have_a_budget() {
    let mut dispatch = Requests::new(Line);
    let mut second_count = 0;
    for round in 0..2 {
        let begins = u64::from(round) * 2_000;
        for key in 10..110 {
            dispatch.request(at(begins), 100 * round + key, || key, want(u32::from(key), at(30_000)));
        }
        for ms in (begins..begins + 2_000).step_by(100) {
            dispatch.run_timers(at(ms));
            while let Some(event) = dispatch.poll_event() {
                match event {
                    Event::Ping { peer, .. } => dispatch.pinged(at(ms), peer, true),
                    Event::Ask { source, .. } => second_count += usize::from(source == Source::Peer(ORDER[1])),
                    _ => {}
                }
            }
        }
        // The first hundred come while nothing more can be saved up.
        assert_eq!(second_count, if round == 0 { 16 } else { 18 }, "round {round}");
    }
}
