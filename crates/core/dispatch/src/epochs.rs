//! Epochs: a source that has met a refresh refuses who has not.

use std::hash::Hash;

use forebay_types::{Epoch, Time};

use crate::dispatch::Dispatch;
use crate::ids::{AttemptId, RequestId, Waiter};
use crate::routing::Routing;

impl<K: Clone + Eq + Hash, M: Clone, W: Waiter, R: Routing<K>> Dispatch<K, M, W, R> {
    /// The source refuses an attempt, because it has come to `epoch` and this node has not. The caller makes up for it
    /// (`set_epoch`), then lets the request go on. `None` if the attempt had come as far: then the refusal makes no sense.
    pub fn fenced(&mut self, now: Time, id: AttemptId, epoch: Epoch) -> Option<RequestId> {
        if self.attempts.get(&id)?.epoch >= epoch {
            self.spoilt(now, id);
            return None;
        }
        let attempt = self.end_attempt(id)?;
        self.heard(now, attempt.source);
        Some(attempt.request)
    }

    /// Requests carry this epoch from now on.
    pub fn set_epoch(&mut self, epoch: Epoch) {
        self.epoch = epoch;
    }

    /// Asks a request that nobody is being asked for.
    pub fn go_on(&mut self, now: Time, id: RequestId) {
        self.route(now, id);
    }
}
