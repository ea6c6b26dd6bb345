//! Extents of a file, and sorted lists of them.
//!
//! A list that is sorted and free of overlaps is called a set here. Everything the planner computes on bytes it computes on
//! sets, so that order and duplicates of what a program declares decide nothing.

use serde::{Deserialize, Serialize};

/// Bytes of a file, from `offset` on. In JSON `[offset, length]`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(from = "(u64, u64)", into = "(u64, u64)")]
pub struct Extent {
    /// The first byte.
    pub offset: u64,
    /// How many bytes.
    pub len: u64,
}

impl From<(u64, u64)> for Extent {
    fn from((offset, len): (u64, u64)) -> Self {
        Self { offset, len }
    }
}

impl From<Extent> for (u64, u64) {
    fn from(extent: Extent) -> Self {
        (extent.offset, extent.len)
    }
}

impl Extent {
    /// The bytes from `start` up to `end`, none if that is not behind it.
    #[must_use]
    pub fn between(start: u64, end: u64) -> Self {
        Self { offset: start, len: end.saturating_sub(start) }
    }

    /// The first byte behind it.
    #[must_use]
    pub fn end(self) -> u64 {
        self.offset + self.len
    }

    /// The bytes that lie in both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self::between(self.offset.max(other.offset), self.end().min(other.end()))
    }
}

/// The set of all bytes of these extents, in whatever order they are and however they overlap.
#[must_use]
pub fn union(mut extents: Vec<Extent>) -> Vec<Extent> {
    if !extents.is_sorted() {
        extents.sort_unstable();
    }
    let mut set: Vec<Extent> = Vec::new();
    for extent in extents.into_iter().filter(|extent| extent.len > 0) {
        match set.last_mut() {
            Some(last) if extent.offset <= last.end() => last.len = last.end().max(extent.end()) - last.offset,
            _ => set.push(extent),
        }
    }
    set
}

/// The part of a set that lies in `span`.
#[must_use]
pub fn within(set: &[Extent], span: Extent) -> Vec<Extent> {
    let first = set.partition_point(|extent| extent.end() <= span.offset);
    let inside = set[first..].iter().take_while(|extent| extent.offset < span.end());
    inside.map(|extent| extent.and(span)).filter(|extent| extent.len > 0).collect()
}

/// Bytes of a set.
#[must_use]
pub fn bytes(set: &[Extent]) -> u64 {
    set.iter().map(|extent| extent.len).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(extents: &[(u64, u64)]) -> Vec<Extent> {
        extents.iter().copied().map(Extent::from).collect()
    }

    #[test]
    fn a_union_is_sorted_and_joined() {
        assert_eq!(union(set(&[(10, 5), (0, 2), (14, 6), (2, 1), (30, 0), (12, 1)])), set(&[(0, 3), (10, 10)]));
        assert!(union(vec![]).is_empty());
    }

    #[test]
    fn a_part_is_cut_at_both_ends() {
        let all = set(&[(0, 10), (20, 10), (40, 10)]);
        assert_eq!(within(&all, Extent::between(5, 45)), set(&[(5, 5), (20, 10), (40, 5)]));
        assert_eq!(within(&all, Extent::between(10, 20)), []);
        assert_eq!(bytes(&within(&all, Extent::between(29, 41))), 2);
    }
}
