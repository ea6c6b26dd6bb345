//! Questions that are under way, each asked once.
//!
//! A flight has a key, a deadline and those who wait for its answer, each until a time of its own: a child's request
//! brings less time with it than one of this node's, and whoever joins it has as much time as it would have had alone.

use std::collections::BTreeSet;

use forebay_types::{Map, Time};

use crate::Key;

/// The number of a question a node asked, never used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CallId(pub u64);

/// One question under way and who waits for it.
#[derive(Clone, Debug)]
pub struct Flight<W> {
    /// What was asked for.
    pub key: Key,
    /// When it is given up, or when the first who wait for it are.
    pub deadline: Time,
    /// Who waits, in the order they came.
    pub waiters: Vec<Waiting<W>>,
}

/// Somebody who waits for a flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waiting<W> {
    /// Who.
    pub who: W,
    /// Until when.
    pub until: Time,
}

/// Whether a question must be asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Joined {
    /// Nobody asked yet: ask now, under this number.
    First(CallId),
    /// Somebody did: nothing to do.
    Coalesced(CallId),
}

/// The questions under way at a node.
#[derive(Debug)]
pub struct InFlight<W> {
    flights: Map<CallId, Flight<W>>,
    calls: Map<Key, CallId>,
    deadlines: BTreeSet<(Time, CallId)>,
    next: u64,
}

impl<W> Default for InFlight<W> {
    fn default() -> Self {
        Self { flights: Map::default(), calls: Map::default(), deadlines: BTreeSet::new(), next: 1 }
    }
}

impl<W> InFlight<W> {
    /// Joins the flight for `key`, or starts one, until `deadline`.
    pub fn join(&mut self, key: Key, deadline: Time, waiter: Option<W>) -> Joined {
        let waiter = waiter.map(|who| Waiting { who, until: deadline });
        if let Some(call) = self.calls.get(&key) {
            if let Some(flight) = self.flights.get_mut(call) {
                flight.waiters.extend(waiter);
            }
            return Joined::Coalesced(*call);
        }
        let call = self.next_call();
        self.calls.insert(key.clone(), call);
        self.deadlines.insert((deadline, call));
        self.flights.insert(call, Flight { key, deadline, waiters: waiter.into_iter().collect() });
        Joined::First(call)
    }

    /// A number that no question has: for asking one a second time.
    pub fn next_call(&mut self) -> CallId {
        let call = CallId(self.next);
        self.next += 1;
        call
    }

    /// Ends a flight and returns it; `None` when it has ended before.
    pub fn end(&mut self, call: CallId) -> Option<Flight<W>> {
        let flight = self.flights.remove(&call)?;
        self.calls.remove(&flight.key);
        self.deadlines.remove(&(flight.deadline, call));
        Some(flight)
    }

    /// Takes the waiters that `leaves` points out, and ends flights that nobody waits for any more (their numbers).
    pub fn withdraw(&mut self, mut leaves: impl FnMut(&W) -> bool) -> (Vec<W>, Vec<CallId>) {
        let mut withdrawn = Vec::new();
        let mut empty = Vec::new();
        for (call, flight) in &mut self.flights {
            let before = flight.waiters.len();
            withdrawn.extend(flight.waiters.extract_if(.., |waiting| leaves(&waiting.who)).map(|waiting| waiting.who));
            if before > 0 && flight.waiters.is_empty() {
                empty.push(*call);
            }
        }
        empty.sort_unstable();
        empty.iter().for_each(|call| drop(self.end(*call)));
        (withdrawn, empty)
    }

    /// Whether `key` is under way.
    #[must_use]
    pub fn contains(&self, key: &Key) -> bool {
        self.calls.contains_key(key)
    }

    /// The flight for `key`.
    #[must_use]
    pub fn call_of(&self, key: &Key) -> Option<CallId> {
        self.calls.get(key).copied()
    }

    /// The flight, if it is still under way.
    #[must_use]
    pub fn get(&self, call: CallId) -> Option<&Flight<W>> {
        self.flights.get(&call)
    }

    /// The flights that somebody waits for whom `is_one` points out, in the order they started.
    #[must_use]
    pub fn calls_of(&self, is_one: impl Fn(&W) -> bool) -> Vec<CallId> {
        let waits = |flight: &Flight<W>| flight.waiters.iter().any(|waiting| is_one(&waiting.who));
        let mut calls: Vec<CallId> =
            self.flights.iter().filter(|(_, flight)| waits(flight)).map(|(call, _)| *call).collect();
        calls.sort_unstable();
        calls
    }

    /// Those who wait for a flight.
    pub fn waiters_mut(&mut self, call: CallId) -> impl Iterator<Item = &mut W> {
        self.flights.get_mut(&call).into_iter().flat_map(|flight| &mut flight.waiters).map(|waiting| &mut waiting.who)
    }

    /// Takes those out of a flight whose time is over, if others have more: the flight goes on until theirs is.
    pub fn part(&mut self, call: CallId, now: Time) -> Option<Vec<W>> {
        let flight = self.flights.get_mut(&call)?;
        let latest = flight.waiters.iter().map(|waiting| waiting.until).max().filter(|latest| *latest > now)?;
        let late = flight.waiters.extract_if(.., |waiting| waiting.until <= now).map(|waiting| waiting.who).collect();
        self.deadlines.remove(&(flight.deadline, call));
        flight.deadline = latest;
        self.deadlines.insert((latest, call));
        Some(late)
    }

    /// The earliest deadline.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// The flights whose time is over, earliest first.
    #[must_use]
    pub fn expired(&self, now: Time) -> Vec<CallId> {
        self.deadlines.iter().take_while(|(deadline, _)| *deadline <= now).map(|(_, call)| *call).collect()
    }

    /// All flights, in the order they started.
    #[must_use]
    pub fn calls(&self) -> Vec<CallId> {
        let mut calls: Vec<CallId> = self.flights.keys().copied().collect();
        calls.sort_unstable();
        calls
    }

    /// Number of flights.
    #[must_use]
    pub fn len(&self) -> usize {
        self.flights.len()
    }

    /// Whether nothing is under way.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.flights.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_types::ViewPath;
    use proptest::prelude::*;

    fn key(number: u8) -> Key {
        Key::Listing { dir: ViewPath::new(format!("d{number}").as_bytes()).unwrap() }
    }

    proptest! {
        /// However joins, ends, withdrawals and deadlines mix: a key has one flight, and each waiter leaves once.
        #[test]
        fn every_waiter_leaves_exactly_once(steps in proptest::collection::vec((0u8..5, 0u8..6, 0u64..50), 1..200)) {
            let mut table = InFlight::<usize>::default();
            let mut open: std::collections::BTreeMap<u8, CallId> = Default::default();
            let mut left = Vec::new();
            for (waiter, (action, number, time)) in steps.iter().copied().enumerate() {
                match action {
                    0 | 1 => match table.join(key(number), Time(time), Some(waiter)) {
                        Joined::First(call) => prop_assert!(open.insert(number, call).is_none()),
                        Joined::Coalesced(call) => prop_assert_eq!(open.get(&number), Some(&call)),
                    },
                    2 => if let Some(call) = open.remove(&number) {
                        left.extend(table.end(call).unwrap().waiters.into_iter().map(|waiting| waiting.who));
                        prop_assert!(table.end(call).is_none());
                    },
                    3 => {
                        let (gone, empty) = table.withdraw(|waiter| waiter % 5 == usize::from(number));
                        left.extend(gone);
                        open.retain(|_, call| !empty.contains(call));
                    }
                    _ => {
                        for call in table.expired(Time(time)) {
                            if let Some(late) = table.part(call, Time(time)) {
                                prop_assert!(table.get(call).unwrap().waiters.iter().all(|waiting| waiting.until > Time(time)));
                                left.extend(late);
                                continue;
                            }
                            left.extend(table.end(call).unwrap().waiters.into_iter().map(|waiting| waiting.who));
                            open.retain(|_, other| *other != call);
                        }
                        prop_assert!(table.next_deadline().is_none_or(|deadline| deadline > Time(time)));
                    }
                }
                for (call, waiter) in open.values().filter_map(|call| Some((call, table.get(*call)?.waiters.first()?.who))) {
                    prop_assert_eq!(table.calls_of(|who| *who == waiter), [*call]);
                }
                prop_assert_eq!(table.len(), open.len());
                prop_assert_eq!(table.next_deadline().is_some(), !table.is_empty());
            }
            for call in table.calls() {
                left.extend(table.end(call).unwrap().waiters.into_iter().map(|waiting| waiting.who));
            }
            left.sort_unstable();
            let joined = steps.iter().enumerate().filter(|(_, step)| step.0 < 2).map(|(waiter, _)| waiter);
            prop_assert_eq!(left, joined.collect::<Vec<_>>());
        }
    }
}
