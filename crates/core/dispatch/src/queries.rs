//! Queries about the requests under way. They decide nothing.

use std::hash::Hash;

use forebay_types::{NodeRank, Priority, Time};

use crate::dispatch::Dispatch;
use crate::event::Counters;
use crate::failure_detector::FailureDetector;
use crate::ids::{AttemptId, RequestId, Waiter};
use crate::routing::{Routing, Source};

impl<K: Clone + Eq + Hash, M: Clone, W: Waiter, R: Routing<K>> Dispatch<K, M, W, R> {
    /// Whom a new request for `key` would go to.
    #[must_use]
    pub fn source_of(&self, now: Time, key: &K) -> Source {
        self.next_source(now, key, &[])
    }

    /// The nodes that take far longer than others, and are asked nothing that others may be asked, in order of rank.
    #[must_use]
    pub fn left_alone(&self, now: Time) -> Vec<NodeRank> {
        self.stragglers.left_alone(now)
    }

    /// The request for `key`, if one is under way.
    #[must_use]
    pub fn find(&self, key: &K) -> Option<RequestId> {
        self.table.by_key(key)
    }

    /// The key of an attempt, if its answer has not begun.
    #[must_use]
    pub fn asked(&self, attempt: AttemptId) -> Option<&K> {
        self.table.get(self.attempts.get(&attempt)?.request).map(|entry| &entry.key)
    }

    /// The source that an attempt asks.
    #[must_use]
    pub fn source_of_attempt(&self, attempt: AttemptId) -> Option<Source> {
        self.attempts.get(&attempt).map(|attempt| attempt.source)
    }

    /// The request that an attempt was made for, while its answer's body arrives.
    #[must_use]
    pub fn filling(&self, attempt: AttemptId) -> Option<RequestId> {
        self.attempts.get(&attempt).filter(|attempt| attempt.is_filling).map(|attempt| attempt.request)
    }

    /// Whether a program waits for what an attempt asks; `None` once its answer has begun.
    #[must_use]
    pub fn priority_of(&self, attempt: AttemptId) -> Option<Priority> {
        self.table.get(self.attempts.get(&attempt)?.request).map(|entry| entry.priority)
    }

    /// The requests under way, in the order they began.
    pub fn requests(&self) -> impl Iterator<Item = (RequestId, &K)> {
        self.table.iter().map(|(id, entry)| (id, &entry.key))
    }

    /// Those who wait for a request.
    pub fn waiters_mut(&mut self, id: RequestId) -> impl Iterator<Item = &mut W> {
        self.table.get_mut(id).into_iter().flat_map(|entry| &mut entry.waiters).map(|waiting| &mut waiting.who)
    }

    /// Whom this node may ask.
    #[must_use]
    pub fn routing(&self) -> &R {
        &self.routing
    }

    /// This node's failure detector.
    #[must_use]
    pub fn detector(&self) -> &FailureDetector {
        &self.detector
    }

    /// Requests, and attempts whose bodies still arrive.
    #[must_use]
    pub fn under_way_count(&self) -> usize {
        self.table.len() + self.attempts.values().filter(|attempt| attempt.is_filling).count()
    }

    /// Requests that have no answer yet.
    #[must_use]
    pub fn request_count(&self) -> usize {
        self.table.len()
    }

    /// Counts since the start.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }
}
