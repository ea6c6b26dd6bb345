//! The copies that a node's partner has of the node's log. They come by a replicated stream (`replicate`).

use std::collections::BTreeMap;
use std::ops::Bound;

use forebay_types::{LogPosition, NodeRank};
use forebay_wire::write::Copy;
use forebay_wire::write_message::COPIES_MAX;
use serde::{Deserialize, Serialize};

/// Records of other nodes that this one has copied to its own log.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(from = "Stored")]
pub struct Copies {
    of: BTreeMap<NodeRank, BTreeMap<LogPosition, (LogPosition, u32)>>,
    /// Their size.
    #[serde(skip)]
    bytes: u64,
}

/// The same as it is stored.
#[derive(Deserialize)]
struct Stored {
    of: BTreeMap<NodeRank, BTreeMap<LogPosition, (LogPosition, u32)>>,
}

impl From<Stored> for Copies {
    fn from(Stored { of }: Stored) -> Self {
        let bytes = of.values().flat_map(BTreeMap::values).map(|(_, len)| u64::from(*len)).sum();
        Self { of, bytes }
    }
}

impl Copies {
    /// One more.
    pub fn insert(&mut self, of: NodeRank, copy: Copy) {
        let replaced = self.of.entry(of).or_default().insert(copy.from, (copy.to, copy.len));
        self.bytes += u64::from(copy.len);
        self.bytes -= replaced.map_or(0, |(_, len)| u64::from(len));
    }

    /// Their size in this node's log.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
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
        self.bytes -= dropped.iter().map(|copy| u64::from(copy.len)).sum::<u64>();
        dropped
    }

    /// The same by where they lie in this node's log.
    pub fn drop_at(&mut self, is_at: impl Fn(LogPosition) -> bool) {
        let bytes = &mut self.bytes;
        let mut stays = |to: LogPosition, len: u32| {
            *bytes -= if is_at(to) { u64::from(len) } else { 0 };
            !is_at(to)
        };
        self.of.values_mut().for_each(|copies| copies.retain(|_, (to, len)| stays(*to, *len)));
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

    #[test]
    fn copies_are_found_and_dropped() {
        let mut copies = Copies::default();
        let (node, other) = (NodeRank(2), NodeRank(5));
        for offset in [0, 100, 200] {
            copies.insert(node, Copy { from: at(offset), to: at(offset + 1), len: 50 });
        }
        assert!(copies.has(node, at(100)) && !copies.has(other, at(100)) && !copies.has(node, at(101)));
        copies.insert(node, Copy { from: at(0), to: at(1), len: 50 });
        assert_eq!((copies.by_segment(), copies.nodes()), (BTreeMap::from([(3, 150)]), vec![node]));
        assert_eq!(copies.bytes(), 150);
        assert_eq!(copies.page(node, Some(at(0))).len(), 2);
        assert_eq!(copies.drop_of(node, |from| from != at(100)).len(), 1);
        copies.drop_at(|to| to == at(1));
        assert_eq!(copies.page(node, None), [Copy { from: at(200), to: at(201), len: 50 }]);
        assert_eq!(copies.bytes(), 50);
        assert!(copies.has_any(node) && !copies.has_any(other));
    }
}
