//! Bodies of answers on their way: a request ends with the first, its attempt with the last byte.

use std::hash::Hash;

use forebay_types::Time;

use crate::dispatch::{Attempt, Dispatch};
use crate::event::Finished;
use crate::ids::{AttemptId, RequestId, Waiter};
use crate::routing::{Routing, Source};

impl<K: Clone + Eq + Hash, M: Clone, W: Waiter, R: Routing<K>> Dispatch<K, M, W, R> {
    /// The body of an attempt's answer begins to arrive: the request is over, and the attempt goes on until `end_filling`.
    pub fn begin_filling(&mut self, now: Time, id: AttemptId) -> Option<Finished<K, W>> {
        let attempt = self.attempts.get_mut(&id)?;
        attempt.is_filling = true;
        let Attempt { request, source, .. } = *attempt;
        self.heard(now, source);
        self.finish(request, Some(id))
    }

    /// The first bytes of an attempt's body have come, and others are to come.
    pub fn note_bytes(&mut self, now: Time, id: AttemptId) {
        if let Some(attempt) = self.attempts.get_mut(&id) {
            attempt.bytes_since.get_or_insert(now);
        }
    }

    /// A body is spoilt: its sender is not asked for `key` again soon. Report it before `end_filling`.
    pub fn pass_over(&mut self, now: Time, id: AttemptId, key: K) {
        if let Some(Source::Peer(peer)) = self.attempts.get(&id).map(|attempt| attempt.source) {
            self.passed_over.add(now, key, peer);
        }
    }

    /// A body has ended, whole or not. The request that it answered, unless its sender was lost before.
    pub fn end_filling(&mut self, now: Time, id: AttemptId, is_whole: bool) -> Option<RequestId> {
        let attempt = self.attempts.get(&id).filter(|attempt| attempt.is_filling)?;
        if let (true, true, Source::Peer(peer), Some(since)) =
            (is_whole, attempt.is_timed, attempt.source, attempt.bytes_since)
        {
            self.stragglers.on_ended(now, peer, now.since(since));
        }
        self.end_attempt(id).map(|attempt| attempt.request)
    }
}
