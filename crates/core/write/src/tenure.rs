//! The right to own the tree, and its end.
//!
//! Every node of the council (`council`) grants the owner a tenure of `TENURE`, repeatedly. The owner changes nothing and lands nothing
//! unless a majority has granted it a tenure that has not ended. When the owner has been silent for so long, the tree's second home bids
//! for the next epoch. A node votes for it once the tenure that it granted last is over. So there is never more than one owner, and an
//! owner sees by its own clock when its tenure has ended. Half of the council is a majority if it has the council's first node: a job of
//! two nodes goes on without the second.
//!
//! A second home that has fallen behind must not own the tree. The owner says in each renewal whether it waits for its second home.
//! It goes on without it only when a majority knows (`Tenure::may_go_on_alone`), and no node votes for it then.
//!
//! The caller passes the time, which must advance while the machine sleeps.

use std::time::Duration;

use forebay_types::{Map, NodeRank, Time};
use forebay_wire::write_message::{Bid, Owns, Renewal, Verdict};

use crate::timing::{TENURE, TENURE_HELD};

/// Whether those of the council for which `is_in` holds are a majority.
#[must_use]
pub fn is_majority(council: &[NodeRank], mut is_in: impl FnMut(NodeRank) -> bool) -> bool {
    let count = council.iter().filter(|member| is_in(**member)).count();
    match (count * 2).cmp(&council.len()) {
        std::cmp::Ordering::Greater => true,
        std::cmp::Ordering::Equal => council.first().is_some_and(|first| is_in(*first)),
        std::cmp::Ordering::Less => false,
    }
}

/// A node's grants and votes.
#[derive(Debug)]
pub struct Member {
    owns: Owns,
    /// No vote before. A daemon does not know what those before it have granted.
    bound_until: Time,
    /// The owner's last renewal.
    heard: Option<Renewal>,
}

impl Member {
    /// Of a daemon that begins `now`, on a node that knows this owner.
    #[must_use]
    pub fn new(now: Time, owns: Owns) -> Self {
        Self { owns, bound_until: now.after(TENURE), heard: None }
    }

    /// The owner that it knows of.
    #[must_use]
    pub fn owns(&self) -> Owns {
        self.owns
    }

    /// The owner asks for a tenure.
    ///
    /// # Errors
    /// A newer owner.
    pub fn renew(&mut self, now: Time, renewal: Renewal) -> Result<(), Owns> {
        if renewal.owns < self.owns {
            return Err(self.owns);
        }
        let is_late =
            |heard: Renewal| (heard.owns, heard.line, heard.number) > (renewal.owns, renewal.line, renewal.number);
        if !self.heard.is_some_and(is_late) {
            self.owns = renewal.owns;
            self.bound_until = now.after(TENURE);
            self.heard = Some(renewal);
        }
        Ok(())
    }

    /// Votes on a bid for the tree. A vote that is no trial must be written down before it is given.
    pub fn vote(&mut self, now: Time, bid: Bid) -> Verdict {
        if bid.owns == self.owns {
            // It has been voted for.
            return Verdict::Granted;
        }
        if bid.owns.epoch <= self.owns.epoch {
            return Verdict::Newer(self.owns);
        }
        if now < self.bound_until {
            return Verdict::TooEarly;
        }
        if !self.heard.is_some_and(|heard| heard.line == bid.line && heard.is_followed) {
            return Verdict::Behind;
        }
        if !bid.is_trial {
            self.owns = bid.owns;
        }
        Verdict::Granted
    }
}

/// The owner's right to change the tree.
#[derive(Debug)]
pub struct Tenure {
    council: Vec<NodeRank>,
    granted: Map<NodeRank, Grant>,
    /// The newer owner of the tree.
    newer: Option<Owns>,
}

#[derive(Clone, Copy, Debug)]
struct Grant {
    until: Time,
    /// Whether the member thinks that the second home is waited for.
    is_followed: bool,
}

impl Tenure {
    /// One that nobody has granted yet.
    #[must_use]
    pub fn new(council: Vec<NodeRank>) -> Self {
        Self { council, granted: Map::default(), newer: None }
    }

    /// A member is about to be asked. It may hear that without the owner hearing its answer.
    pub fn asks(&mut self, member: NodeRank, is_followed: bool) {
        if let Some(grant) = self.granted.get_mut(&member) {
            grant.is_followed |= is_followed;
        }
    }

    /// A member has granted what it was asked for at `asked`.
    pub fn granted(&mut self, member: NodeRank, asked: Time, is_followed: bool) {
        let until =
            self.granted.get(&member).map_or(Time::default(), |grant| grant.until).max(asked.after(TENURE_HELD));
        self.granted.insert(member, Grant { until, is_followed });
    }

    /// A member knows a newer owner. From now on this one is none.
    pub fn refused(&mut self, newer: Owns) {
        self.newer = self.newer.max(Some(newer));
    }

    /// The newer owner that it was refused for.
    #[must_use]
    pub fn newer(&self) -> Option<Owns> {
        self.newer
    }

    /// Whether the tree may be changed.
    #[must_use]
    pub fn is_held(&self, now: Time) -> bool {
        self.newer.is_none()
            && is_majority(&self.council, |member| self.granted.get(&member).is_some_and(|grant| grant.until > now))
    }

    /// How long the tree may still be changed, if no member grants another tenure.
    #[must_use]
    pub fn left(&self, now: Time) -> Duration {
        let left = |grant: &Grant| grant.until.since(now);
        let is_long = |least: Duration| {
            is_majority(&self.council, |member| self.granted.get(&member).is_some_and(|grant| left(grant) >= least))
        };
        let lengths = self.granted.values().map(left).filter(|length| self.newer.is_none() && is_long(*length));
        lengths.max().unwrap_or_default()
    }

    /// Whether a majority knows that the second home is not waited for.
    #[must_use]
    pub fn may_go_on_alone(&self, now: Time) -> bool {
        let knows = |member| self.granted.get(&member).is_some_and(|grant| grant.until > now && !grant.is_followed);
        self.newer.is_none() && is_majority(&self.council, knows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Owns = Owns { epoch: 0, node: NodeRank(0) };
    const SECOND: Owns = Owns { epoch: 1, node: NodeRank(1) };

    /// In tenths of a tenure.
    fn at(tenths: u64) -> Time {
        Time(tenths * TENURE.as_nanos() as u64 / 10)
    }

    fn renewal(owns: Owns) -> Renewal {
        Renewal { owns, line: 7, number: 0, is_followed: true }
    }

    fn bid(line: u64, is_trial: bool) -> Bid {
        Bid { owns: SECOND, line, is_trial }
    }

    #[test]
    fn half_of_the_council_decides_with_its_first_node() {
        let council = [3, 1, 2, 0].map(NodeRank);
        let decides = |of: &[u32]| is_majority(&council, |member| of.contains(&member.0));
        assert!(decides(&[3, 0]) && decides(&[0, 1, 2]));
        assert!(!decides(&[0, 1]) && !decides(&[3]));
        assert!(is_majority(&[NodeRank(0)], |_| true) && !is_majority(&[], |_| true));
    }

    #[test]
    fn nobody_votes_while_the_owner_may_believe_in_its_tenure() {
        let (mut member, mut tenure) = (Member::new(at(0), FIRST), Tenure::new(vec![NodeRank(0)]));
        assert_eq!(member.renew(at(5), renewal(FIRST)), Ok(()));
        tenure.granted(NodeRank(0), at(5), true);
        for tenth in 0..30 {
            let is_free = member.vote(at(tenth), bid(7, true)) == Verdict::Granted;
            assert!(!(is_free && tenure.is_held(at(tenth))), "after {tenth} tenths of a tenure");
            assert_eq!(is_free, tenth >= 15);
        }
        assert_eq!(member.vote(at(15), bid(8, false)), Verdict::Behind, "of another line");
        assert_eq!(member.vote(at(15), bid(7, false)), Verdict::Granted);
        assert_eq!(member.vote(at(15), bid(7, false)), Verdict::Granted, "asked again");
        assert_eq!(member.renew(at(16), renewal(FIRST)), Err(SECOND));
        assert_eq!(member.renew(at(16), renewal(SECOND)), Ok(()));
        assert_eq!(member.vote(at(90), Bid { owns: FIRST, line: 7, is_trial: false }), Verdict::Newer(SECOND));
    }

    #[test]
    fn a_daemon_does_not_vote_before_what_those_before_it_granted_is_over() {
        let mut member = Member::new(at(100), FIRST);
        assert_eq!(member.vote(at(109), bid(7, false)), Verdict::TooEarly);
        assert_eq!(member.vote(at(110), bid(7, false)), Verdict::Behind, "it does not know who is behind");
    }

    #[test]
    fn nobody_votes_for_a_second_home_that_is_not_waited_for() {
        let mut member = Member::new(at(0), FIRST);
        let mut tenure = Tenure::new([0, 1, 2].map(NodeRank).to_vec());
        tenure.granted(NodeRank(0), at(0), false);
        tenure.granted(NodeRank(1), at(0), true);
        assert!(tenure.is_held(at(1)) && !tenure.may_go_on_alone(at(1)), "one of three knows");
        assert_eq!(member.renew(at(0), Renewal { is_followed: false, ..renewal(FIRST) }), Ok(()));
        tenure.granted(NodeRank(2), at(0), false);
        assert!(tenure.may_go_on_alone(at(8)) && !tenure.may_go_on_alone(at(9)));
        tenure.asks(NodeRank(2), true);
        assert!(!tenure.may_go_on_alone(at(8)), "it may have heard that the second home is waited for again");
        // One that was on its way for long.
        let told = |number, is_followed| Renewal { number, is_followed, ..renewal(FIRST) };
        assert_eq!((member.renew(at(1), told(2, false)), member.renew(at(2), told(1, true))), (Ok(()), Ok(())));
        assert_eq!(member.vote(at(60), bid(7, false)), Verdict::Behind);
    }

    #[test]
    fn an_owner_that_hears_of_a_newer_one_stops() {
        let mut tenure = Tenure::new(vec![NodeRank(0)]);
        tenure.granted(NodeRank(0), at(0), false);
        assert!(tenure.is_held(at(8)) && !tenure.is_held(at(9)));
        tenure.refused(SECOND);
        tenure.granted(NodeRank(0), at(10), false);
        assert!(!tenure.is_held(at(11)) && !tenure.may_go_on_alone(at(11)));
        assert_eq!(tenure.newer(), Some(SECOND));
    }

    /// An answer to the owner's kernel holds no longer than the tenure.
    #[test]
    fn a_tenure_lasts_as_long_as_a_majority_has_granted_it() {
        let mut tenure = Tenure::new([0, 1, 2].map(NodeRank).to_vec());
        assert_eq!(tenure.left(at(0)), Duration::ZERO);
        for (member, asked) in [(0, 8), (1, 4), (2, 0)] {
            tenure.granted(NodeRank(member), at(asked), true);
        }
        assert_eq!(tenure.left(at(5)), TENURE * 8 / 10, "the second of three");
        assert!(tenure.is_held(at(12)) && !tenure.is_held(at(13)));
        assert_eq!(tenure.left(at(13)), Duration::ZERO);
        tenure.refused(SECOND);
        assert_eq!(tenure.left(at(5)), Duration::ZERO);
    }
}
