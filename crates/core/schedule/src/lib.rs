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
//! # What to call when
//! No threads and no time. `submit` an operation; while `begin` gives one, carry it out and `end` it. After `submit`,
//! `promote` and `end` something new may begin; `ready_count` says how many at most.

use std::collections::{BTreeMap, BTreeSet};

use forebay_types::Priority;

/// One of so many operations at once may be a prefetch.
pub const OPERATIONS_PER_PREFETCH: usize = 4;

/// After so many demands, one after the other, while a prefetch waited that could have begun, the prefetch begins: at most
/// one prefetch per so many demands.
pub const DEMANDS_PER_PREFETCH: usize = 16;

/// Promotions that are remembered although nothing of their number waits: threads overtake each other by a few.
const PROMOTED_MAX: usize = 64;

/// Operations that wait, by their numbers: what was submitted first goes first.
#[derive(Debug)]
pub struct IoScheduler<T> {
    limit: usize,
    demand: BTreeMap<u64, T>,
    prefetch: BTreeMap<u64, T>,
    /// Promoted while they did not wait: some will come yet, others have begun.
    promoted: BTreeSet<u64>,
    under_way_count: usize,
    prefetch_under_way_count: usize,
    /// Demands that have begun, one after the other, while a prefetch could have.
    preferred_count: usize,
    counters: Counters,
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
            prefetch: BTreeMap::new(),
            promoted: BTreeSet::new(),
            under_way_count: 0,
            prefetch_under_way_count: 0,
            preferred_count: 0,
            counters: Counters::default(),
        }
    }

    /// An operation waits. `number` is that of its attempt; two that wait at the same time have different ones.
    pub fn submit(&mut self, number: u64, priority: Priority, operation: T) {
        let priority = if self.promoted.remove(&number) { Priority::Demand } else { priority };
        self.queue(priority).insert(number, operation);
        self.counters.waits += u64::from(self.has_to_wait(priority));
    }

    /// A program waits now for an operation that waits, will in a moment, or has begun. Whether it waited.
    pub fn promote(&mut self, number: u64) -> bool {
        if let Some(operation) = self.prefetch.remove(&number) {
            self.demand.insert(number, operation);
            return true;
        }
        self.promoted.insert(number);
        if self.promoted.len() > PROMOTED_MAX {
            self.promoted.pop_first();
        }
        false
    }

    /// Nobody wants an operation any more: if it waits, it never begins.
    pub fn withdraw(&mut self, number: u64) -> Option<T> {
        self.demand.remove(&number).or_else(|| self.prefetch.remove(&number))
    }

    /// The next operation that may begin, with the priority to `end` it by.
    pub fn begin(&mut self) -> Option<(T, Priority)> {
        if self.under_way_count >= self.limit {
            return None;
        }
        let prefetch_may = self.prefetch_room() > 0;
        let prefetch_is_due = self.demand.is_empty() || self.preferred_count >= DEMANDS_PER_PREFETCH;
        let priority = if prefetch_may && prefetch_is_due { Priority::Prefetch } else { Priority::Demand };
        let (_, operation) = self.queue(priority).pop_first()?;
        self.preferred_count = if prefetch_may && priority == Priority::Demand { self.preferred_count + 1 } else { 0 };
        self.under_way_count += 1;
        self.prefetch_under_way_count += usize::from(priority == Priority::Prefetch);
        self.counters.under_way_most = self.counters.under_way_most.max(self.under_way_count as u64);
        Some((operation, priority))
    }

    /// An operation that `begin` gave is over.
    pub fn end(&mut self, priority: Priority) {
        self.under_way_count = self.under_way_count.saturating_sub(1);
        let was_prefetch = usize::from(priority == Priority::Prefetch);
        self.prefetch_under_way_count = self.prefetch_under_way_count.saturating_sub(was_prefetch);
    }

    /// Operations that wait and may begin, as far as the prefetches' part goes.
    #[must_use]
    pub fn ready_count(&self) -> usize {
        self.demand.len() + self.prefetch_room()
    }

    /// Operations at once.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Counts.
    #[must_use]
    pub fn counters(&self) -> Counters {
        Counters { under_way: self.under_way_count as u64, ..self.counters }
    }

    /// Prefetches that may begin now, as far as their part goes.
    fn prefetch_room(&self) -> usize {
        let part = self.limit.div_ceil(OPERATIONS_PER_PREFETCH);
        part.saturating_sub(self.prefetch_under_way_count).min(self.prefetch.len())
    }

    fn has_to_wait(&self, priority: Priority) -> bool {
        let free = self.limit.saturating_sub(self.under_way_count);
        match priority {
            Priority::Demand => self.demand.len() > free,
            Priority::Prefetch => {
                self.prefetch.len() > self.prefetch_room() || self.prefetch.len() + self.demand.len() > free
            }
        }
    }

    fn queue(&mut self, priority: Priority) -> &mut BTreeMap<u64, T> {
        match priority {
            Priority::Demand => &mut self.demand,
            Priority::Prefetch => &mut self.prefetch,
        }
    }
}

#[cfg(test)]
mod tests;
