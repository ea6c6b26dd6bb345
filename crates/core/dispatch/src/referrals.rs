//! Referrals: a node names another one instead of answering.

use std::hash::Hash;

use forebay_types::{NodeRank, Referral, Time};

use crate::dispatch::Dispatch;
use crate::ids::{AttemptId, RequestId, Waiter};
use crate::limits;
use crate::routing::{Routing, Source};

impl<K: Clone + Eq + Hash, M: Clone, W: Waiter, R: Routing<K>> Dispatch<K, M, W, R> {
    /// The source of an attempt names another node, or, having been named itself, has nothing of what is asked for. A node that cannot be
    /// followed makes the request insist on an answer of the next source, so it comes to an end. Nodes are asked along no order
    /// here. That leads to no circle: a node is named when it is being sent what is asked for, and if that gets lost it insists.
    pub fn referred(&mut self, now: Time, attempt: AttemptId, to: Option<NodeRank>) {
        let Some(attempt) = self.end_attempt(attempt) else { return };
        self.heard(now, attempt.source);
        let Some(entry) = self.table.get_mut(attempt.request) else { return };
        entry.referrals += 1;
        let may_follow =
            matches!(attempt.referral, Referral::Open | Referral::Followed) && entry.referrals <= limits::REFERRALS_MAX;
        let is_open = |peer: &NodeRank| {
            let is_bypassed = self.detector.is_suspect(*peer) || self.stragglers.is_left_alone(*peer, now);
            !is_bypassed && !entry.tried.contains(peer)
        };
        let to = to.filter(is_open).filter(|_| may_follow);
        entry.insists |= to.is_none();
        if !entry.attempts.is_empty() {
            return;
        }
        match to {
            Some(peer) => {
                self.counters.referred += 1;
                self.start_attempt_by(now, attempt.request, Source::Peer(peer), Referral::Followed);
            }
            None => self.route(now, attempt.request),
        }
    }

    /// A node that asks for the same found those slow that this one waits for: it reads itself, unless the bytes come already.
    pub fn ask_alone(&mut self, now: Time, id: RequestId) {
        let Some(entry) = self.table.get_mut(id) else { return };
        for peer in self.routing.failover_order(&entry.key) {
            if !entry.tried.contains(&peer) {
                entry.tried.push(peer);
            }
        }
        entry.insists = true;
        self.cancel_attempts(id, |attempt| attempt.source != Source::Backing && !attempt.is_filling);
        self.route(now, id);
    }

    /// A node that asks for the same insists: this one insists, too, or each might wait for the other.
    pub fn insist(&mut self, now: Time, id: RequestId) {
        if let Some(entry) = self.table.get_mut(id) {
            entry.insists = true;
        }
        self.cancel_attempts(id, |attempt| attempt.referral == Referral::Followed && !attempt.is_filling);
        self.route(now, id);
    }
}
