//! The failure detector: which nodes are silent, which are bypassed, and when to ask again.
//!
//! A node is silent if it was asked something and has said nothing for a while. It is then asked whether it is there, and
//! suspected only if it does not answer. So a hanging backing file system brings no suspicion on the nodes that wait for
//! it. A suspect that comes back is used again immediately. If it is lost again soon, it is left alone for longer each
//! time. So a node that comes and goes does not hold up those who would ask it.
//!
//! Only nodes that were asked something are remembered, so the tables are as long as the failover orders of one node.

use std::collections::BTreeSet;
use std::time::Duration;

use forebay_types::{Map, NodeRank, Time};

use crate::limits;

/// A node's beliefs about the others.
#[derive(Clone, Default, Debug)]
pub struct FailureDetector {
    suspicions: Map<NodeRank, Suspicion>,
    /// When each node was last heard of.
    heard: Map<NodeRank, Time>,
    asked: Map<NodeRank, Asked>,
    /// Nodes that are being asked whether they are there.
    pinged: BTreeSet<NodeRank>,
}

#[derive(Clone, Copy, Debug)]
struct Suspicion {
    holds: bool,
    back_off: Duration,
    /// When to ask whether it is there; or, once it is back, when its absence is forgotten.
    next: Time,
}

/// A node of which something is expected. It stays expected when the request is answered by another: or a silent node
/// would never be noticed while others answer in its place.
#[derive(Clone, Copy, Debug)]
struct Asked {
    /// Since when, after it was last heard of.
    since: Time,
    /// Attempts that it has not ended.
    outstanding_count: u32,
}

impl FailureDetector {
    /// An attempt begins at a node.
    pub(crate) fn on_asked(&mut self, rank: NodeRank, now: Time) {
        self.asked.entry(rank).or_insert(Asked { since: now, outstanding_count: 0 }).outstanding_count += 1;
    }

    /// An attempt at a node has ended, by whatever.
    pub(crate) fn on_attempt_ended(&mut self, rank: NodeRank) {
        let Some(asked) = self.asked.get_mut(&rank) else { return };
        asked.outstanding_count = asked.outstanding_count.saturating_sub(1);
        // No answer is due from a node that was heard of after all that it was asked.
        if asked.outstanding_count == 0 && self.heard.get(&rank).is_some_and(|heard| *heard >= asked.since) {
            self.asked.remove(&rank);
        }
    }

    /// A node was heard of.
    pub(crate) fn on_heard(&mut self, rank: NodeRank, now: Time) {
        self.heard.insert(rank, now);
        match self.asked.get_mut(&rank) {
            Some(asked) if asked.outstanding_count > 0 => asked.since = now,
            _ => drop(self.asked.remove(&rank)),
        }
    }

    /// A node is to be asked whether it is there; `false` if that is under way.
    pub(crate) fn begin_ping(&mut self, rank: NodeRank) -> bool {
        self.pinged.insert(rank)
    }

    /// A node has said that it is there, or its time to say so is over.
    pub(crate) fn end_ping(&mut self, rank: NodeRank) {
        self.pinged.remove(&rank);
    }

    /// A node says that it is there. Whether this is news.
    pub(crate) fn on_alive(&mut self, rank: NodeRank, now: Time) -> bool {
        self.on_heard(rank, now);
        let Some(suspicion) = self.suspicions.get_mut(&rank).filter(|suspicion| suspicion.holds) else {
            return false;
        };
        suspicion.holds = false;
        suspicion.next = now.after(limits::SUSPICION_LONGEST);
        true
    }

    /// A node could not be reached, or did not say that it is there: its attempts have ended. Whether this is news.
    pub(crate) fn on_lost(&mut self, rank: NodeRank, now: Time) -> bool {
        self.asked.remove(&rank);
        self.suspect(rank, now)
    }

    /// A node is to be bypassed until it says that it is there. Whether this is news.
    pub(crate) fn suspect(&mut self, rank: NodeRank, now: Time) -> bool {
        let back_off = match self.suspicions.get(&rank) {
            Some(earlier) if earlier.holds || now < earlier.next => {
                (earlier.back_off * 2).min(limits::SUSPICION_LONGEST)
            }
            _ => limits::SUSPICION_FIRST,
        };
        let suspicion = Suspicion { holds: true, back_off, next: now.after(back_off) };
        self.suspicions.insert(rank, suspicion).is_none_or(|earlier| !earlier.holds)
    }

    /// Whether a node is to be bypassed.
    #[must_use]
    pub fn is_suspect(&self, rank: NodeRank) -> bool {
        self.suspicions.get(&rank).is_some_and(|suspicion| suspicion.holds)
    }

    /// When a node was last heard of; one never heard of counts as heard of at the start.
    pub(crate) fn heard_at(&self, rank: NodeRank) -> Time {
        self.heard.get(&rank).copied().unwrap_or_default()
    }

    /// Whether a node was heard of within this time.
    pub(crate) fn was_heard_within(&self, rank: NodeRank, time: Duration, now: Time) -> bool {
        now.since(self.heard_at(rank)) < time
    }

    /// Whether a node was ever heard of, and within this time.
    pub(crate) fn is_known_alive(&self, rank: NodeRank, now: Time) -> bool {
        self.heard.contains_key(&rank) && self.was_heard_within(rank, limits::PATIENCE, now)
    }

    /// The nodes of which nothing was heard for too long since they were asked something.
    pub(crate) fn silent(&self, now: Time) -> BTreeSet<NodeRank> {
        let is_silent = |asked: &Asked| now.since(asked.since) >= limits::PATIENCE;
        self.asked.iter().filter(|(_, asked)| is_silent(asked)).map(|(rank, _)| *rank).collect()
    }

    /// Whether something is expected of a node, be it only a sign of life.
    pub(crate) fn expects_word(&self) -> bool {
        !self.asked.is_empty()
    }

    /// Whether some node is being asked whether it is there that was not suspected before.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.pinged.iter().any(|rank| !self.is_suspect(*rank))
    }

    /// Whether a node is being asked whether it is there.
    pub(crate) fn is_pinged(&self, rank: NodeRank) -> bool {
        self.pinged.contains(&rank)
    }

    /// The suspects that are due to be asked whether they are there, in order of rank.
    pub(crate) fn due(&self, now: Time) -> Vec<NodeRank> {
        self.ranks_where(|suspicion| suspicion.holds && suspicion.next <= now)
    }

    /// The suspects, in order of rank.
    #[must_use]
    pub fn suspects(&self) -> Vec<NodeRank> {
        self.ranks_where(|suspicion| suspicion.holds)
    }

    /// Whether no node is bypassed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.suspicions.values().any(|suspicion| suspicion.holds)
    }

    fn ranks_where(&self, is_one: impl Fn(&Suspicion) -> bool) -> Vec<NodeRank> {
        let mut ranks: Vec<NodeRank> =
            self.suspicions.iter().filter(|(_, suspicion)| is_one(suspicion)).map(|(rank, _)| *rank).collect();
        ranks.sort_unstable();
        ranks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: NodeRank = NodeRank(3);

    fn at(ms: u64) -> Time {
        Time(0).after(Duration::from_millis(ms))
    }

    #[test]
    fn a_lost_node_is_bypassed_until_it_is_heard_of() {
        let mut detector = FailureDetector::default();
        assert!(detector.on_lost(NODE, at(0)));
        assert!(!detector.on_lost(NODE, at(1)), "no news");
        assert!(detector.is_suspect(NODE));
        assert!(detector.on_alive(NODE, at(2)));
        assert!(!detector.is_suspect(NODE) && detector.is_empty());
        assert!(!detector.on_alive(NODE, at(3)), "no news");
    }

    #[test]
    fn it_is_asked_again_after_a_time_that_doubles_up_to_a_limit() {
        let mut detector = FailureDetector::default();
        let mut now = at(0);
        let mut waits = Vec::new();
        for _ in 0..9 {
            detector.on_lost(NODE, now);
            let begun = now;
            while detector.due(now).is_empty() {
                now = now.after(Duration::from_millis(10));
            }
            waits.push(now.since(begun).as_millis());
        }
        assert_eq!(waits, [250, 500, 1000, 2000, 4000, 8000, 15000, 15000, 15000]);
    }

    #[test]
    fn one_that_comes_and_goes_is_left_alone_for_longer_each_time() {
        let mut detector = FailureDetector::default();
        detector.on_lost(NODE, at(0));
        detector.on_alive(NODE, at(300));
        detector.on_lost(NODE, at(400));
        assert!(detector.due(at(700)).is_empty());
        assert_eq!(detector.due(at(900)), [NODE]);
        detector.on_alive(NODE, at(900));
        detector.on_lost(NODE, at(60_000));
        assert_eq!(detector.due(at(60_250)), [NODE], "an absence long ago is forgotten");
    }

    /// Another answers in its place: the silence counts all the same. An attempt under way counts from the last sign of
    /// life on.
    #[test]
    fn silence_counts_from_the_last_sign_of_life() {
        let mut detector = FailureDetector::default();
        detector.on_asked(NODE, at(0));
        detector.on_attempt_ended(NODE);
        assert!(detector.silent(at(499)).is_empty());
        assert_eq!(detector.silent(at(500)), BTreeSet::from([NODE]));
        detector.on_asked(NODE, at(600));
        detector.on_heard(NODE, at(700));
        assert!(detector.silent(at(1199)).is_empty());
        assert_eq!(detector.silent(at(1200)), BTreeSet::from([NODE]), "its attempt is under way");
        detector.on_attempt_ended(NODE);
        detector.on_heard(NODE, at(1300));
        assert!(detector.silent(at(9000)).is_empty(), "nothing is expected of it");
    }
}
