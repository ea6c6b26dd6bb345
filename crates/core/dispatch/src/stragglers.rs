//! Stragglers: nodes that are there, and send chunks far more slowly than others do.
//!
//! A node whose link or processors are taken up says in time that it is there, and its bodies begin in time. So neither the
//! failure detector nor hedges pass it by, and who reads from all nodes in turn goes at its speed. Here the time from the first
//! byte of a body to the last is compared with what half of the other nodes take at most. A node that waits for the backing file
//! system sends nothing meanwhile, so that does not count. Where most are slow, as behind this node's own slow link, there is no straggler.
//! A straggler is found when for some time all was slow that it sent. The node is left alone for a while, and then asked as if it
//! were new.

use std::collections::BTreeMap;
use std::time::Duration;

use forebay_types::{Map, NodeRank, Time};

use crate::limits;

/// How long nodes take, and which of them are left alone.
#[derive(Default, Debug)]
pub(crate) struct Stragglers {
    paces: Map<NodeRank, Pace>,
    left_alone: Map<NodeRank, LeftAlone>,
}

/// The bodies that a node was asked for and is still to send.
#[derive(Clone, Default, Debug)]
pub(crate) struct Awaited {
    /// How long each body has been coming.
    pub coming: Vec<Duration>,
    /// How long ago each of the others was asked for.
    pub queued: Vec<Duration>,
}

#[derive(Clone, Copy, Default, Debug)]
struct Pace {
    /// The time from the first byte to the last: a mean in which the last few count most.
    usual: Duration,
    ended_count: u32,
    slow: Option<Slow>,
}

/// Slow bodies of a node, one after the other.
#[derive(Clone, Copy, Debug)]
struct Slow {
    /// When the first of it began to come, and when the last ended.
    since: Time,
    until: Time,
    count: usize,
}

#[derive(Clone, Copy, Debug)]
struct LeftAlone {
    until: Time,
    back_off: Duration,
}

impl Stragglers {
    /// A node has sent something whole, which took so long.
    pub fn on_ended(&mut self, now: Time, peer: NodeRank, took: Duration) {
        let is_slow = took >= limits::STRAGGLER_MIN
            && self.usual_but_of(peer, &BTreeMap::new()).is_some_and(|usual| is_slow(took, usual));
        let pace = self.paces.entry(peer).or_default();
        pace.usual = if pace.ended_count == 0 { took } else { weighed(pace.usual, took) };
        pace.ended_count = pace.ended_count.saturating_add(1);
        let since = Time(now.0.saturating_sub(took.as_nanos() as u64));
        pace.slow = is_slow.then(|| {
            let Slow { since, count, .. } = pace.slow_at(now).unwrap_or(Slow { since, until: now, count: 0 });
            Slow { since, until: now, count: count + 1 }
        });
    }

    /// This node itself stood still: how long bodies took meanwhile tells nothing.
    pub fn forget_slow(&mut self) {
        self.paces.values_mut().for_each(|pace| pace.slow = None);
    }

    /// The nodes that are stragglers, by what each is to send still.
    pub fn found(&self, now: Time, awaited: &BTreeMap<NodeRank, Awaited>) -> Vec<NodeRank> {
        let is_one = |(peer, Awaited { coming, queued }): &(&NodeRank, &Awaited)| {
            let Some(usual) = self.usual_but_of(**peer, awaited) else { return false };
            let slow_now: Vec<Duration> = coming.iter().copied().filter(|age| is_slow(*age, usual)).collect();
            let slow = self.paces.get(*peer).and_then(|pace| pace.slow_at(now));
            if slow.is_none() && slow_now.is_empty() {
                return false;
            }
            let longest = slow_now.iter().max().copied().unwrap_or_default();
            let since = slow.map_or(Duration::ZERO, |slow| now.since(slow.since)).max(longest);
            // A node that sends so slowly has not begun with the others for that reason.
            let queued = queued.iter().filter(|age| is_slow(**age, usual)).count();
            let count = slow.map_or(0, |slow| slow.count) + slow_now.len() + queued;
            since >= limits::STRAGGLER_AFTER && count >= limits::STRAGGLER_BODIES_MIN
        };
        awaited.iter().filter(is_one).map(|(peer, _)| *peer).collect()
    }

    /// The time that half of the nodes but one take at most; none where it is not known.
    fn usual_but_of(&self, peer: NodeRank, awaited: &BTreeMap<NodeRank, Awaited>) -> Option<Duration> {
        let is_known = |(other, pace): &(&NodeRank, &Pace)| **other != peer && pace.ended_count >= limits::PACE_MIN;
        // A body that has been coming for so long takes that, at least.
        let with = |usual: Duration, age: &Duration| if *age > usual { weighed(usual, *age) } else { usual };
        let coming = |other: &NodeRank| awaited.get(other).into_iter().flat_map(|awaited| &awaited.coming);
        let times = self.paces.iter().filter(is_known).map(|(other, pace)| coming(other).fold(pace.usual, with));
        let mut times: Vec<Duration> = times.collect();
        times.sort_unstable();
        // Of two the slower.
        times.get(times.len() / 2).copied()
    }

    /// Leaves a node alone from now on; for longer where it was before. How long.
    pub fn leave_alone(&mut self, peer: NodeRank, now: Time) -> Duration {
        self.paces.remove(&peer);
        let back_off = match self.left_alone.get(&peer) {
            Some(earlier) if now < earlier.until.after(earlier.back_off) => {
                (earlier.back_off * 2).min(limits::LEFT_ALONE_LONGEST)
            }
            _ => limits::LEFT_ALONE_FIRST,
        };
        self.left_alone.insert(peer, LeftAlone { until: now.after(back_off), back_off });
        back_off
    }

    /// Whether a node is left alone.
    pub fn is_left_alone(&self, peer: NodeRank, now: Time) -> bool {
        self.left_alone.get(&peer).is_some_and(|left| now < left.until)
    }

    /// The nodes that are left alone, in order of rank.
    pub fn left_alone(&self, now: Time) -> Vec<NodeRank> {
        let left = self.left_alone.iter().filter(|(_, left)| now < left.until);
        let mut ranks: Vec<NodeRank> = left.map(|(rank, _)| *rank).collect();
        ranks.sort_unstable();
        ranks
    }
}

impl Pace {
    fn slow_at(&self, now: Time) -> Option<Slow> {
        self.slow.filter(|slow| now.since(slow.until) < limits::STRAGGLER_FORGOTTEN_AFTER)
    }
}

fn is_slow(took: Duration, usual: Duration) -> bool {
    took >= limits::STRAGGLER_MIN && took >= usual * limits::STRAGGLER_FACTOR
}

/// The mean, with another time.
fn weighed(usual: Duration, took: Duration) -> Duration {
    (usual * 3 + took) / 4
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOW: NodeRank = NodeRank(3);

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    fn at(count: u64) -> Time {
        Time(0).after(ms(count))
    }

    fn of_others(took: &[u64]) -> Stragglers {
        let mut stragglers = Stragglers::default();
        for (rank, took) in (10..).zip(took) {
            (0..limits::PACE_MIN).for_each(|_| stragglers.on_ended(at(0), NodeRank(rank), ms(*took)));
        }
        stragglers
    }

    fn awaited(coming: &[u64], queued: &[u64]) -> Awaited {
        let [coming, queued] = [coming, queued].map(|ages| ages.iter().copied().map(ms).collect());
        Awaited { coming, queued }
    }

    /// Whether the node is one whose bodies have been coming for so long.
    fn is_found(stragglers: &Stragglers, now: u64, ages: &[u64]) -> bool {
        stragglers.found(at(now), &BTreeMap::from([(SLOW, awaited(ages, &[]))])) == [SLOW]
    }

    #[test]
    fn a_node_that_was_slow_for_a_while_is_one() {
        let mut stragglers = of_others(&[10, 20]);
        assert!(!is_found(&stragglers, 5000, &[900; 4]), "not for long");
        assert!(!is_found(&stragglers, 5000, &[1600]), "once is no habit");
        assert!(is_found(&stragglers, 5000, &[1600; 2]));
        let found =
            |coming, queued| !stragglers.found(at(5000), &BTreeMap::from([(SLOW, awaited(coming, queued))])).is_empty();
        assert!(found(&[1600], &[1600]), "another waits behind it");
        assert!(!found(&[], &[9000; 9]), "it may wait itself, for the backing file system");
        (1..=8).for_each(|turn| stragglers.on_ended(at(5000 + 200 * turn), SLOW, ms(200)));
        assert!(is_found(&stragglers, 6600, &[10]), "each took ten times as long as others");
        assert!(!is_found(&stragglers, 60_000, &[10]), "that was long ago");
        stragglers.on_ended(at(6600), SLOW, ms(90));
        assert!(!is_found(&stragglers, 6600, &[900; 2]), "one was fast");
        (1..=8).for_each(|turn| stragglers.on_ended(at(7000 + 200 * turn), SLOW, ms(200)));
        stragglers.forget_slow();
        assert!(!is_found(&stragglers, 8600, &[10]), "this node stood still");
    }

    #[test]
    fn where_most_are_slow_or_unknown_none_is_one() {
        assert!(!is_found(&of_others(&[]), 9000, &[60_000; 9]));
        assert!(!is_found(&of_others(&[3000, 2000]), 9000, &[9000; 9]));
        assert!(!is_found(&of_others(&[10, 3000]), 9000, &[9000; 9]), "of two the slower");
        assert!(is_found(&of_others(&[10, 9000, 20]), 9000, &[9000; 9]), "most of the others are fast");
        let mut once = Stragglers::default();
        once.on_ended(at(0), NodeRank(10), ms(1));
        assert!(!is_found(&once, 9000, &[9000; 9]), "once is no habit");
        let all = (10..13).map(NodeRank).chain([SLOW]).map(|rank| (rank, awaited(&[9000; 4], &[])));
        assert!(of_others(&[10, 10, 10]).found(at(9000), &all.collect()).is_empty(), "all stand still");
    }

    #[test]
    fn it_is_left_alone_for_longer_each_time() {
        let mut stragglers = of_others(&[10]);
        let (mut now, mut times) = (Time(0), Vec::new());
        for _ in 0..5 {
            let back_off = stragglers.leave_alone(SLOW, now);
            assert!(stragglers.is_left_alone(SLOW, now) && stragglers.left_alone(now) == [SLOW]);
            now = now.after(back_off);
            assert!(!stragglers.is_left_alone(SLOW, now) && stragglers.left_alone(now).is_empty());
            times.push(back_off.as_secs());
        }
        assert_eq!(times, [30, 60, 120, 240, 300]);
        now = now.after(2 * limits::LEFT_ALONE_LONGEST);
        assert_eq!(stragglers.leave_alone(SLOW, now), limits::LEFT_ALONE_FIRST, "long ago is forgotten");
    }
}
