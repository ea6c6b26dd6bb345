//! Recovery: the records of a store after its daemon, or its node, has died.
//!
//! Every head says up to which record the log was on stable storage when it was made. So the last head tells from where on
//! records may be missing. Records before that are there; their contents are verified when they are read. From there on
//! every record's contents are verified now. After the death of a daemon no record is lost. A torn record had no writer
//! left who could have said that it is complete, and those behind it count. After the loss of power any page may be
//! missing. The log ends with the first record that is, so no record is there without all those before it.
//!
//! Records that are not yielded become pads or are cut off (`repair`). Yielded records are on stable storage before the log
//! goes on, so the next recovery finds the same. The log goes on in a new segment; a place is never written twice.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use bytes::Bytes;
use forebay_types::LogPosition;
use forebay_wire::log_record::{RecordData, RecordHead, RecordKind, Sequence};
use rustix::fs::OFlags;

use crate::StoreError;
use crate::checkpoint::{self, Checkpoint};
use crate::directory::CHECKPOINT;
use crate::repair::{Gap, Repairs};
use crate::scan::{Scanned, Step};
use crate::store::{Owner, Settings, Store};

/// A store that is being read from its checkpoint on. `next` until `None`, then `finish`.
pub struct Recovery {
    pub(crate) store: Store,
    checkpoint: Option<Checkpoint>,
    /// All records below it were on stable storage.
    durable: Sequence,
    /// The next number without a record.
    pub(crate) next_sequence: Sequence,
    /// The segment that is read, as an index of the store's, with what is read of it.
    segment: usize,
    reading: Option<Reading>,
    /// A record that comes after the damage before it.
    put_back: Option<RecordHead>,
    /// Behind the last record that counts.
    expected: Sequence,
    /// Gaps since then.
    gaps: Vec<Gap>,
    pub(crate) repairs: Repairs,
    /// Of each segment, what is behind its last note.
    pub(crate) notes_end: BTreeMap<u64, Sequence>,
    /// Segments with records that may not be on stable storage.
    pub(crate) unsynced: BTreeSet<u64>,
}

/// A record that counts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recovered {
    /// Where it lies.
    pub position: LogPosition,
    /// Its number.
    pub sequence: Sequence,
    /// Its contents.
    pub record: RecoveredRecord,
}

/// The contents of a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RecoveredRecord {
    /// Bytes of a file, to be read by the record's position.
    Data {
        /// Whose they are.
        data: RecordData,
        /// How many.
        bytes: u32,
    },
    /// A note.
    Note(Bytes),
    /// The device has lost what was on stable storage: a note, or, by the sequences, any records. The position is where they
    /// lay, the sequence that of the first one.
    Damaged,
}

/// A segment that is read.
struct Reading {
    scanned: Scanned,
    offset: u32,
    /// By its index: no record of it can be missing.
    indexed: Option<std::vec::IntoIter<RecordHead>>,
}

impl Recovery {
    /// Opens the store at `path` for a job, or creates it, and locks it for as long as the recovery and the log live.
    ///
    /// # Errors
    /// `StoreError` for a store that is another's, another version's, in use, spoiled, too small or in the wrong place.
    pub fn open(path: &Path, owner: &Owner, settings: &Settings) -> Result<Self, StoreError> {
        let store = Store::open(path, owner, settings)?;
        let bytes = store.directory.read(CHECKPOINT, checkpoint::file_bytes_max());
        let bytes = bytes.map_err(|error| StoreError::io("read the checkpoint of", path, error))?;
        let checkpoint = bytes.map(|bytes| checkpoint::decode(bytes, store.head.identity)).transpose();
        let broken = |problem| StoreError::Broken { path: path.to_owned(), file: CHECKPOINT, problem };
        let checkpoint = checkpoint.map_err(broken)?;
        let up_to = checkpoint.as_ref().map_or(Sequence(1), |checkpoint| checkpoint.up_to);
        let mut recovery = Self {
            store,
            checkpoint,
            durable: up_to,
            next_sequence: up_to,
            segment: 0,
            reading: None,
            put_back: None,
            expected: up_to,
            gaps: Vec::new(),
            repairs: Repairs::default(),
            notes_end: BTreeMap::new(),
            unsynced: BTreeSet::new(),
        };
        recovery.find_end()?;
        recovery.find_start(up_to)?;
        Ok(recovery)
    }

    /// The last checkpoint.
    #[must_use]
    pub fn checkpoint(&self) -> Option<&Checkpoint> {
        self.checkpoint.as_ref()
    }

    /// A random number of the store's own.
    #[must_use]
    pub fn identity(&self) -> u64 {
        self.store.head.identity.0
    }

    /// Whether the store has a segment.
    #[must_use]
    pub fn holds(&self, segment: u64) -> bool {
        self.store.segments.contains(&segment)
    }

    /// Whether the machine has been started anew since the store was opened last, so that what was not synced may be lost.
    #[must_use]
    pub fn is_of_another_boot(&self) -> bool {
        !self.store.is_same_boot
    }

    /// Whether the log goes on with a segment; known when all records have been taken.
    #[must_use]
    pub fn keeps(&self, segment: u64) -> bool {
        self.holds(segment) && !self.repairs.removed.contains(&segment)
    }

    /// The last record tells from where on records may be missing. So does a segment that is missing: it was freed, and so
    /// was on stable storage with all before it, also where no head was made since to say so.
    fn find_end(&mut self) -> Result<(), StoreError> {
        for index in (0..self.store.segments.len()).rev() {
            let mut scanned = self.scan(index)?;
            let last = last_record(&mut scanned).map_err(|error| self.unreadable(error))?;
            if let Some(last) = last {
                self.durable = self.durable.max(last.durable);
                self.next_sequence = self.next_sequence.max(last.sequence.next());
                break;
            }
        }
        let mut missing = 1;
        for index in 0..self.store.segments.len() {
            let number = self.store.segments[index];
            if number > missing {
                let begin = self.scan(index)?.head_at(0).map_err(|error| self.unreadable(error))?;
                self.durable = self.durable.max(begin.map_or(Sequence(0), |begin| begin.sequence));
            }
            missing = number + 1;
        }
        Ok(())
    }

    /// The last segment that begins with or before the first record that is wanted.
    fn find_start(&mut self, up_to: Sequence) -> Result<(), StoreError> {
        for index in (0..self.store.segments.len()).rev() {
            let begin = self.scan(index)?.head_at(0).map_err(|error| self.unreadable(error))?;
            if begin.is_some_and(|begin| begin.kind == RecordKind::Begin && begin.sequence <= up_to) {
                self.segment = index;
                break;
            }
        }
        self.expected = Sequence(0);
        Ok(())
    }

    fn scan(&self, index: usize) -> Result<Scanned, StoreError> {
        let (number, head) = (self.store.segments[index], &self.store.head);
        let file = self.store.directory.open_segment(number, OFlags::RDONLY);
        let scanned = file.and_then(|file| Scanned::new(file, number, head.identity, head.segment_bytes));
        scanned.map_err(|error| self.unreadable(error))
    }

    fn unreadable(&self, error: std::io::Error) -> StoreError {
        StoreError::io("read a segment of", self.store.directory.path(), error)
    }

    /// The next record from the checkpoint on, in the order of sequences; `None` after the last one.
    ///
    /// # Errors
    /// `Io` when the device does not give what it holds.
    #[allow(clippy::should_implement_trait, reason = "it can fail, and `finish` needs it by value afterwards")]
    pub fn next(&mut self) -> Result<Option<Recovered>, StoreError> {
        while let Some(step) = self.step()? {
            match step {
                Step::Gap(start, end) => {
                    let segment = self.store.segments[self.segment];
                    self.gaps.push(Gap { segment, start, end });
                }
                Step::Record(head) => {
                    if let Some(damaged) = self.damage_before(&head) {
                        self.put_back = Some(head);
                        return Ok(Some(damaged));
                    }
                    if let Some(recovered) = self.take(&head)? {
                        return Ok(Some(recovered));
                    }
                }
            }
        }
        if !self.store.is_same_boot
            && let Some(Gap { segment, start, .. }) = self.gaps.first()
        {
            self.cut(LogPosition { segment: *segment, offset: *start });
        }
        self.repairs.close(&std::mem::take(&mut self.gaps), self.store.head.segment_bytes);
        Ok(None)
    }

    /// The next step in the segments that are left.
    fn step(&mut self) -> Result<Option<Step>, StoreError> {
        if let Some(head) = self.put_back.take() {
            return Ok(Some(Step::Record(head)));
        }
        while self.segment < self.store.segments.len() {
            let mut reading = match self.reading.take() {
                Some(reading) => reading,
                None => self.begin_reading()?,
            };
            if let Some(step) = reading.step().map_err(|error| self.unreadable(error))? {
                self.reading = Some(reading);
                return Ok(Some(step));
            }
            self.segment += 1;
        }
        Ok(None)
    }

    fn begin_reading(&self) -> Result<Reading, StoreError> {
        let mut scanned = self.scan(self.segment)?;
        let index = scanned.index().map_err(|error| self.unreadable(error))?;
        let indexed = index.filter(|(_, index)| index.sequence < self.durable).map(|(mut heads, index)| {
            heads.push(index);
            heads.into_iter()
        });
        Ok(Reading { scanned, offset: 0, indexed })
    }

    /// Records that were on stable storage and that the device has lost, between the last record and this one.
    fn damage_before(&mut self, head: &RecordHead) -> Option<Recovered> {
        let was_durable = self.expected > Sequence(0) && self.expected < self.durable.min(head.sequence);
        let gap = self.gaps.first().filter(|_| was_durable && head.kind != RecordKind::Pad)?;
        let position = LogPosition { segment: gap.segment, offset: gap.start };
        let damaged = Recovered { position, sequence: self.expected, record: RecoveredRecord::Damaged };
        self.gaps.clear();
        Some(damaged)
    }

    /// Takes a record in; `None` if it does not count, or lies below the checkpoint.
    fn take(&mut self, head: &RecordHead) -> Result<Option<Recovered>, StoreError> {
        if head.kind == RecordKind::Pad {
            return Ok(None);
        }
        let contents = if head.sequence < self.durable {
            self.gaps.clear();
            None
        } else {
            match self.take_uncommitted(head)? {
                Some(contents) => Some(contents),
                None => return Ok(None),
            }
        };
        self.expected = head.sequence.next();
        if head.kind == RecordKind::Note {
            self.notes_end.insert(head.position.segment, head.sequence.next());
        }
        let is_wanted = self.checkpoint.as_ref().is_none_or(|checkpoint| head.sequence >= checkpoint.up_to);
        if is_wanted { self.yielded(head, contents) } else { Ok(None) }
    }

    /// The contents of a record that may have been lost, if it counts.
    fn take_uncommitted(&mut self, head: &RecordHead) -> Result<Option<Vec<u8>>, StoreError> {
        let position = head.position;
        self.unsynced.insert(position.segment);
        let is_next = head.sequence == self.expected.max(self.durable);
        if !self.store.is_same_boot && !is_next {
            self.cut(position);
            return Ok(None);
        }
        let contents = self.contents(head)?;
        if contents.is_none() && !self.store.is_same_boot {
            self.cut(position);
            return Ok(None);
        }
        self.repairs.close(&std::mem::take(&mut self.gaps), self.store.head.segment_bytes);
        if contents.is_some() && head.kind == RecordKind::Index {
            self.repairs.add_index(position);
        }
        if contents.is_none() {
            let end = head.end().unwrap_or(position.offset);
            self.gaps.push(Gap { segment: position.segment, start: position.offset, end });
        }
        Ok(contents)
    }

    /// The log ends before this record: it and all behind it are none. Nor is what has lost its head before it, which is not to be found
    /// by who knows its place.
    fn cut(&mut self, at: LogPosition) {
        let bytes = self.store.head.segment_bytes;
        let at = self.gaps.first().map_or(at, |gap| LogPosition { segment: gap.segment, offset: gap.start });
        let behind = self.store.segments.iter().filter(|segment| **segment > at.segment);
        self.gaps = vec![Gap { segment: at.segment, start: at.offset, end: bytes }];
        self.gaps.extend(behind.map(|segment| Gap { segment: *segment, start: 0, end: bytes }));
        self.segment = self.store.segments.len();
        self.reading = None;
    }

    fn contents(&self, head: &RecordHead) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(reading) = &self.reading else { return Ok(None) };
        reading.scanned.contents(head).map_err(|error| self.unreadable(error))
    }

    fn yielded(&self, head: &RecordHead, contents: Option<Vec<u8>>) -> Result<Option<Recovered>, StoreError> {
        let record = match head.kind {
            RecordKind::Data(data) => RecoveredRecord::Data { data, bytes: head.contents_bytes },
            RecordKind::Note => {
                let contents = contents.map_or_else(|| self.contents(head), |contents| Ok(Some(contents)))?;
                contents.map_or(RecoveredRecord::Damaged, |contents| RecoveredRecord::Note(contents.into()))
            }
            RecordKind::Begin | RecordKind::Pad | RecordKind::Index => return Ok(None),
        };
        Ok(Some(Recovered { position: head.position, sequence: head.sequence, record }))
    }
}

impl Reading {
    fn step(&mut self) -> std::io::Result<Option<Step>> {
        if let Some(heads) = &mut self.indexed {
            return Ok(heads.next().map(Step::Record));
        }
        let step = self.scanned.step(self.offset)?;
        Ok(step.map(|(step, next)| {
            self.offset = next;
            step
        }))
    }
}

/// The last record of a segment, pads aside.
fn last_record(scanned: &mut Scanned) -> std::io::Result<Option<RecordHead>> {
    if let Some((_, index)) = scanned.index()? {
        return Ok(Some(index));
    }
    let (mut offset, mut last) = (0, None);
    while let Some((step, next)) = scanned.step(offset)? {
        offset = next;
        if let Step::Record(head) = step
            && head.kind != RecordKind::Pad
        {
            last = Some(head);
        }
    }
    Ok(last)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::Appended;

    fn open(path: &Path, boot: u8) -> Recovery {
        let settings = Settings { segment_bytes: crate::limits::SEGMENT_BYTES_MIN, ..Settings::new(1 << 20) };
        Recovery::open(path, &Owner::of_test(boot), &settings).unwrap()
    }

    /// Two sealed segments and one more, of a log that never came to commit; and the number of the first.
    fn uncommitted(path: &Path) -> (Vec<Appended>, u64) {
        let log = open(path, 1).finish([]).unwrap();
        let first = log.shared.identity.first_segment();
        while log.shared.lock().ready.len() < 2 {
            std::thread::yield_now();
        }
        // Its threads end: no head will tell of a commit.
        log.shared.lock().is_ending = true;
        log.shared.commit_wanted.notify_all();
        let mut appended = Vec::new();
        while appended.last().is_none_or(|last: &Appended| last.position.segment < first + 2) {
            appended.push(log.append_note(&[1; 1000]).unwrap());
        }
        (appended, first)
    }

    fn found(recovery: &mut Recovery) -> Vec<Appended> {
        let mut found = Vec::new();
        while let Some(Recovered { position, sequence, record }) = recovery.next().unwrap() {
            assert!(matches!(record, RecoveredRecord::Note(_)), "{record:?}");
            found.push(Appended { position, sequence });
        }
        found
    }

    /// A crash comes between the removal of what is not in the log any more, and what the log goes on with.
    #[test]
    fn no_place_is_used_twice() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store");
        let (_, first) = uncommitted(&path);
        for number in first..=first + 2 {
            let segment = path.join(format!("segment-{number:012}"));
            let len = fs::metadata(&segment).unwrap().len();
            fs::write(&segment, vec![0; len as usize]).unwrap();
        }
        let mut recovery = open(&path, 2);
        assert_eq!(found(&mut recovery), []);
        recovery.name_next().unwrap();
        recovery.settle().unwrap();
        drop(recovery);
        let log = open(&path, 2).finish([]).unwrap();
        assert!(log.append_note(b"new").unwrap().position.segment > first + 2);
    }

    #[test]
    fn a_missing_segment_hides_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store");
        let (mut appended, first) = uncommitted(&path);
        fs::remove_file(path.join(format!("segment-{:012}", first + 1))).unwrap();
        appended.retain(|one| one.position.segment != first + 1);
        // No head says that what came before the freed one is durable; that it is missing says it.
        assert_eq!(found(&mut open(&path, 2)), appended);
    }

    /// The index of its segment, which was written, names it too.
    #[test]
    fn a_torn_record_never_comes_back() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store");
        let (mut appended, first) = uncommitted(&path);
        let torn = appended.remove(7).position;
        let segment = path.join(format!("segment-{first:012}"));
        let mut bytes = fs::read(&segment).unwrap();
        bytes[torn.offset as usize + 500..][..500].fill(0);
        fs::write(&segment, bytes).unwrap();
        for boot in [1, 1, 2, 2] {
            let mut recovery = open(&path, boot);
            assert_eq!(found(&mut recovery), appended);
            recovery.finish([]).unwrap();
        }
    }
}
