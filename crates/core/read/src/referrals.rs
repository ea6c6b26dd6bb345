//! Referrals: where many nodes want one chunk at once, a node sends it to a few of them, and names these to the others.
//!
//! So a broadcast builds a tree of its own, over which a chunk travels while it arrives, and a chunk that one node wants takes one hop. A home begins
//! a few chains; a node that was named sends the chunk to one other, and names that in its turn. So the other links carry a chunk once in and
//! once out. In a small job, the home sends a chunk of a large file to all that ask, and names no node.
//!
//! A node is named only when the chunk is on its way to it, so who is referred to it waits for no more than that. A node to which it has
//! come already, and that has it no more, says that it has nothing. If a chunk gets lost on the way, the node insists on an answer of its
//! home, which then names nobody, and makes any node that it asks insist, too. So nodes wait for each other in no circle, whoever
//! names whom.

use std::collections::VecDeque;
use std::time::Duration;

use forebay_cache::Key;
use forebay_types::{Map, NodeRank, Time};

/// Nodes of a job in which a home sends a chunk of a large file to all others itself: where all read that in order, as much is under way from
/// every home, and all links are busy.
const SENT_BY_HOME_MAX: u64 = 16;

/// Chains that a home begins where there are more nodes, and of a file that has fewer homes than there are nodes.
const CHAINS: usize = 8;
const CHAINS_OF_FEW: usize = 2;

/// Nodes that a home sends a chunk to, in a job of so many, of a file of so many homes at most.
pub(crate) fn chains(node_count: u64, homes: u64) -> usize {
    match node_count {
        0..=SENT_BY_HOME_MAX if homes >= node_count => node_count as usize,
        _ if homes >= node_count.min(SENT_BY_HOME_MAX) => CHAINS,
        _ => CHAINS_OF_FEW,
    }
}

/// How long a node that was sent a chunk is believed to have it: its kernel takes it, and then it is dropped.
const BELIEVED_FOR: Duration = Duration::from_secs(1);

/// Chunks that are remembered: more are not sent in that time.
const CHUNKS_MAX: usize = 4096;

/// Chunks that came, as many as are remembered: a list that is walked.
const CAME_MAX: usize = 512;

/// The nodes to which chunks were sent a moment ago.
#[derive(Debug, Default)]
pub(crate) struct Referrals {
    sent: Map<Key, Sent>,
    /// The keys by the time of their first sending.
    order: VecDeque<(Time, Key)>,
    /// Chunks that began to arrive here a moment ago.
    came: VecDeque<(Time, Key)>,
}

#[derive(Debug, Default)]
struct Sent {
    to: Vec<NodeRank>,
    /// The place in `to` of the next that is named.
    next: usize,
}

impl Referrals {
    /// The node to which `asker` is referred for `key`; `None` if it is sent the chunk itself, as `sent_to_max` nodes are, which is noted.
    pub fn refer(
        &mut self,
        now: Time,
        key: &Key,
        asker: NodeRank,
        sent_to_max: usize,
        is_there: impl Fn(NodeRank) -> bool,
    ) -> Option<NodeRank> {
        self.forget_old(now);
        if !self.sent.contains_key(key) {
            self.order.push_back((now, key.clone()));
        }
        let sent = self.sent.entry(key.clone()).or_default();
        // One that asks again did not get it.
        sent.to.retain(|peer| *peer != asker && is_there(*peer));
        if sent.to.len() < sent_to_max {
            sent.to.push(asker);
            return None;
        }
        sent.next = (sent.next + 1) % sent.to.len();
        Some(sent.to[sent.next])
    }

    /// A chunk begins to arrive here.
    pub fn note_came(&mut self, now: Time, key: &Key) {
        self.forget_came(now);
        self.came.push_back((now, key.clone()));
    }

    /// Whether a chunk that this node is still to get may be what it was named for: it has not come since then.
    pub fn may_be_on_its_way(&mut self, now: Time, key: &Key) -> bool {
        self.forget_came(now);
        !self.came.iter().any(|(_, came)| came == key)
    }

    /// Longer than a node is named.
    fn forget_came(&mut self, now: Time) {
        let is_old = |(since, _): &(Time, Key)| now.since(*since) >= 2 * BELIEVED_FOR;
        while self.came.front().is_some_and(is_old) || self.came.len() > CAME_MAX {
            self.came.pop_front();
        }
    }

    fn forget_old(&mut self, now: Time) {
        while let Some((since, _)) = self.order.front()
            && (now.since(*since) >= BELIEVED_FOR || self.order.len() > CHUNKS_MAX)
            && let Some((_, key)) = self.order.pop_front()
        {
            self.sent.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_types::{ChunkIndex, Generation, ViewPath};

    fn chunk(index: u64) -> Key {
        Key::Chunk { file: ViewPath::root(), generation: Generation::default(), index: ChunkIndex(index) }
    }

    fn at(ms: u64) -> Time {
        Time(0).after(Duration::from_millis(ms))
    }

    fn refer(referrals: &mut Referrals, ms: u64, asker: u32) -> Option<u32> {
        referrals.refer(at(ms), &chunk(0), NodeRank(asker), 2, |_| true).map(|rank| rank.0)
    }

    #[test]
    fn two_are_sent_to_and_the_others_are_divided_among_them() {
        let mut referrals = Referrals::default();
        let told: Vec<Option<u32>> = (1..=6).map(|asker| refer(&mut referrals, 0, asker)).collect();
        assert_eq!(told, [None, None, Some(2), Some(1), Some(2), Some(1)]);
        assert_eq!(referrals.refer(at(0), &chunk(1), NodeRank(1), 2, |_| true), None, "of another chunk");
    }

    #[test]
    fn one_that_asks_again_or_is_lost_is_not_named() {
        let mut referrals = Referrals::default();
        assert_eq!((refer(&mut referrals, 0, 1), refer(&mut referrals, 0, 2)), (None, None));
        assert_eq!(refer(&mut referrals, 0, 2), None, "it lacks it");
        let told = referrals.refer(at(0), &chunk(0), NodeRank(3), 2, |peer| peer != NodeRank(1));
        assert_eq!(told, None, "node 1 is lost");
        assert!([Some(2), Some(3)].contains(&refer(&mut referrals, 0, 4)));
    }

    #[test]
    fn what_was_sent_long_ago_is_forgotten_and_memory_is_bounded() {
        let mut referrals = Referrals::default();
        assert_eq!((refer(&mut referrals, 0, 1), refer(&mut referrals, 0, 2)), (None, None));
        assert!(refer(&mut referrals, 999, 3).is_some());
        assert_eq!(refer(&mut referrals, 1000, 3), None);
        for index in 0..2 * CHUNKS_MAX as u64 {
            referrals.refer(at(1000), &chunk(index), NodeRank(1), 2, |_| true);
        }
        assert!(referrals.sent.len() <= CHUNKS_MAX + 1 && referrals.order.len() == referrals.sent.len());
    }
}
