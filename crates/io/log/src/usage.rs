//! Live bytes by segment, and the segments that may be freed.
//!
//! Accounting only: no file is touched here. A segment is freed when it is sealed, none of its data are live and a
//! checkpoint stands for its notes. Each record that made its data dead must be durable too: a crash must not restore a
//! state that needs them. A few live bytes keep a whole segment; they are not moved together.

use std::collections::{BTreeMap, BTreeSet};

use forebay_types::LogPosition;
use forebay_wire::log_record::Sequence;

use crate::LogError;

#[derive(Default)]
pub(crate) struct Usage {
    segments: BTreeMap<u64, Entry>,
    live_bytes: u64,
    /// Records below it live in the checkpoint.
    checkpoint: Sequence,
    /// Segments that lack nothing but a commit of all records below the sequence.
    awaiting: BTreeSet<(Sequence, u64)>,
    /// To be removed.
    freed: Vec<Freed>,
}

/// A segment that nothing needs any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Freed {
    pub segment: u64,
    /// Its room on the disk.
    pub bytes: u64,
}

#[derive(Clone, Copy, Default, Debug)]
struct Entry {
    /// Its room on the disk: less than a whole segment where it was cut off at the end of a run.
    bytes: u64,
    live_bytes: u64,
    /// Behind its last note.
    notes_end: Sequence,
    /// Behind its last record, once it is sealed.
    end: Option<Sequence>,
    /// Behind whatever made its data dead.
    dead_by: Sequence,
}

impl Usage {
    pub fn new(checkpoint: Sequence) -> Self {
        Self { checkpoint, ..Self::default() }
    }

    /// A segment begins.
    pub fn begin(&mut self, segment: u64, bytes: u64) {
        self.segments.insert(segment, Entry { bytes, ..Entry::default() });
    }

    /// A segment of an earlier run, of which nothing is known to be live.
    pub fn adopt(&mut self, segment: u64, notes_end: Sequence, end: Sequence) {
        self.segments.insert(segment, Entry { notes_end, end: Some(end), ..Entry::default() });
    }

    /// Learns the room of each segment on the disk.
    pub fn measure<E>(&mut self, bytes_of: impl Fn(u64) -> Result<u64, E>) -> Result<(), E> {
        self.segments.iter_mut().try_for_each(|(segment, entry)| {
            entry.bytes = bytes_of(*segment)?;
            Ok(())
        })
    }

    pub fn add_live(&mut self, segment: u64, bytes: u64) -> bool {
        let Some(entry) = self.segments.get_mut(&segment) else { return false };
        entry.live_bytes += bytes;
        self.live_bytes += bytes;
        true
    }

    /// A note was reserved.
    pub fn add_note(&mut self, segment: u64, sequence: Sequence) {
        if let Some(entry) = self.segments.get_mut(&segment) {
            entry.notes_end = sequence.next();
        }
    }

    /// No more records are added to a segment.
    pub fn seal(&mut self, segment: u64, end: Sequence, durable: Sequence) {
        if let Some(entry) = self.segments.get_mut(&segment) {
            entry.end = Some(end);
        }
        self.consider(segment, durable);
    }

    /// `bytes` at `position` are dead by something that is reserved before `next`.
    pub fn release(
        &mut self,
        position: LogPosition,
        bytes: u64,
        next: Sequence,
        durable: Sequence,
    ) -> Result<(), LogError> {
        let entry = self.segments.get_mut(&position.segment).ok_or(LogError::NotLive(position))?;
        entry.live_bytes = entry.live_bytes.checked_sub(bytes).ok_or(LogError::NotLive(position))?;
        entry.dead_by = next;
        self.live_bytes -= bytes;
        self.consider(position.segment, durable);
        Ok(())
    }

    /// A checkpoint stands for all records below `up_to`.
    pub fn set_checkpoint(&mut self, up_to: Sequence, durable: Sequence) {
        self.checkpoint = up_to;
        self.consider_all(durable);
    }

    pub fn consider_all(&mut self, durable: Sequence) {
        for segment in self.segments.keys().copied().collect::<Vec<_>>() {
            self.consider(segment, durable);
        }
    }

    /// Everything below `durable` is on stable storage.
    pub fn committed(&mut self, durable: Sequence) {
        while let Some(&(needed, segment)) = self.awaiting.first().filter(|(needed, _)| *needed <= durable) {
            self.awaiting.remove(&(needed, segment));
            self.consider(segment, durable);
        }
    }

    fn consider(&mut self, segment: u64, durable: Sequence) {
        let Some(entry) = self.segments.get(&segment) else { return };
        let Some(end) = entry.end.filter(|_| entry.live_bytes == 0 && entry.notes_end <= self.checkpoint) else {
            return;
        };
        let needed = end.max(entry.dead_by);
        if needed > durable {
            self.awaiting.insert((needed, segment));
        } else {
            self.freed.push(Freed { segment, bytes: entry.bytes });
            self.segments.remove(&segment);
        }
    }

    /// Segments that may be removed now; the caller removes them.
    pub fn take_freed(&mut self) -> Vec<Freed> {
        std::mem::take(&mut self.freed)
    }

    /// The end of the records to commit, so that all segments are freed that lack only that.
    pub fn awaited(&self) -> Option<Sequence> {
        self.awaiting.last().map(|(needed, _)| *needed)
    }

    pub fn has_freed(&self) -> bool {
        !self.freed.is_empty()
    }

    /// Whether the segment is there and not freed.
    pub fn contains(&self, segment: u64) -> bool {
        self.segments.contains_key(&segment)
    }

    /// The room of segments with records on the disk.
    pub fn disk_bytes(&self) -> u64 {
        self.segments.values().map(|entry| entry.bytes).sum()
    }

    pub fn live_by_segment(&self) -> Vec<(u64, u64)> {
        self.segments.iter().map(|(segment, entry)| (*segment, entry.live_bytes)).collect()
    }

    pub fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    /// The room on the disk of sealed segments that only notes keep.
    pub fn kept_by_notes_bytes(&self) -> u64 {
        let kept = |entry: &&Entry| entry.end.is_some() && entry.live_bytes == 0 && entry.notes_end > self.checkpoint;
        self.segments.values().filter(kept).map(|entry| entry.bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: LogPosition = LogPosition { segment: 1, offset: 0 };
    const FREED: Freed = Freed { segment: 1, bytes: 4096 };

    fn sealed(notes_end: u64) -> Usage {
        let mut usage = Usage::new(Sequence(0));
        usage.begin(1, 4096);
        assert!(usage.add_live(1, 100) && !usage.add_live(2, 1));
        if notes_end > 0 {
            usage.add_note(1, Sequence(notes_end - 1));
        }
        usage.seal(1, Sequence(10), Sequence(10));
        usage
    }

    #[test]
    fn a_segment_goes_when_all_of_it_is_released() {
        let mut usage = sealed(0);
        usage.release(AT, 40, Sequence(10), Sequence(10)).unwrap();
        assert!(!usage.has_freed());
        usage.release(AT, 60, Sequence(10), Sequence(10)).unwrap();
        assert_eq!(usage.take_freed(), [FREED]);
        assert_eq!((usage.disk_bytes(), usage.has_freed()), (0, false));
    }

    #[test]
    fn commits_that_make_bytes_dead_are_durable_before_these_go() {
        let mut usage = sealed(0);
        usage.release(AT, 100, Sequence(12), Sequence(10)).unwrap();
        usage.committed(Sequence(11));
        assert!(!usage.has_freed(), "the record that took its place may yet be lost");
        usage.committed(Sequence(12));
        assert_eq!(usage.take_freed(), [FREED]);
    }

    #[test]
    fn notes_keep_it_until_a_checkpoint_stands_for_them() {
        let mut usage = sealed(8);
        usage.release(AT, 100, Sequence(10), Sequence(10)).unwrap();
        assert_eq!((usage.has_freed(), usage.kept_by_notes_bytes()), (false, 4096));
        usage.set_checkpoint(Sequence(7), Sequence(10));
        assert!(!usage.has_freed());
        usage.set_checkpoint(Sequence(8), Sequence(10));
        assert_eq!(usage.take_freed(), [FREED]);
    }

    #[test]
    fn an_open_segment_stays() {
        let mut usage = Usage::new(Sequence(0));
        usage.begin(1, 4096);
        usage.add_live(1, 5);
        usage.release(AT, 5, Sequence(3), Sequence(3)).unwrap();
        assert!(!usage.has_freed());
        usage.seal(1, Sequence(4), Sequence(4));
        assert!(usage.has_freed());
    }

    #[test]
    fn more_than_is_live_is_not_released() {
        let mut usage = sealed(0);
        assert_eq!(usage.release(AT, 101, Sequence(10), Sequence(10)), Err(LogError::NotLive(AT)));
        assert_eq!(usage.live_bytes(), 100);
        let gone = LogPosition { segment: 9, offset: 0 };
        assert_eq!(usage.release(gone, 1, Sequence(10), Sequence(10)), Err(LogError::NotLive(gone)));
    }
}
