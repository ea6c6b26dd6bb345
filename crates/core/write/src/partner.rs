//! A node's log on another node, its partner. `Uncopied` has the records still to be copied, at the writing node, and `Copies` the
//! copies, at the partner.
//!
//! The partner asks for the next records, appends them to its own log and asks for more, which confirms the ones before.
//! Records that it does not confirm are handed again. The caller passes the time.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Duration;

use forebay_types::{LogPosition, NodeRank, Time};
use forebay_wire::write::Copy;
use forebay_wire::write_message::{CONTENTS_BYTES_MAX, CONTENTS_PARTS_MAX, COPIES_MAX, ToCopy};
use serde::{Deserialize, Serialize};

/// A partner that has asked nothing for so long is not waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// Records of this node that its partner does not have.
#[derive(Debug)]
pub struct Uncopied {
    /// Bytes of each.
    records: BTreeMap<LogPosition, u32>,
    bytes: u64,
    /// The records that were handed last, and their number.
    handed: Vec<LogPosition>,
    batch: u64,
    /// When the partner asked last, or was to begin.
    heard: Time,
}

impl Uncopied {
    /// These, for a daemon whose batches have numbers above `batch`. Its time begins now, and its partner is to ask soon.
    #[must_use]
    pub fn new(batch: u64, records: BTreeMap<LogPosition, u32>) -> Self {
        let bytes = records.values().map(|len| u64::from(*len)).sum();
        Self { records, bytes, handed: vec![], batch, heard: Time::default() }
    }

    /// One more.
    pub fn note(&mut self, position: LogPosition, len: u32) {
        if self.records.insert(position, len).is_none() {
            self.bytes += u64::from(len);
        }
    }

    /// The partner asks, and has the batch `done`.
    pub fn heard(&mut self, now: Time, done: Option<u64>) {
        self.heard = now;
        if done == Some(self.batch) {
            for position in std::mem::take(&mut self.handed) {
                self.bytes -= self.records.remove(&position).map_or(0, u64::from);
            }
        }
    }

    /// The next records for the partner to copy: none when it has them all.
    pub fn hand(&mut self) -> ToCopy {
        let mut room = CONTENTS_BYTES_MAX;
        let fits = |record: &(&LogPosition, &u32)| {
            let len = u64::from(*record.1);
            let is_fitting = len <= room;
            room = room.saturating_sub(len);
            is_fitting
        };
        let next = self.records.iter().take(CONTENTS_PARTS_MAX).take_while(fits);
        let records: Vec<(LogPosition, u32)> = next.map(|(position, len)| (*position, *len)).collect();
        self.handed = records.iter().map(|(position, _)| *position).collect();
        self.batch += 1;
        ToCopy { batch: self.batch, records }
    }

    /// The last that was noted, if the partner does not have it.
    #[must_use]
    pub fn last(&self) -> Option<LogPosition> {
        self.records.last_key_value().map(|(position, _)| *position)
    }

    /// Whether the partner has everything up to `last`.
    #[must_use]
    pub fn is_copied(&self, last: LogPosition) -> bool {
        self.records.first_key_value().is_none_or(|(first, _)| *first > last)
    }

    /// Whether the partner asks.
    #[must_use]
    pub fn is_followed(&self, now: Time) -> bool {
        now.since(self.heard) < PATIENCE
    }

    /// The records that the partner lacks.
    pub fn records(&self) -> impl Iterator<Item = (LogPosition, u32)> {
        self.records.iter().map(|(position, len)| (*position, *len))
    }

    /// How much that is.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Records of other nodes that this one has copied to its own log.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Copies {
    of: BTreeMap<NodeRank, BTreeMap<LogPosition, (LogPosition, u32)>>,
}

impl Copies {
    /// One more.
    pub fn insert(&mut self, of: NodeRank, copy: Copy) {
        self.of.entry(of).or_default().insert(copy.from, (copy.to, copy.len));
    }

    /// Whether there is one of a record.
    #[must_use]
    pub fn has(&self, of: NodeRank, position: LogPosition) -> bool {
        self.of.get(&of).is_some_and(|copies| copies.contains_key(&position))
    }

    /// Whether there are any of a node.
    #[must_use]
    pub fn has_any(&self, of: NodeRank) -> bool {
        self.of.get(&of).is_some_and(|copies| !copies.is_empty())
    }

    /// The nodes that there are any of.
    #[must_use]
    pub fn nodes(&self) -> Vec<NodeRank> {
        self.of.iter().filter(|(_, copies)| !copies.is_empty()).map(|(of, _)| *of).collect()
    }

    /// The last record of a node that there is one of.
    #[must_use]
    pub fn newest(&self, of: NodeRank) -> Option<LogPosition> {
        Some(*self.of.get(&of)?.last_key_value()?.0)
    }

    /// Their size, bytes by segment of this node's log.
    #[must_use]
    pub fn by_segment(&self) -> BTreeMap<u64, u64> {
        let mut bytes = BTreeMap::new();
        for (to, len) in self.of.values().flat_map(BTreeMap::values) {
            *bytes.entry(to.segment).or_default() += u64::from(*len);
        }
        bytes
    }

    /// Those of a node after a position, `COPIES_MAX` at most.
    #[must_use]
    pub fn page(&self, of: NodeRank, after: Option<LogPosition>) -> Vec<Copy> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let copies = self.of.get(&of).into_iter().flat_map(|copies| copies.range((from, Bound::Unbounded)));
        copies.take(COPIES_MAX).map(copy).collect()
    }

    /// All of a node.
    pub fn all_of(&self, of: NodeRank) -> impl Iterator<Item = Copy> {
        self.of.get(&of).into_iter().flatten().map(copy)
    }

    /// Drops those of a node that `is_needed` does not want, and says which.
    pub fn drop_of(&mut self, of: NodeRank, is_needed: impl Fn(LogPosition) -> bool) -> Vec<Copy> {
        let Some(copies) = self.of.get_mut(&of) else { return vec![] };
        let dropped: Vec<Copy> = copies.iter().filter(|(from, _)| !is_needed(**from)).map(copy).collect();
        copies.retain(|from, _| is_needed(*from));
        dropped
    }

    /// The same by where they lie in this node's log.
    pub fn drop_at(&mut self, is_at: impl Fn(LogPosition) -> bool) {
        self.of.values_mut().for_each(|copies| copies.retain(|_, (to, _)| !is_at(*to)));
    }
}

fn copy((from, (to, len)): (&LogPosition, &(LogPosition, u32))) -> Copy {
    Copy { from: *from, to: *to, len: *len }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(offset: u32) -> LogPosition {
        LogPosition { segment: 3, offset }
    }

    fn positions(to_copy: &ToCopy) -> Vec<u32> {
        to_copy.records.iter().map(|(position, _)| position.offset).collect()
    }

    #[test]
    fn what_was_handed_is_handed_again_until_it_is_said_to_be_there() {
        let mut uncopied = Uncopied::new(0, BTreeMap::from([(at(0), 10)]));
        assert!(uncopied.is_followed(Time(0)) && !uncopied.is_followed(Time(5_000_000_000)), "nobody has asked");
        uncopied.heard(Time(0), None);
        assert!(uncopied.is_followed(Time(0)) && !uncopied.is_followed(Time(5_000_000_000)));
        let first = uncopied.hand();
        uncopied.note(at(100), 20);
        assert_eq!((positions(&first), uncopied.last(), uncopied.bytes()), (vec![0], Some(at(100)), 30));
        uncopied.heard(Time(1), None);
        let again = uncopied.hand();
        assert_eq!(positions(&again), [0, 100]);
        uncopied.heard(Time(2), Some(first.batch));
        assert_eq!(uncopied.bytes(), 30, "that is not what was handed last");
        assert!(!uncopied.is_copied(at(100)));
        uncopied.heard(Time(3), Some(again.batch));
        assert_eq!((uncopied.bytes(), uncopied.last()), (0, None));
    }

    #[test]
    fn a_batch_has_its_limits_and_one_record_at_least() {
        let megabytes = |count: u32| (0..count).map(|index| (at(index), 1 << 20)).collect();
        let mut uncopied = Uncopied::new(7, megabytes(10));
        let batch = uncopied.hand();
        assert_eq!((batch.batch, positions(&batch)), (8, vec![0, 1, 2, 3]));
        uncopied.heard(Time(0), Some(8));
        assert!(uncopied.is_copied(at(3)) && !uncopied.is_copied(at(4)));
    }

    #[test]
    fn copies_are_found_and_dropped() {
        let mut copies = Copies::default();
        let (node, other) = (NodeRank(2), NodeRank(5));
        for offset in [0, 100, 200] {
            copies.insert(node, Copy { from: at(offset), to: at(offset + 1), len: 50 });
        }
        assert!(copies.has(node, at(100)) && !copies.has(other, at(100)) && !copies.has(node, at(101)));
        assert_eq!((copies.by_segment(), copies.nodes()), (BTreeMap::from([(3, 150)]), vec![node]));
        assert_eq!(copies.page(node, Some(at(0))).len(), 2);
        assert_eq!(copies.drop_of(node, |from| from != at(100)).len(), 1);
        copies.drop_at(|to| to == at(1));
        assert_eq!(copies.page(node, None), [Copy { from: at(200), to: at(201), len: 50 }]);
        assert!(copies.has_any(node) && !copies.has_any(other));
    }
}
