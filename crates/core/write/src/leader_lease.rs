//! The right to lead the tree, and its end.
//!
//! Every voter (`voters`) grants the leader a leader lease of `LEADER_LEASE`, repeatedly. The leader changes nothing and lands nothing
//! unless a majority has granted it a leader lease that has not ended. When the leader has been silent for so long, the standby bids
//! for the next epoch. A node votes for it once the leader lease that it granted last is over. So there is never more than one leader, and an
//! leader sees by its own clock when its leader lease has ended. Half of the voters are a majority if it has the first voter: a job of
//! two nodes goes on without the second.
//!
//! A standby that has fallen behind must not lead the tree. The leader says in each renewal whether it waits for its standby.
//! It goes on without it only when a majority knows (`LeaderLease::may_go_on_alone`), and no node votes for it then.
//!
//! The caller passes the time, which must advance while the machine sleeps.

use std::time::Duration;

use forebay_types::{Map, NodeRank, Time};
use forebay_wire::write_message::{Leadership, Renewal, VoteReply, VoteRequest};

use crate::timing::{LEADER_LEASE, LEADER_LEASE_HELD};

/// Whether those of the voters for which `is_in` holds are a majority.
#[must_use]
pub fn is_majority(voters: &[NodeRank], mut is_in: impl FnMut(NodeRank) -> bool) -> bool {
    let count = voters.iter().filter(|voter| is_in(**voter)).count();
    match (count * 2).cmp(&voters.len()) {
        std::cmp::Ordering::Greater => true,
        std::cmp::Ordering::Equal => voters.first().is_some_and(|first| is_in(*first)),
        std::cmp::Ordering::Less => false,
    }
}

/// A node's grants and votes.
#[derive(Debug)]
pub struct Voter {
    leadership: Leadership,
    /// No vote before. A daemon does not know what those before it have granted.
    bound_until: Time,
    /// The leader's last renewal.
    heard: Option<Renewal>,
}

impl Voter {
    /// Of a daemon that begins `now`, on a node that knows this leader.
    #[must_use]
    pub fn new(now: Time, leadership: Leadership) -> Self {
        Self { leadership, bound_until: now.after(LEADER_LEASE), heard: None }
    }

    /// The leader that it knows of.
    #[must_use]
    pub fn leadership(&self) -> Leadership {
        self.leadership
    }

    /// The leader asks for a leader lease.
    ///
    /// # Errors
    /// A newer leader.
    pub fn renew(&mut self, now: Time, renewal: Renewal) -> Result<(), Leadership> {
        if renewal.leadership < self.leadership {
            return Err(self.leadership);
        }
        let is_late = |heard: Renewal| {
            (heard.leadership, heard.incarnation, heard.number)
                > (renewal.leadership, renewal.incarnation, renewal.number)
        };
        if !self.heard.is_some_and(is_late) {
            self.leadership = renewal.leadership;
            self.bound_until = now.after(LEADER_LEASE);
            self.heard = Some(renewal);
        }
        Ok(())
    }

    /// Votes on a vote request for the tree. A vote that is no trial must be written down before it is given.
    pub fn vote(&mut self, now: Time, vote_request: VoteRequest) -> VoteReply {
        if vote_request.leadership == self.leadership {
            // It has been voted for.
            return VoteReply::Granted;
        }
        if vote_request.leadership.term <= self.leadership.term {
            return VoteReply::Newer(self.leadership);
        }
        if now < self.bound_until {
            return VoteReply::TooEarly;
        }
        if !self.heard.is_some_and(|heard| heard.incarnation == vote_request.incarnation && heard.is_followed) {
            return VoteReply::Behind;
        }
        if !vote_request.is_trial {
            self.leadership = vote_request.leadership;
        }
        VoteReply::Granted
    }
}

/// The leader's right to change the tree.
#[derive(Debug)]
pub struct LeaderLease {
    voters: Vec<NodeRank>,
    granted: Map<NodeRank, Grant>,
    /// The newer leader of the tree.
    newer: Option<Leadership>,
}

#[derive(Clone, Copy, Debug)]
struct Grant {
    until: Time,
    /// Whether the member thinks that the standby is waited for.
    is_followed: bool,
}

impl LeaderLease {
    /// One that nobody has granted yet.
    #[must_use]
    pub fn new(voters: Vec<NodeRank>) -> Self {
        Self { voters, granted: Map::default(), newer: None }
    }

    /// A member is about to be asked. It may hear that without the leader hearing its answer.
    pub fn asks(&mut self, voter: NodeRank, is_followed: bool) {
        if let Some(grant) = self.granted.get_mut(&voter) {
            grant.is_followed |= is_followed;
        }
    }

    /// A member has granted what it was asked for at `asked`.
    pub fn granted(&mut self, voter: NodeRank, asked: Time, is_followed: bool) {
        let until =
            self.granted.get(&voter).map_or(Time::default(), |grant| grant.until).max(asked.after(LEADER_LEASE_HELD));
        self.granted.insert(voter, Grant { until, is_followed });
    }

    /// A member knows a newer leader. From now on this one is none.
    pub fn refused(&mut self, newer: Leadership) {
        self.newer = self.newer.max(Some(newer));
    }

    /// The newer leader that it was refused for.
    #[must_use]
    pub fn newer(&self) -> Option<Leadership> {
        self.newer
    }

    /// Whether the tree may be changed.
    #[must_use]
    pub fn is_held(&self, now: Time) -> bool {
        self.newer.is_none()
            && is_majority(&self.voters, |voter| self.granted.get(&voter).is_some_and(|grant| grant.until > now))
    }

    /// How long the tree may still be changed, if no member grants another leader lease.
    #[must_use]
    pub fn left(&self, now: Time) -> Duration {
        let left = |grant: &Grant| grant.until.since(now);
        let is_long = |least: Duration| {
            is_majority(&self.voters, |voter| self.granted.get(&voter).is_some_and(|grant| left(grant) >= least))
        };
        let lengths = self.granted.values().map(left).filter(|length| self.newer.is_none() && is_long(*length));
        lengths.max().unwrap_or_default()
    }

    /// Whether a majority knows that the standby is not waited for.
    #[must_use]
    pub fn may_go_on_alone(&self, now: Time) -> bool {
        let knows = |voter| self.granted.get(&voter).is_some_and(|grant| grant.until > now && !grant.is_followed);
        self.newer.is_none() && is_majority(&self.voters, knows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Leadership = Leadership { term: 0, leader: NodeRank(0) };
    const SECOND: Leadership = Leadership { term: 1, leader: NodeRank(1) };

    /// In tenths of a leader lease.
    fn at(tenths: u64) -> Time {
        Time(tenths * LEADER_LEASE.as_nanos() as u64 / 10)
    }

    fn renewal(leadership: Leadership) -> Renewal {
        Renewal { leadership, incarnation: 7, number: 0, is_followed: true }
    }

    fn vote_request(incarnation: u64, is_trial: bool) -> VoteRequest {
        VoteRequest { leadership: SECOND, incarnation, is_trial }
    }

    #[test]
    fn half_of_the_council_decides_with_its_first_node() {
        let voters = [3, 1, 2, 0].map(NodeRank);
        let decides = |of: &[u32]| is_majority(&voters, |voter| of.contains(&voter.0));
        assert!(decides(&[3, 0]) && decides(&[0, 1, 2]));
        assert!(!decides(&[0, 1]) && !decides(&[3]));
        assert!(is_majority(&[NodeRank(0)], |_| true) && !is_majority(&[], |_| true));
    }

    #[test]
    fn no_voter_votes_while_the_leader_may_believe_in_its_leader_lease() {
        let (mut voter, mut leader_lease) = (Voter::new(at(0), FIRST), LeaderLease::new(vec![NodeRank(0)]));
        assert_eq!(voter.renew(at(5), renewal(FIRST)), Ok(()));
        leader_lease.granted(NodeRank(0), at(5), true);
        for tenth in 0..30 {
            let is_free = voter.vote(at(tenth), vote_request(7, true)) == VoteReply::Granted;
            assert!(!(is_free && leader_lease.is_held(at(tenth))), "after {tenth} tenths of a leader lease");
            assert_eq!(is_free, tenth >= 15);
        }
        assert_eq!(voter.vote(at(15), vote_request(8, false)), VoteReply::Behind, "of another line");
        assert_eq!(voter.vote(at(15), vote_request(7, false)), VoteReply::Granted);
        assert_eq!(voter.vote(at(15), vote_request(7, false)), VoteReply::Granted, "asked again");
        assert_eq!(voter.renew(at(16), renewal(FIRST)), Err(SECOND));
        assert_eq!(voter.renew(at(16), renewal(SECOND)), Ok(()));
        assert_eq!(
            voter.vote(at(90), VoteRequest { leadership: FIRST, incarnation: 7, is_trial: false }),
            VoteReply::Newer(SECOND)
        );
    }

    #[test]
    fn a_daemon_does_not_vote_before_what_those_before_it_granted_is_over() {
        let mut voter = Voter::new(at(100), FIRST);
        assert_eq!(voter.vote(at(109), vote_request(7, false)), VoteReply::TooEarly);
        assert_eq!(voter.vote(at(110), vote_request(7, false)), VoteReply::Behind, "it does not know who is behind");
    }

    #[test]
    fn no_voter_votes_for_a_standby_that_is_not_waited_for() {
        let mut voter = Voter::new(at(0), FIRST);
        let mut leader_lease = LeaderLease::new([0, 1, 2].map(NodeRank).to_vec());
        leader_lease.granted(NodeRank(0), at(0), false);
        leader_lease.granted(NodeRank(1), at(0), true);
        assert!(leader_lease.is_held(at(1)) && !leader_lease.may_go_on_alone(at(1)), "one of three knows");
        assert_eq!(voter.renew(at(0), Renewal { is_followed: false, ..renewal(FIRST) }), Ok(()));
        leader_lease.granted(NodeRank(2), at(0), false);
        assert!(leader_lease.may_go_on_alone(at(8)) && !leader_lease.may_go_on_alone(at(9)));
        leader_lease.asks(NodeRank(2), true);
        assert!(!leader_lease.may_go_on_alone(at(8)), "it may have heard that the standby is waited for again");
        // One that was on its way for long.
        let told = |number, is_followed| Renewal { number, is_followed, ..renewal(FIRST) };
        assert_eq!((voter.renew(at(1), told(2, false)), voter.renew(at(2), told(1, true))), (Ok(()), Ok(())));
        assert_eq!(voter.vote(at(60), vote_request(7, false)), VoteReply::Behind);
    }

    #[test]
    fn a_leader_that_hears_of_a_newer_one_stops() {
        let mut leader_lease = LeaderLease::new(vec![NodeRank(0)]);
        leader_lease.granted(NodeRank(0), at(0), false);
        assert!(leader_lease.is_held(at(8)) && !leader_lease.is_held(at(9)));
        leader_lease.refused(SECOND);
        leader_lease.granted(NodeRank(0), at(10), false);
        assert!(!leader_lease.is_held(at(11)) && !leader_lease.may_go_on_alone(at(11)));
        assert_eq!(leader_lease.newer(), Some(SECOND));
    }

    /// An answer to the leader's kernel holds no longer than the leader lease.
    #[test]
    fn a_leader_lease_lasts_as_long_as_a_majority_has_granted_it() {
        let mut leader_lease = LeaderLease::new([0, 1, 2].map(NodeRank).to_vec());
        assert_eq!(leader_lease.left(at(0)), Duration::ZERO);
        for (voter, asked) in [(0, 8), (1, 4), (2, 0)] {
            leader_lease.granted(NodeRank(voter), at(asked), true);
        }
        assert_eq!(leader_lease.left(at(5)), LEADER_LEASE * 8 / 10, "the second of three");
        assert!(leader_lease.is_held(at(12)) && !leader_lease.is_held(at(13)));
        assert_eq!(leader_lease.left(at(13)), Duration::ZERO);
        leader_lease.refused(SECOND);
        assert_eq!(leader_lease.left(at(5)), Duration::ZERO);
    }
}
