//! What a node believes of the others: who is there, who is to be bypassed, and when to ask again.
//!
//! Only who could not be reached is remembered, so the table is as long as the line of one node at most. A node that
//! comes back is used again at once; if it is lost again soon, it is left alone for longer each time, so that one that
//! comes and goes does not hold up those who would ask it.

use std::time::Duration;

use forebay_types::{Map, NodeRank, Time, limits};

/// The nodes that could not be reached.
#[derive(Clone, Default, Debug)]
pub struct Suspects {
    suspicions: Map<NodeRank, Suspicion>,
}

#[derive(Clone, Copy, Debug)]
struct Suspicion {
    holds: bool,
    back_off: Duration,
    /// When to ask whether it is there; or, once it is back, when its absence is forgotten.
    next: Time,
}

impl Suspects {
    /// A node could not be reached. Whether this is news.
    pub fn on_lost(&mut self, rank: NodeRank, now: Time) -> bool {
        let back_off = match self.suspicions.get(&rank) {
            Some(earlier) if earlier.holds || now < earlier.next => {
                (earlier.back_off * 2).min(limits::SUSPICION_LONGEST)
            }
            _ => limits::SUSPICION_FIRST,
        };
        let suspicion = Suspicion { holds: true, back_off, next: now.after(back_off) };
        self.suspicions.insert(rank, suspicion).is_none_or(|earlier| !earlier.holds)
    }

    /// A node was heard of. Whether this is news.
    pub fn on_alive(&mut self, rank: NodeRank, now: Time) -> bool {
        let Some(suspicion) = self.suspicions.get_mut(&rank).filter(|suspicion| suspicion.holds) else {
            return false;
        };
        suspicion.holds = false;
        suspicion.next = now.after(limits::SUSPICION_LONGEST);
        true
    }

    /// Whether a node is to be bypassed.
    #[must_use]
    pub fn contains(&self, rank: NodeRank) -> bool {
        self.suspicions.get(&rank).is_some_and(|suspicion| suspicion.holds)
    }

    /// The bypassed nodes that are due to be asked whether they are there, in order of rank.
    #[must_use]
    pub fn due(&self, now: Time) -> Vec<NodeRank> {
        let is_due = |suspicion: &Suspicion| suspicion.holds && suspicion.next <= now;
        let mut due: Vec<NodeRank> =
            self.suspicions.iter().filter(|(_, suspicion)| is_due(suspicion)).map(|(rank, _)| *rank).collect();
        due.sort_unstable();
        due
    }

    /// The bypassed nodes, in order of rank.
    #[must_use]
    pub fn ranks(&self) -> Vec<NodeRank> {
        let mut ranks: Vec<NodeRank> =
            self.suspicions.iter().filter(|(_, suspicion)| suspicion.holds).map(|(rank, _)| *rank).collect();
        ranks.sort_unstable();
        ranks
    }

    /// Whether no node is bypassed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.suspicions.values().any(|suspicion| suspicion.holds)
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
        let mut suspects = Suspects::default();
        assert!(suspects.on_lost(NODE, at(0)));
        assert!(!suspects.on_lost(NODE, at(1)), "no news");
        assert!(suspects.contains(NODE));
        assert!(suspects.on_alive(NODE, at(2)));
        assert!(!suspects.contains(NODE) && suspects.is_empty());
        assert!(!suspects.on_alive(NODE, at(3)), "no news");
    }

    #[test]
    fn it_is_asked_again_after_a_time_that_doubles_up_to_a_limit() {
        let mut suspects = Suspects::default();
        let mut now = at(0);
        let mut waits = Vec::new();
        for _ in 0..9 {
            suspects.on_lost(NODE, now);
            let begun = now;
            while suspects.due(now).is_empty() {
                now = now.after(Duration::from_millis(10));
            }
            waits.push(now.since(begun).as_millis());
        }
        assert_eq!(waits, [250, 500, 1000, 2000, 4000, 8000, 15000, 15000, 15000]);
    }

    #[test]
    fn one_that_comes_and_goes_is_left_alone_for_longer_each_time() {
        let mut suspects = Suspects::default();
        suspects.on_lost(NODE, at(0));
        suspects.on_alive(NODE, at(300));
        suspects.on_lost(NODE, at(400));
        assert!(suspects.due(at(700)).is_empty());
        assert_eq!(suspects.due(at(900)), [NODE]);
        suspects.on_alive(NODE, at(900));
        suspects.on_lost(NODE, at(60_000));
        assert_eq!(suspects.due(at(60_250)), [NODE], "an absence long ago is forgotten");
    }
}
