//! Whose turn it is at a slow backing file system: every operation here takes until it is told to end.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixture;

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fixture::{Tree, generation, options, view};
use forebay_store::{Store, StoreOptions, Turns};
use forebay_types::{ChunkIndex, Priority, limits};

const PATIENCE: Duration = Duration::from_secs(60);

/// Turns whose operations begin and end by hand.
struct Slow {
    turns: Arc<Turns>,
    begin: Sender<u64>,
    begun: Receiver<u64>,
    ends: Mutex<BTreeMap<u64, Sender<()>>>,
}

impl Slow {
    fn new(limit: usize) -> Self {
        let (begin, begun) = channel();
        Self { turns: Turns::new(limit), begin, begun, ends: Mutex::default() }
    }

    fn ask(&self, priority: Priority, calls: impl IntoIterator<Item = u64>) {
        for call in calls {
            let ((end, ended), begin) = (channel(), self.begin.clone());
            self.ends.lock().unwrap().insert(call, end);
            self.turns.queue(call, priority, move || {
                begin.send(call).unwrap();
                // An error says that the test is over.
                let _ = ended.recv();
            });
        }
    }

    /// The next that begins.
    fn next(&self) -> u64 {
        self.begun.recv_timeout(PATIENCE).unwrap()
    }

    fn end(&self, call: u64) {
        self.ends.lock().unwrap().remove(&call).unwrap().send(()).unwrap();
    }

    /// Nothing has begun but what was told: `call` is asked for and comes at once.
    fn nothing_but(&self, call: u64) {
        self.ask(Priority::Demand, [call]);
        assert_eq!(self.next(), call);
    }
}

#[test]
fn what_a_program_wants_finds_a_turn_however_much_was_asked_ahead() {
    let slow = Slow::new(2 * limits::BACKING_TURNS_PER_AHEAD);
    slow.ask(Priority::Prefetch, 1..100);
    assert_eq!([slow.next(), slow.next()].iter().sum::<u64>(), 3, "a part of the turns");
    slow.nothing_but(200);
}

#[test]
fn what_a_program_wants_begins_before_what_was_asked_ahead_of_it() {
    let slow = Slow::new(1);
    slow.ask(Priority::Demand, [1]);
    assert_eq!(slow.next(), 1);
    slow.ask(Priority::Prefetch, 2..5);
    slow.ask(Priority::Demand, [5, 6]);
    for (ended, next) in [(1, 5), (5, 6), (6, 2), (2, 3)] {
        slow.end(ended);
        assert_eq!(slow.next(), next);
    }
}

#[test]
fn what_was_asked_ahead_and_is_wanted_now_goes_with_what_is_wanted() {
    let slow = Slow::new(1);
    slow.ask(Priority::Prefetch, 1..5);
    assert_eq!(slow.next(), 1);
    slow.turns.promote(3);
    slow.turns.promote(1);
    slow.turns.promote(7);
    slow.ask(Priority::Demand, [5]);
    slow.ask(Priority::Prefetch, [6, 7]);
    for (ended, next) in [(1, 3), (3, 5), (5, 7), (7, 2)] {
        slow.end(ended);
        assert_eq!(slow.next(), next);
    }
}

#[test]
fn a_promoted_question_takes_a_turn_that_is_free() {
    let slow = Slow::new(2);
    slow.ask(Priority::Prefetch, [1, 2]);
    assert_eq!(slow.next(), 1);
    slow.turns.promote(2);
    assert_eq!(slow.next(), 2);
}

#[test]
fn what_nobody_waits_for_any_more_never_begins() {
    let slow = Slow::new(1);
    slow.ask(Priority::Demand, 1..4);
    slow.ask(Priority::Prefetch, 4..6);
    assert_eq!(slow.next(), 1);
    [2, 4].into_iter().for_each(|call| slow.turns.withdraw(call));
    for (ended, next) in [(1, 3), (3, 5)] {
        slow.end(ended);
        assert_eq!(slow.next(), next);
    }
}

#[test]
fn what_was_asked_ahead_comes_through_beside_a_program_that_never_stops() {
    let slow = Slow::new(1);
    slow.ask(Priority::Demand, [0]);
    assert_eq!(slow.next(), 0);
    slow.ask(Priority::Prefetch, 1000..1002);
    slow.ask(Priority::Demand, 1..100);
    let round = limits::DEMANDS_PER_AHEAD + 1;
    let order = (0..2 * round).scan(0, |under_way, _| {
        slow.end(*under_way);
        *under_way = slow.next();
        Some(*under_way)
    });
    let ahead: Vec<usize> = order.enumerate().filter(|(_, call)| *call >= 1000).map(|(place, _)| place).collect();
    assert_eq!(ahead, [round - 1, 2 * round - 1]);
}

/// The same with a store that is slow in the middle of reading a file.
#[test]
fn a_listing_that_a_program_wants_does_not_wait_for_contents_asked_ahead() {
    let tree = Tree::new();
    let files: Vec<_> = (0..40).map(|number| tree.write(&format!("file{number}"), "contents")).collect();
    let turns = Turns::new(limits::BACKING_TURNS_PER_AHEAD);
    let options = StoreOptions { turns: Arc::clone(&turns), ..options(&[tree.path("")]) };
    let store = Arc::new(Store::open(options).unwrap());
    let (begin, begun) = channel();
    let (end, ended) = channel::<()>();
    let ended = Arc::new(Mutex::new(ended));
    for (call, file) in (0..).zip(files) {
        let (store, begin, ended) = (Arc::clone(&store), begin.clone(), Arc::clone(&ended));
        turns.queue(call, Priority::Prefetch, move || {
            let started = |_| {
                begin.send(()).unwrap();
                let _ = ended.lock().unwrap().recv();
            };
            store.read_chunk(&view(&file), &generation(&file), ChunkIndex(0), started).unwrap();
        });
    }
    begun.recv_timeout(PATIENCE).unwrap();
    let (listed, listing) = channel();
    let (at, dir) = (Arc::clone(&store), tree.view(""));
    turns.queue(100, Priority::Demand, move || listed.send(at.listing(&dir).unwrap().len()).unwrap());
    assert_eq!(listing.recv_timeout(PATIENCE).unwrap(), 40);
    let counters = store.counters();
    assert_eq!((counters.reads, counters.under_way_most), (0, 2), "one file is open and nothing read: {counters:?}");
    drop(end);
    (1..40).for_each(|_| begun.recv_timeout(PATIENCE).unwrap());
}
