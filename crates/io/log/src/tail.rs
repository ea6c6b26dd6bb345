//! The end of a log that grows: places for writers, and the records that are complete.
//!
//! A reservation is made under the log's lock and touches no file. It says which bytes go where, and is carried out by the
//! thread that made it, concurrently with others. A record is complete when its writer says so; a commit is for a beginning
//! of the log in which all records are complete.

use std::collections::VecDeque;
use std::fs::File;
use std::sync::Arc;

use forebay_types::LogPosition;
use forebay_wire::log_record::{LogIdentity, RECORD_HEAD_BYTES, RecordHead, RecordKind, Sequence, record_bytes};

const HEAD: u32 = RECORD_HEAD_BYTES as u32;
/// An index ends with its own offset.
const INDEX_TAIL: u32 = 8;

/// A segment with its descriptor, as long as there is something to write or sync.
pub(crate) struct Segment {
    pub number: u64,
    pub file: File,
}

/// The segment that is written, and the number of the next record.
pub(crate) struct Tail {
    identity: LogIdentity,
    pub segment_bytes: u32,
    segment: Arc<Segment>,
    used: u32,
    /// Heads of all records of the segment, encoded, for its index.
    heads: Vec<u8>,
    next: Sequence,
}

/// A record that has its place.
pub(crate) struct Place {
    pub segment: Arc<Segment>,
    pub position: LogPosition,
    pub sequence: Sequence,
    pub head: [u8; RECORD_HEAD_BYTES],
}

/// The end of a segment, to be written.
pub(crate) struct Seal {
    pub segment: Arc<Segment>,
    /// Of its index.
    pub sequence: Sequence,
    identity: LogIdentity,
    segment_bytes: u32,
    used: u32,
    durable: Sequence,
    heads: Vec<u8>,
}

impl Tail {
    /// A log that goes on in an empty segment. Its first record is to be written.
    pub fn begin(
        identity: LogIdentity,
        segment_bytes: u32,
        segment: Arc<Segment>,
        next: Sequence,
        durable: Sequence,
    ) -> (Self, Place) {
        let mut tail = Self { identity, segment_bytes, segment, used: 0, heads: Vec::new(), next };
        let place = tail.place(RecordKind::Begin, 0, crc32c::crc32c(&[]), HEAD, durable);
        (tail, place)
    }

    /// A place for a record; `None` when the segment has none.
    pub fn reserve(
        &mut self,
        kind: RecordKind,
        contents_bytes: u32,
        contents_checksum: u32,
        durable: Sequence,
    ) -> Option<Place> {
        let bytes = record_bytes(contents_bytes)?;
        let index_bytes = HEAD + self.heads.len() as u32 + HEAD + INDEX_TAIL;
        let fits = u64::from(self.used) + u64::from(bytes) + u64::from(index_bytes) <= self.segment_bytes.into();
        fits.then(|| self.place(kind, contents_bytes, contents_checksum, bytes, durable))
    }

    /// About how much the segment has room for.
    pub fn room_bytes(&self) -> u64 {
        let index_bytes = HEAD + self.heads.len() as u32 + HEAD + INDEX_TAIL;
        u64::from(self.segment_bytes).saturating_sub(u64::from(self.used) + u64::from(index_bytes))
    }

    fn place(&mut self, kind: RecordKind, contents: u32, checksum: u32, bytes: u32, durable: Sequence) -> Place {
        let position = LogPosition { segment: self.segment.number, offset: self.used };
        let sequence = self.take_sequence();
        let head =
            RecordHead { kind, position, sequence, durable, contents_bytes: contents, contents_checksum: checksum };
        let head = head.encode(self.identity);
        self.heads.extend_from_slice(&head);
        self.used += bytes;
        Place { segment: Arc::clone(&self.segment), position, sequence, head }
    }

    fn take_sequence(&mut self) -> Sequence {
        let sequence = self.next;
        self.next = sequence.next();
        sequence
    }

    /// Ends the segment and goes on in an empty one.
    pub fn roll(&mut self, segment: Arc<Segment>, durable: Sequence) -> (Seal, Place) {
        let seal = Seal {
            segment: Arc::clone(&self.segment),
            sequence: self.take_sequence(),
            identity: self.identity,
            segment_bytes: self.segment_bytes,
            used: self.used,
            durable,
            heads: std::mem::take(&mut self.heads),
        };
        let (tail, begin) = Self::begin(self.identity, self.segment_bytes, segment, self.next, durable);
        *self = tail;
        (seal, begin)
    }

    pub fn next(&self) -> Sequence {
        self.next
    }

    pub fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }
}

impl Seal {
    /// The writes of a seal: a pad up to the index, where there is room for one, and the index.
    pub fn writes(&self) -> Vec<(u32, Vec<u8>)> {
        let heads_bytes = self.heads.len() as u32;
        let offset = self.segment_bytes - HEAD - heads_bytes - INDEX_TAIL;
        let gap = offset - self.used;
        if gap < HEAD {
            return vec![(self.used, self.index(self.used))];
        }
        let pad = self.head(RecordKind::Pad, self.used, gap - HEAD, 0);
        vec![(self.used, pad.to_vec()), (offset, self.index(offset))]
    }

    fn index(&self, offset: u32) -> Vec<u8> {
        let mut contents = self.heads.clone();
        contents.resize((self.segment_bytes - offset - HEAD - INDEX_TAIL) as usize, 0);
        contents.extend_from_slice(&u64::from(offset).to_le_bytes());
        let head = self.head(RecordKind::Index, offset, contents.len() as u32, crc32c::crc32c(&contents));
        [&head[..], &contents].concat()
    }

    fn head(
        &self,
        kind: RecordKind,
        offset: u32,
        contents_bytes: u32,
        contents_checksum: u32,
    ) -> [u8; RECORD_HEAD_BYTES] {
        let position = LogPosition { segment: self.segment.number, offset };
        let (sequence, durable) = (self.sequence, self.durable);
        RecordHead { kind, position, sequence, durable, contents_bytes, contents_checksum }.encode(self.identity)
    }
}

/// Which records are complete. At most as many are open as threads write.
pub(crate) struct Completion {
    /// All records below it are complete.
    base: Sequence,
    /// Of those from there on, whether they are.
    done: VecDeque<bool>,
}

impl Completion {
    pub fn new(base: Sequence) -> Self {
        Self { base, done: VecDeque::new() }
    }

    pub fn complete(&mut self, sequence: Sequence) {
        let index = (sequence.0 - self.base.0) as usize;
        if index >= self.done.len() {
            self.done.resize(index + 1, false);
        }
        self.done[index] = true;
        while self.done.front() == Some(&true) {
            self.done.pop_front();
            self.base = self.base.next();
        }
    }

    /// All records below it are complete.
    pub fn base(&self) -> Sequence {
        self.base
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complete_is_what_has_no_gap_before_it() {
        let mut completion = Completion::new(Sequence(5));
        completion.complete(Sequence(7));
        completion.complete(Sequence(6));
        assert_eq!(completion.base(), Sequence(5));
        completion.complete(Sequence(5));
        assert_eq!(completion.base(), Sequence(8));
    }

    /// Whatever the lengths, records, pad and index fill a segment to its last byte without touching each other.
    #[test]
    fn a_segment_is_filled_to_its_end() {
        let file = || File::open("/dev/null").unwrap();
        for length in [0, 1, 8, 100, 1000, 3333] {
            let segment = Arc::new(Segment { number: 1, file: file() });
            let (mut tail, begin) = Tail::begin(LogIdentity(1), 4096, segment, Sequence(1), Sequence(1));
            let mut places = vec![begin];
            while let Some(place) = tail.reserve(RecordKind::Note, length, 0, Sequence(1)) {
                places.push(place);
            }
            let (seal, begin) = tail.roll(Arc::new(Segment { number: 2, file: file() }), Sequence(1));
            assert_eq!(begin.position, LogPosition { segment: 2, offset: 0 });
            let mut at = 0;
            for place in &places {
                let head = RecordHead::decode(&place.head, LogIdentity(1), place.position, 4096).unwrap();
                assert_eq!(head.position.offset, at);
                at = head.end().unwrap();
            }
            let mut writes = seal.writes();
            let (offset, index) = writes.pop().unwrap();
            if let Some((pad, _)) = writes.pop() {
                assert_eq!(pad, at);
                at = offset;
            }
            assert_eq!((offset, offset as usize + index.len()), (at, 4096));
            let heads: Vec<u8> = places.iter().flat_map(|place| place.head).collect();
            assert!(index[RECORD_HEAD_BYTES..].starts_with(&heads));
        }
    }
}
