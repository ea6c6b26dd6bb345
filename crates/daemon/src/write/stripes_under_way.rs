//! Which stripes a node is writing for the leader: a few at a time, and none twice.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use forebay_types::threads::STRIPES_FOR_LEADER_MAX;
use forebay_types::{BackingId, Errno};
use forebay_wire::write::WrittenExtent;

/// The stripes that this node is writing for the leader: drafts, and where in them.
#[derive(Default)]
pub struct UnderWay(Mutex<Vec<(BackingId, Range<u64>)>>);

/// One of them, until dropped.
#[derive(Debug)]
pub struct Writing<'a>(&'a Mutex<Vec<(BackingId, Range<u64>)>>, BackingId, Range<u64>);

impl UnderWay {
    /// The writing of these extents begins.
    ///
    /// # Errors
    /// EBUSY while an earlier request for some of the same is being carried out, EAGAIN while too many are.
    pub fn begin(&self, draft: &BackingId, extents: &[WrittenExtent]) -> Result<Writing<'_>, Errno> {
        let start = extents.first().map_or(0, |extent| extent.offset);
        let end = extents.last().map_or(0, |extent| extent.offset.saturating_add(extent.len));
        let mut under_way = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if under_way.iter().any(|(of, range)| of.is_same_file(draft) && range.start < end && start < range.end) {
            return Err(Errno::EBUSY);
        }
        if under_way.len() >= STRIPES_FOR_LEADER_MAX {
            return Err(Errno::EAGAIN);
        }
        under_way.push((*draft, start..end));
        Ok(Writing(&self.0, *draft, start..end))
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        let mut under_way = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = under_way.iter().position(|(draft, range)| *draft == self.1 && *range == self.2) {
            under_way.swap_remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use forebay_types::{Generation, Kind, LogPosition, NodeRank, Timestamp};

    use super::*;

    fn extent(offset: u64, len: u64) -> WrittenExtent {
        WrittenExtent { offset, len, node: NodeRank(0), position: LogPosition { segment: 1, offset: 0 }, skip: 0 }
    }

    fn draft(ino: u64) -> BackingId {
        let generation = Generation { ino, size_bytes: 0, mtime: Timestamp::default(), ctime: Timestamp::default() };
        BackingId { generation, born: Timestamp::default(), kind: Kind::File }
    }

    #[test]
    fn stripes_that_hang_leave_others_to_the_leader() {
        let under_way = UnderWay::default();
        let begin = |number: u64| under_way.begin(&draft(1), &[extent(number * 10, 10)]);
        let hanging: Vec<_> = (0..STRIPES_FOR_LEADER_MAX as u64).map(|number| begin(number).unwrap()).collect();
        assert_eq!(begin(100).unwrap_err(), Errno::EAGAIN);
        drop(hanging);
        assert!(begin(100).is_ok(), "what has ended makes room");
    }

    #[test]
    fn a_stripe_under_way_is_not_begun_again() {
        let under_way = UnderWay::default();
        let first = under_way.begin(&draft(1), &[extent(0, 10), extent(10, 10)]).unwrap();
        assert_eq!(under_way.begin(&draft(1), &[extent(19, 5)]).unwrap_err(), Errno::EBUSY);
        assert!(under_way.begin(&draft(1), &[extent(20, 5)]).is_ok(), "another stripe");
        assert!(under_way.begin(&draft(2), &[extent(0, 10)]).is_ok(), "another draft");
        drop(first);
        assert!(under_way.begin(&draft(1), &[extent(19, 5)]).is_ok());
    }
}
