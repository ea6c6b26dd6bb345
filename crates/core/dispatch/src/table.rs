//! The requests under way, by number, by key, by who waits and by deadline. Knows nothing of sources.
//!
//! A request has one place in each index, made by `insert` and `wait` and taken away by `remove`, so that a request that
//! has ended is nowhere.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hash;

use forebay_types::{Map, Priority, Time};

use crate::ids::{AttemptId, HoldId, RequestId, Waiter};

/// A waiter, and how long it waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waiting<W> {
    /// The waiter.
    pub who: W,
    /// Until when.
    pub until: Time,
}

/// A request under way.
#[derive(Debug)]
pub(crate) struct Entry<K, M, W> {
    pub key: K,
    pub message: M,
    pub priority: Priority,
    /// When this node reads it itself if it still waits: two thirds of the first waiter's time.
    pub last_resort: Time,
    /// When it is given up, or the first who wait for it are.
    pub deadline: Time,
    pub waiters: Vec<Waiting<W>>,
    pub phase: Phase,
    /// Nodes that did not bring an answer.
    pub tried: Vec<forebay_types::NodeRank>,
    /// Under way.
    pub attempts: Vec<AttemptId>,
    pub is_hedged: bool,
    /// How often a node has named another one instead of answering.
    pub referrals: u32,
    /// Whether nodes must answer themselves from now on.
    pub insists: bool,
}

/// Where a request stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// It may not be asked until these are released.
    Held(BTreeSet<HoldId>),
    /// No node can be asked, and there is no token for a fallback read.
    Limited,
    /// It has attempts, or is about to be routed.
    Asked,
}

impl<K, M, W> Entry<K, M, W> {
    /// The latest time until which anybody waits.
    pub fn until(&self) -> Time {
        self.waiters.iter().map(|waiting| waiting.until).max().unwrap_or(self.deadline)
    }
}

/// When what is asked at `now`, until `deadline`, is read as the last resort.
pub(crate) fn last_resort(now: Time, deadline: Time) -> Time {
    now.after(deadline.since(now) * 2 / 3)
}

/// All requests under way.
#[derive(Debug)]
pub(crate) struct Table<K, M, W: Waiter> {
    entries: BTreeMap<RequestId, Entry<K, M, W>>,
    by_key: Map<K, RequestId>,
    by_waiter: BTreeMap<W::Id, Vec<RequestId>>,
    deadlines: BTreeSet<(Time, RequestId)>,
    next: u64,
}

impl<K: Clone + Eq + Hash, M, W: Waiter> Table<K, M, W> {
    pub fn new() -> Self {
        Self {
            entries: BTreeMap::new(),
            by_key: Map::default(),
            by_waiter: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            next: 1,
        }
    }

    /// A new request, for which nobody waits yet.
    pub fn insert(&mut self, now: Time, key: K, message: M, priority: Priority, deadline: Time) -> RequestId {
        let id = RequestId(self.next);
        self.next += 1;
        self.by_key.insert(key.clone(), id);
        self.deadlines.insert((deadline, id));
        let entry = Entry {
            key,
            message,
            priority,
            last_resort: last_resort(now, deadline),
            deadline,
            waiters: Vec::new(),
            phase: Phase::Asked,
            tried: Vec::new(),
            attempts: Vec::new(),
            is_hedged: false,
            referrals: 0,
            insists: false,
        };
        self.entries.insert(id, entry);
        id
    }

    /// Adds a waiter to a request, perhaps with less time than the others.
    pub fn wait(&mut self, id: RequestId, waiting: Waiting<W>) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        if waiting.until < entry.deadline {
            self.deadlines.remove(&(entry.deadline, id));
            entry.deadline = waiting.until;
            self.deadlines.insert((entry.deadline, id));
        }
        if let Some(waiter) = waiting.who.id() {
            let requests = self.by_waiter.entry(waiter).or_default();
            if !requests.contains(&id) {
                requests.push(id);
            }
        }
        entry.waiters.push(waiting);
    }

    /// Takes a request out of everything.
    pub fn remove(&mut self, id: RequestId) -> Option<Entry<K, M, W>> {
        let entry = self.entries.remove(&id)?;
        self.by_key.remove(&entry.key);
        self.deadlines.remove(&(entry.deadline, id));
        for waiting in &entry.waiters {
            self.forget_waiter(&waiting.who, id);
        }
        Some(entry)
    }

    /// Takes a waiter out of all requests. Returns those without another waiter, in order of their numbers.
    pub fn withdraw(&mut self, waiter: W::Id) -> Option<Vec<RequestId>> {
        let requests = self.by_waiter.remove(&waiter)?;
        let leaves = |waiting: &Waiting<W>| waiting.who.id() == Some(waiter);
        let mut empty = Vec::new();
        for id in requests {
            if let Some(entry) = self.entries.get_mut(&id) {
                entry.waiters.retain(|waiting| !leaves(waiting));
                if entry.waiters.is_empty() {
                    empty.push(id);
                }
            }
        }
        empty.sort_unstable();
        Some(empty)
    }

    /// Takes those out of a request whose time is over, if others have more: it goes on until the first of them is late.
    /// `None` if nobody has.
    pub fn split_late(&mut self, id: RequestId, now: Time) -> Option<Vec<W>> {
        let entry = self.entries.get_mut(&id)?;
        let next = entry.waiters.iter().map(|waiting| waiting.until).filter(|until| *until > now).min()?;
        let late: Vec<W> =
            entry.waiters.extract_if(.., |waiting| waiting.until <= now).map(|waiting| waiting.who).collect();
        self.deadlines.remove(&(entry.deadline, id));
        entry.deadline = next;
        self.deadlines.insert((next, id));
        late.iter().for_each(|who| self.forget_waiter(who, id));
        Some(late)
    }

    fn forget_waiter(&mut self, who: &W, id: RequestId) {
        let Some(waiter) = who.id() else { return };
        let still_waits = |entry: &Entry<K, M, W>| entry.waiters.iter().any(|other| other.who.id() == Some(waiter));
        if self.entries.get(&id).is_some_and(still_waits) {
            return;
        }
        if let Some(requests) = self.by_waiter.get_mut(&waiter) {
            requests.retain(|other| *other != id);
            if requests.is_empty() {
                self.by_waiter.remove(&waiter);
            }
        }
    }

    pub fn get(&self, id: RequestId) -> Option<&Entry<K, M, W>> {
        self.entries.get(&id)
    }

    pub fn get_mut(&mut self, id: RequestId) -> Option<&mut Entry<K, M, W>> {
        self.entries.get_mut(&id)
    }

    pub fn by_key(&self, key: &K) -> Option<RequestId> {
        self.by_key.get(key).copied()
    }

    pub fn by_waiter(&self, waiter: W::Id) -> Vec<RequestId> {
        self.by_waiter.get(&waiter).cloned().unwrap_or_default()
    }

    /// All requests, in the order they began.
    pub fn iter(&self) -> impl Iterator<Item = (RequestId, &Entry<K, M, W>)> {
        self.entries.iter().map(|(id, entry)| (*id, entry))
    }

    pub fn next_deadline(&self) -> Option<Time> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// The requests whose deadline has passed, earliest first.
    pub fn expired(&self, now: Time) -> Vec<RequestId> {
        self.deadlines.iter().take_while(|(deadline, _)| *deadline <= now).map(|(_, id)| *id).collect()
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }
}
