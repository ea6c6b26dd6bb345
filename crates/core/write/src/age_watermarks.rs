//! Contents of a tree that have not changed for some time.
//!
//! Positions in a log only grow. So all contents older than a time lie at or below the last position that the tree knew then, by
//! node. No state is kept per file. The caller passes the time.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use forebay_types::{LogPosition, NodeRank, Time};
use forebay_wire::write::WrittenExtent;

/// How often a mark is made, as a part of the age: an extent may be so much older before it counts as old.
const MARKS: u32 = 4;

/// See the module.
#[derive(Debug)]
pub struct AgeWatermarks {
    age: Duration,
    /// The last positions of nodes' logs, and when they were the last; the first of them are old.
    marks: VecDeque<(Time, BTreeMap<NodeRank, LogPosition>)>,
}

impl AgeWatermarks {
    /// For what is `age` old.
    #[must_use]
    pub fn new(age: Duration) -> Self {
        Self { age, marks: VecDeque::new() }
    }

    /// Whether it is time to look what there is.
    #[must_use]
    pub fn is_due(&self, now: Time) -> bool {
        self.marks.back().is_none_or(|(at, _)| now.since(*at) >= self.age / MARKS)
    }

    /// This is what there is now.
    pub fn mark(&mut self, now: Time, written: impl Iterator<Item = WrittenExtent>) {
        let mut last: BTreeMap<NodeRank, LogPosition> = BTreeMap::new();
        for extent in written {
            let of_node = last.entry(extent.node).or_insert(extent.position);
            *of_node = extent.position.max(*of_node);
        }
        self.marks.push_back((now, last));
        // Of those that are old only the newest counts.
        while self.marks.get(1).is_some_and(|(at, _)| now.since(*at) >= self.age) {
            self.marks.pop_front();
        }
    }

    /// Of what is old now nothing is left.
    pub fn all_sent(&mut self) {
        if let Some((_, last)) = self.marks.front_mut() {
            last.clear();
        }
    }

    /// The last old positions, by node.
    #[must_use]
    pub fn old(&self, now: Time) -> BTreeMap<NodeRank, LogPosition> {
        let (at, last) = match self.marks.front() {
            Some(first) => first,
            None => return BTreeMap::new(),
        };
        if now.since(*at) >= self.age { last.clone() } else { BTreeMap::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(node: u32, segment: u64) -> WrittenExtent {
        let position = LogPosition { segment, offset: 0 };
        WrittenExtent { offset: 0, len: 1, node: NodeRank(node), position, skip: 0 }
    }

    #[test]
    fn only_extents_from_an_age_ago_are_old() {
        let at = |seconds: u64| Time::default().after(Duration::from_secs(seconds));
        let old = |age_watermarks: &AgeWatermarks, seconds| -> Vec<(u32, u64)> {
            age_watermarks.old(at(seconds)).into_iter().map(|(node, position)| (node.0, position.segment)).collect()
        };
        let mut age_watermarks = AgeWatermarks::new(Duration::from_secs(20));
        assert!(age_watermarks.is_due(at(0)) && old(&age_watermarks, 100).is_empty());
        age_watermarks.mark(at(0), [extent(1, 4), extent(2, 9), extent(1, 3)].into_iter());
        assert!(!age_watermarks.is_due(at(4)) && age_watermarks.is_due(at(5)));
        age_watermarks.mark(at(10), [extent(1, 7)].into_iter());
        assert_eq!(old(&age_watermarks, 19), []);
        assert_eq!(old(&age_watermarks, 20), [(1, 4), (2, 9)]);
        age_watermarks.mark(at(25), [extent(1, 8)].into_iter());
        assert_eq!(old(&age_watermarks, 25), [(1, 4), (2, 9)], "the second is 15 s old");
        age_watermarks.mark(at(32), [].into_iter());
        assert_eq!(old(&age_watermarks, 32), [(1, 7)]);
        assert_eq!(old(&age_watermarks, 45), [(1, 7)], "until it is looked again");
        age_watermarks.all_sent();
        assert_eq!(old(&age_watermarks, 46), []);
        age_watermarks.mark(at(90), [].into_iter());
        assert_eq!(old(&age_watermarks, 90), [], "nothing was there at 32");
    }
}
