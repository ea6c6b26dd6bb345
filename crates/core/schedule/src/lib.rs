//! The order of operations at the backing file system: a bounded number at once, those that a program waits for first.
//!
//! A parallel file system serves a bounded number of requests per client well; more of them only queue in its servers
//! and take every other job's turn. An operation is one unit of this bound for all its system calls and never asks for a
//! second one, so waiting cannot deadlock.
//!
//! A prefetch begins only when no demand operation waits, except for one in a fixed number of operations, so that a program
//! which never stops asking does not starve prefetches. Prefetches may fill only a part of the bound: a demand operation
//! finds room, however slow the backing file system is, and little before it in the servers' own queues.
//!
//! Background operations, those of landing, come last, and may fill only a part of the bound too. While a program has an operation
//! under way or waiting, one background operation may be under way. After a fixed number of others that began before it, one begins,
//! so that a full store empties beside a program that never stops reading.
//!
//! # Usage
//! No threads and no time. `submit` an operation; while `begin` gives one, carry it out and `end` it. After `submit`,
//! `promote` and `end` something new may begin; `ready_count` says how many at most. An operation that need not wait begins by `begin_at_once`
//! without having been submitted.

use std::collections::{BTreeMap, BTreeSet};

use forebay_types::Priority;

/// One of so many operations at once may be a prefetch.
pub const OPERATIONS_PER_PREFETCH: usize = 4;

/// After so many demands, one after the other, while a prefetch waited that could have begun, the prefetch begins: at most
/// one prefetch per so many demands.
pub const DEMANDS_PER_PREFETCH: usize = 16;

/// One of so many operations at once may be a background operation.
pub const OPERATIONS_PER_BACKGROUND: usize = 4;

/// After so many others while a background operation waited that could have begun, it begins.
pub const OTHERS_PER_BACKGROUND: usize = 16;

/// Promotions that are remembered although nothing of their number waits: threads overtake each other by a few.
const PROMOTED_MAX: usize = 64;

/// The purpose of an operation, the most urgent first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Class {
    /// A program waits for it.
    Demand,
    /// A program may ask for it soon.
    Prefetch,
    /// No program waits for it: landing.
    Background,
}

impl From<Priority> for Class {
    fn from(priority: Priority) -> Self {
        match priority {
            Priority::Demand => Self::Demand,
            Priority::Prefetch => Self::Prefetch,
        }
    }
}

/// Operations that wait, by their numbers: what was submitted first goes first.
#[derive(Debug)]
pub struct IoScheduler<T> {
    limit: usize,
    demand: BTreeMap<u64, T>,
    demand_under_way_count: usize,
    prefetch: Low<T>,
    background: Low<T>,
    /// Promoted while they did not wait: some will come yet, others have begun.
    promoted: BTreeSet<u64>,
    counters: Counters,
}

/// Operations that others go before.
#[derive(Debug)]
struct Low<T> {
    waiting: BTreeMap<u64, T>,
    under_way_count: usize,
    /// Others that have begun, one after the other, while one of these could have.
    passed_over_count: usize,
}

impl<T> Low<T> {
    fn new() -> Self {
        Self { waiting: BTreeMap::new(), under_way_count: 0, passed_over_count: 0 }
    }

    fn note_passed_over(&mut self, room: usize) {
        self.passed_over_count = if room > 0 && !self.waiting.is_empty() { self.passed_over_count + 1 } else { 0 };
    }
}

/// Counts since the start, but for what is under way now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Operations under way.
    pub under_way: u64,
    /// The most that were at once.
    pub under_way_most: u64,
    /// Operations that had to wait.
    pub waits: u64,
}

impl<T> IoScheduler<T> {
    /// For `limit` operations at once, at least one.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            limit: limit.max(1),
            demand: BTreeMap::new(),
            demand_under_way_count: 0,
            prefetch: Low::new(),
            background: Low::new(),
            promoted: BTreeSet::new(),
            counters: Counters::default(),
        }
    }

    /// An operation waits. `number` is that of its attempt; two that wait at the same time have different ones.
    pub fn submit(&mut self, number: u64, class: impl Into<Class>, operation: T) {
        let class = if self.promoted.remove(&number) { Class::Demand } else { class.into() };
        self.queue(class).insert(number, operation);
        self.counters.waits += u64::from(self.has_to_wait(class));
    }

    /// A program waits now for an operation that waits, will in a moment, or has begun. Whether it waited.
    pub fn promote(&mut self, number: u64) -> bool {
        if let Some(operation) = self.prefetch.waiting.remove(&number) {
            self.demand.insert(number, operation);
            return true;
        }
        self.promoted.insert(number);
        if self.promoted.len() > PROMOTED_MAX {
            self.promoted.pop_first();
        }
        false
    }

    /// Withdraws an operation: if it waits, it never begins.
    pub fn withdraw(&mut self, number: u64) -> Option<T> {
        let low = || self.prefetch.waiting.remove(&number).or_else(|| self.background.waiting.remove(&number));
        self.demand.remove(&number).or_else(low)
    }

    /// The next operation that may begin, with the class to `end` it by.
    pub fn begin(&mut self) -> Option<(T, Class)> {
        let class = self.next_class().filter(|_| self.free() > 0)?;
        let (_, operation) = self.queue(class).pop_first()?;
        self.note_begun(class);
        Some((operation, class))
    }

    /// Whether an operation of this class begins that was not submitted: nothing goes before it, and there is room.
    pub fn begin_at_once(&mut self, class: Class) -> bool {
        let has_room = match class {
            Class::Demand => true,
            Class::Prefetch => self.prefetch_part() > 0,
            Class::Background => self.background_part() > 0,
        };
        let is_first = self.next_class().is_none_or(|next| class < next && !self.is_due(next));
        let begins = self.free() > 0 && has_room && is_first;
        if begins {
            self.note_begun(class);
        }
        begins
    }

    /// An operation that `begin` gave is over.
    pub fn end(&mut self, class: Class) {
        let count = self.under_way(class);
        *count = count.saturating_sub(1);
    }

    /// Operations that wait and may begin.
    #[must_use]
    pub fn ready_count(&self) -> usize {
        (self.demand.len() + self.prefetch_room() + self.background_room()).min(self.free())
    }

    /// Operations at once.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Counts.
    #[must_use]
    pub fn counters(&self) -> Counters {
        Counters { under_way: self.under_way_count() as u64, ..self.counters }
    }

    /// Of the operations that wait, the class of the one that goes first.
    fn next_class(&self) -> Option<Class> {
        let low = [(Class::Prefetch, self.prefetch_room()), (Class::Background, self.background_room())];
        let low = low.into_iter().filter(|(_, room)| *room > 0).map(|(class, _)| class);
        let due = low.clone().find(|class| self.is_due(*class));
        due.or_else(|| (!self.demand.is_empty()).then_some(Class::Demand)).or_else(|| low.min())
    }

    /// Whether so many have gone before operations of a class that one of these goes first.
    fn is_due(&self, class: Class) -> bool {
        match class {
            Class::Demand => false,
            Class::Prefetch => self.prefetch.passed_over_count >= DEMANDS_PER_PREFETCH,
            Class::Background => self.background.passed_over_count >= OTHERS_PER_BACKGROUND,
        }
    }

    fn note_begun(&mut self, class: Class) {
        let rooms = (self.prefetch_part(), self.background_part());
        *self.under_way(class) += 1;
        match class {
            Class::Demand => self.prefetch.note_passed_over(rooms.0),
            Class::Prefetch => self.prefetch.passed_over_count = 0,
            Class::Background => {}
        }
        match class {
            Class::Background => self.background.passed_over_count = 0,
            _ => self.background.note_passed_over(rooms.1),
        }
        self.counters.under_way_most = self.counters.under_way_most.max(self.under_way_count() as u64);
    }

    /// Prefetches that may begin now as far as their part goes.
    fn prefetch_part(&self) -> usize {
        self.limit.div_ceil(OPERATIONS_PER_PREFETCH).saturating_sub(self.prefetch.under_way_count)
    }

    /// Background operations that may begin now as far as their part goes.
    fn background_part(&self) -> usize {
        let is_used = self.demand_under_way_count > 0 || !self.demand.is_empty();
        let part = if is_used { 1 } else { self.limit.div_ceil(OPERATIONS_PER_BACKGROUND) };
        part.saturating_sub(self.background.under_way_count)
    }

    fn prefetch_room(&self) -> usize {
        self.prefetch_part().min(self.prefetch.waiting.len())
    }

    fn background_room(&self) -> usize {
        self.background_part().min(self.background.waiting.len())
    }

    fn has_to_wait(&self, class: Class) -> bool {
        let (demand, prefetch) = (self.demand.len(), self.prefetch.waiting.len());
        match class {
            Class::Demand => demand > self.free(),
            Class::Prefetch => prefetch > self.prefetch_room() || prefetch + demand > self.free(),
            Class::Background => {
                let background = self.background.waiting.len();
                background > self.background_room() || background + prefetch + demand > self.free()
            }
        }
    }

    fn free(&self) -> usize {
        self.limit.saturating_sub(self.under_way_count())
    }

    fn under_way_count(&self) -> usize {
        self.demand_under_way_count + self.prefetch.under_way_count + self.background.under_way_count
    }

    fn under_way(&mut self, class: Class) -> &mut usize {
        match class {
            Class::Demand => &mut self.demand_under_way_count,
            Class::Prefetch => &mut self.prefetch.under_way_count,
            Class::Background => &mut self.background.under_way_count,
        }
    }

    fn queue(&mut self, class: Class) -> &mut BTreeMap<u64, T> {
        match class {
            Class::Demand => &mut self.demand,
            Class::Prefetch => &mut self.prefetch.waiting,
            Class::Background => &mut self.background.waiting,
        }
    }
}

#[cfg(test)]
mod tests;
