//! The world: virtual time, what is on its way, and which ways are open.
//!
//! A message to a node that does not run is refused, as by a host whose port is closed; one over a way that is cut, or to
//! a node that is stopped, waits, as TCP's do, and arrives when the way is mended.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use forebay_types::Time;

use crate::NodeIndex;
use crate::random::Random;

/// Messages take up to this long.
pub(crate) const LATENCY_MAX_US: u64 = 10_000;

/// Virtual time and what is going to happen. `E` is what happens.
pub(crate) struct World<E> {
    /// The time.
    pub now: Time,
    /// Chance.
    pub random: Random,
    events: BTreeMap<(Time, u64), E>,
    sequence: u64,
    cuts: BTreeSet<(NodeIndex, NodeIndex)>,
    partition: Option<NodeIndex>,
    held: Vec<(NodeIndex, NodeIndex, E)>,
    slow: BTreeMap<NodeIndex, Duration>,
}

impl<E> World<E> {
    /// A world in which nothing is cut.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            now: Time(0),
            random: Random::new(seed),
            events: BTreeMap::new(),
            sequence: 0,
            cuts: BTreeSet::new(),
            partition: None,
            held: Vec::new(),
            slow: BTreeMap::new(),
        }
    }

    /// When the next thing happens.
    #[must_use]
    pub fn next_time(&self) -> Option<Time> {
        self.events.first_key_value().map(|((time, _), _)| *time)
    }

    /// The next thing; time has come to it.
    pub fn next_event(&mut self) -> Option<E> {
        let ((time, _), event) = self.events.pop_first()?;
        self.now = self.now.max(time);
        Some(event)
    }

    /// Lets something happen at a time.
    pub fn at(&mut self, time: Time, event: E) {
        self.sequence += 1;
        self.events.insert((time, self.sequence), event);
    }

    /// Lets something happen soon.
    pub fn soon(&mut self, event: E) {
        let time = self.now.after(Duration::from_micros(self.random.below(LATENCY_MAX_US)));
        self.at(time, event);
    }

    /// Lets something happen that a message brings about.
    pub fn send(&mut self, from: NodeIndex, to: NodeIndex, event: E) {
        let takes = Duration::from_micros(self.random.below(LATENCY_MAX_US));
        self.send_in(from, to, takes, event);
    }

    /// The same for a message that does not overtake those before it.
    pub fn send_behind(&mut self, from: NodeIndex, to: NodeIndex, event: E) {
        let takes = Duration::from_micros(LATENCY_MAX_US + self.random.below(LATENCY_MAX_US));
        self.send_in(from, to, takes, event);
    }

    fn send_in(&mut self, from: NodeIndex, to: NodeIndex, takes: Duration, event: E) {
        if !self.is_open(from, to) {
            return self.held.push((from, to, event));
        }
        let slow = self.slow.get(&from).copied().unwrap_or_default();
        self.at(self.now.after(slow + takes), event);
    }

    /// Whether messages get from one node to another.
    #[must_use]
    pub fn is_open(&self, from: NodeIndex, to: NodeIndex) -> bool {
        let is_divided = self.partition.is_some_and(|first| (from < first) != (to < first));
        !is_divided && !self.cuts.contains(&(from, to))
    }

    /// Cuts a way.
    pub fn cut(&mut self, from: NodeIndex, to: NodeIndex) {
        if from != to {
            self.cuts.insert((from, to));
        }
    }

    /// Mends it.
    pub fn mend(&mut self, from: NodeIndex, to: NodeIndex) {
        self.cuts.remove(&(from, to));
        self.send_held();
    }

    /// Divides the nodes below an index from the others, or nobody.
    pub fn divide(&mut self, partition: Option<NodeIndex>) {
        self.partition = partition;
        self.send_held();
    }

    /// Makes what a node sends slower.
    pub fn slow_down(&mut self, node: NodeIndex, by: Duration) {
        self.slow.insert(node, by);
    }

    fn send_held(&mut self) {
        for (from, to, event) in std::mem::take(&mut self.held) {
            self.send(from, to, event);
        }
    }
}
