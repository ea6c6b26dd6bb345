//! Which stretch of the file each rank's held bytes lie in, so that no rank holds bytes where another one does.
//!
//! Of bytes that two ranks hold for the same place nobody could say which are newer, and plain MPI-IO has the collective calls of a
//! file one after the other. Stretches are coarse: bytes that only might meet are written first.

use crate::error::Error;
use crate::group::Group;
use crate::message::{EXTENT_BYTES, Reader, put_extent};
use crate::view::Extent;

/// An empty hull is told as a byte at the end of all files.
const NONE: Extent = Extent { offset: i64::MAX as u64 - 1, len: 1 };

/// The stretch of each rank that has any; the same at every rank.
#[derive(Clone, Debug, Default)]
pub struct Hulls(Vec<Option<Extent>>);

impl Hulls {
    /// Those of one call, by each rank's extents. Collective.
    ///
    /// # Errors
    /// [`Error::Communication`], [`Error::Message`].
    pub fn of_call<G: Group>(group: &G, extents: &[Extent]) -> Result<Self, Error> {
        Self::of_all(&group.all_gather(&Self::own(extents))?)
    }

    /// The message by which a rank tells its stretch: [`EXTENT_BYTES`].
    #[must_use]
    pub fn own(extents: &[Extent]) -> Vec<u8> {
        let start = extents.iter().map(|extent| extent.offset).min().unwrap_or(0);
        let end = extents.iter().map(Extent::end).max().unwrap_or(0);
        let mut own = Vec::with_capacity(EXTENT_BYTES);
        put_extent(&mut own, if start < end { Extent { offset: start, len: end - start } } else { NONE });
        own
    }

    /// From the messages of all ranks, one after the other.
    ///
    /// # Errors
    /// [`Error::Message`].
    pub fn of_all(messages: &[u8]) -> Result<Self, Error> {
        let told = messages.chunks(EXTENT_BYTES).map(|told| Reader::new(told).extent());
        told.map(|told| told.map(|told| (told != NONE).then_some(told))).collect::<Result<_, _>>().map(Self)
    }

    /// Whether any rank's stretch here meets another rank's there.
    #[must_use]
    pub fn meet(&self, held: &Self) -> bool {
        let mut starts: Vec<u64> = held.0.iter().flatten().map(|hull| hull.offset).collect();
        let mut ends: Vec<u64> = held.0.iter().flatten().map(Extent::end).collect();
        starts.sort_unstable();
        ends.sort_unstable();
        self.0.iter().enumerate().filter_map(|(rank, hull)| Some((rank, (*hull)?))).any(|(rank, hull)| {
            // Those that begin before its end, without those that end before its start.
            let met =
                starts.partition_point(|start| *start < hull.end()) - ends.partition_point(|end| *end <= hull.offset);
            let own = held.0.get(rank).copied().flatten();
            met > usize::from(own.is_some_and(|own| own.offset < hull.end() && hull.offset < own.end()))
        })
    }

    /// These and those of a later call.
    pub fn add(&mut self, later: &Self) {
        self.0.resize(self.0.len().max(later.0.len()), None);
        for (held, later) in self.0.iter_mut().zip(&later.0) {
            *held = match (*held, *later) {
                (Some(held), Some(later)) => {
                    let offset = held.offset.min(later.offset);
                    Some(Extent { offset, len: held.end().max(later.end()) - offset })
                }
                (held, later) => held.or(later),
            };
        }
    }

    /// Whether no call is held.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// No call is held.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hulls(of: &[Option<(u64, u64)>]) -> Hulls {
        Hulls(of.iter().map(|hull| hull.map(|(offset, len)| Extent { offset, len })).collect())
    }

    #[test]
    fn blocks_side_by_side_and_calls_behind_each_other_do_not_meet() {
        let mut held = hulls(&[Some((0, 10)), Some((100, 10)), None]);
        assert!(!hulls(&[Some((10, 90)), Some((105, 50)), None]).meet(&held), "each in its own block");
        assert!(!hulls(&[Some((200, 10)), None, Some((110, 90))]).meet(&held), "behind everything");
        assert!(hulls(&[Some((109, 1)), None, None]).meet(&held));
        held.add(&hulls(&[Some((200, 10)), None, Some((110, 90))]));
        assert!(hulls(&[None, None, Some((50, 1))]).meet(&held), "between two of another rank's, which is one stretch");
        held.clear();
        assert!(!hulls(&[Some((0, 1000))]).meet(&held));
    }

    proptest! {
        #[test]
        fn as_every_pair_says(
            calls in prop::collection::vec(prop::collection::vec(prop::option::of((0u64..60, 1u64..20)), 1..6), 2)
        ) {
            let (now, held) = (hulls(&calls[0]), hulls(&calls[1]));
            let pair = |(rank, one): (usize, &Option<Extent>)| held.0.iter().enumerate().any(|(other, two)| {
                rank != other && one.zip(*two).is_some_and(|(one, two)| one.offset < two.end() && two.offset < one.end())
            });
            prop_assert_eq!(now.meet(&held), now.0.iter().enumerate().any(pair));
        }
    }
}
