//! A record of a node's log, as it lies in a segment.
//!
//! Little endian, at an offset that is a multiple of 8:
//!
//! ```text
//!  0  checksum           u32   crc32c of bytes 4 to 71
//!  4  kind               u8    1 begin, 2 written, 3 note, 4 pad, 5 index, 6 appended, 7 copy
//!  5  is_copied          u8    1 if the node's partner is to copy it; zero unless written or appended
//!  6  zero               [u8; 2]
//!  8  identity           u64   of the log, random
//! 16  segment            u64   where this record lies
//! 24  offset             u32   in the segment, bytes
//! 28  contents_bytes     u32
//! 32  contents_checksum  u32   crc32c of the contents; zero for a pad
//! 36  creator            u32   of the file; of a copy, the node of whose log it is; zero unless data
//! 40  sequence           u64   from 1, one more with each record; a pad has that of the record before it
//! 48  durable            u64   records below this sequence were on stable storage when this one was made
//! 56  serial             u64   of the file; of a copy, the segment that it is from; zero unless data
//! 64  offset             u64   of what was written in the file, of a copy in its segment, bytes; else zero
//! 72  contents           [u8; contents_bytes], then what is missing to a multiple of 8
//! ```
//!
//! A head says which log it belongs to and where it lies. If a program copies a log into a file of the burst tier, and
//! so into a log, the copied heads are never taken for records. So a reader that finds no record where one should begin
//! may look for the next one behind it.
//!
//! An index ends its segment: its contents are the heads of all records before it, then zeros, then its own offset as a u64
//! in the segment's last 8 bytes, so that a segment is indexed by reading its end.

use forebay_types::LogPosition;
use thiserror::Error;

use crate::record_data::Fields;
pub use crate::record_data::RecordData;

/// Bytes of a record's head.
pub const RECORD_HEAD_BYTES: usize = 72;

/// Records begin at multiples of this, bytes.
pub const RECORD_ALIGN_BYTES: u32 = 8;

/// The longest contents of a data record or a note: above the longest WRITE of a kernel (1 MiB), far below a segment.
pub const RECORD_CONTENTS_BYTES_MAX: u32 = 8 << 20;

/// The number of a record in its log, from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Sequence(pub u64);

impl Sequence {
    /// Above those of all logs: 146 years pass before a record a nanosecond gets there.
    pub const END: Self = Self(1 << 62);

    /// The next record's.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// Which log a record belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LogIdentity(pub u64);

/// Above the numbers of all segments.
pub const SEGMENTS_END: u64 = 1 << (NUMBERED_BITS + SEGMENTS_BITS);

/// Numbers of segments that each log has for itself: with segments of 64 MiB, those of 1 PiB.
const SEGMENTS_BITS: u32 = 24;

/// The bits of an identity that its segments' numbers begin with.
const NUMBERED_BITS: u32 = 38;

impl LogIdentity {
    /// The number of a log's first segment: random, and far from that of any other log. So a place in one log is none in another.
    /// A node that knows the place of a record in a store that is gone finds no other record there.
    #[must_use]
    pub fn first_segment(self) -> u64 {
        (self.0 & ((1 << NUMBERED_BITS) - 1)) << SEGMENTS_BITS | 1
    }
}

/// The kinds of records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordKind {
    /// The first record of every segment, without contents.
    Begin,
    /// Bytes of a file.
    Data(RecordData),
    /// Bytes that mean something to the write core only.
    Note,
    /// Bytes to be passed over.
    Pad,
    /// The heads of all records of its segment.
    Index,
}

/// The head before a record's contents.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordHead {
    /// Its kind.
    pub kind: RecordKind,
    /// Where it lies.
    pub position: LogPosition,
    /// Its number.
    pub sequence: Sequence,
    /// Records below this one were on stable storage when it was made.
    pub durable: Sequence,
    /// Bytes of its contents.
    pub contents_bytes: u32,
    /// crc32c of its contents.
    pub contents_checksum: u32,
}

/// Why bytes are not the head of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum RecordError {
    /// They belong to another log or another place, or are anything else.
    #[error("no record of this log begins here")]
    Absent,
    /// They begin a record here, and some of them have changed.
    #[error("the head of the record has a wrong checksum")]
    Checksum,
    /// The checksum is right and what they say is impossible.
    #[error("the head of the record makes no sense: {0}")]
    Malformed(&'static str),
}

impl RecordHead {
    /// The bytes of a head of log `identity`.
    #[must_use]
    pub fn encode(&self, identity: LogIdentity) -> [u8; RECORD_HEAD_BYTES] {
        let mut bytes = [0; RECORD_HEAD_BYTES];
        let without_data = |kind| Fields { kind, is_copied: false, creator: 0, serial: 0, offset: 0 };
        let fields = match self.kind {
            RecordKind::Begin => without_data(1),
            RecordKind::Data(data) => data.fields(),
            RecordKind::Note => without_data(3),
            RecordKind::Pad => without_data(4),
            RecordKind::Index => without_data(5),
        };
        (bytes[4], bytes[5]) = (fields.kind, fields.is_copied.into());
        bytes[8..16].copy_from_slice(&identity.0.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.position.segment.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.position.offset.to_le_bytes());
        bytes[28..32].copy_from_slice(&self.contents_bytes.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.contents_checksum.to_le_bytes());
        bytes[36..40].copy_from_slice(&fields.creator.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.sequence.0.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.durable.0.to_le_bytes());
        bytes[56..64].copy_from_slice(&fields.serial.to_le_bytes());
        bytes[64..72].copy_from_slice(&fields.offset.to_le_bytes());
        let checksum = crc32c::crc32c(&bytes[4..]);
        bytes[..4].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads the head of log `identity` that must lie at `position` of a segment of `segment_bytes`. The record then ends
    /// within the segment.
    ///
    /// # Errors
    /// `RecordError` for any other bytes.
    pub fn decode(
        bytes: &[u8; RECORD_HEAD_BYTES],
        identity: LogIdentity,
        position: LogPosition,
        segment_bytes: u32,
    ) -> Result<Self, RecordError> {
        if !is_placed(bytes, identity, position) {
            return Err(RecordError::Absent);
        }
        if crc32c::crc32c(&bytes[4..]) != word(bytes, 0) {
            return Err(RecordError::Checksum);
        }
        let head = Self {
            kind: kind_of(bytes)?,
            position,
            sequence: Sequence(long(bytes, 40)),
            durable: Sequence(long(bytes, 48)),
            contents_bytes: word(bytes, 28),
            contents_checksum: word(bytes, 32),
        };
        head.check(segment_bytes)?;
        Ok(head)
    }

    fn check(&self, segment_bytes: u32) -> Result<(), RecordError> {
        let Some(end) = self.end() else { return Err(RecordError::Malformed("its length")) };
        if end > segment_bytes {
            return Err(RecordError::Malformed("it ends behind its segment"));
        }
        let is_limited = matches!(self.kind, RecordKind::Data(_) | RecordKind::Note);
        if is_limited && self.contents_bytes > RECORD_CONTENTS_BYTES_MAX {
            return Err(RecordError::Malformed("its length is above the limit"));
        }
        if self.kind == RecordKind::Begin && (self.contents_bytes, self.position.offset) != (0, 0) {
            return Err(RecordError::Malformed("it begins a segment and stands elsewhere, or has contents"));
        }
        // A recovery cuts a segment where its index begins.
        if self.kind == RecordKind::Index && end != segment_bytes {
            return Err(RecordError::Malformed("it is an index and does not end its segment"));
        }
        if let RecordKind::Data(RecordData::Written { offset, .. }) = self.kind
            && offset.checked_add(self.contents_bytes.into()).is_none()
        {
            return Err(RecordError::Malformed("it ends behind any file"));
        }
        if self.sequence >= Sequence::END {
            return Err(RecordError::Malformed("no log has so many records"));
        }
        if self.durable > self.sequence {
            return Err(RecordError::Malformed("it was durable before it was made"));
        }
        Ok(())
    }

    /// Offset of the first byte behind the record; `None` when there is no such offset.
    #[must_use]
    pub fn end(&self) -> Option<u32> {
        self.position.offset.checked_add(record_bytes(self.contents_bytes)?)
    }

    /// Offset of its contents in the segment.
    #[must_use]
    pub fn contents_offset(&self) -> u32 {
        self.position.offset + RECORD_HEAD_BYTES as u32
    }

    /// Whether these are its contents.
    #[must_use]
    pub fn fits(&self, contents: &[u8]) -> bool {
        contents.len() == self.contents_bytes as usize && crc32c::crc32c(contents) == self.contents_checksum
    }
}

/// Bytes that a record with so many bytes of contents takes; `None` for more than 4 GiB.
#[must_use]
pub fn record_bytes(contents_bytes: u32) -> Option<u32> {
    contents_bytes.checked_add(RECORD_HEAD_BYTES as u32)?.checked_next_multiple_of(RECORD_ALIGN_BYTES)
}

/// Whether a head with these bytes could be one of this log at this place: cheap, before anything else is looked at.
#[must_use]
pub fn is_placed(bytes: &[u8; RECORD_HEAD_BYTES], identity: LogIdentity, position: LogPosition) -> bool {
    long(bytes, 8) == identity.0 && long(bytes, 16) == position.segment && word(bytes, 24) == position.offset
}

fn kind_of(bytes: &[u8; RECORD_HEAD_BYTES]) -> Result<RecordKind, RecordError> {
    if bytes[5] > 1 || bytes[6..8] != [0; 2] {
        return Err(RecordError::Malformed("bytes that must be zero are not"));
    }
    let fields = Fields {
        kind: bytes[4],
        is_copied: bytes[5] == 1,
        creator: word(bytes, 36),
        serial: long(bytes, 56),
        offset: long(bytes, 64),
    };
    if let Some(data) = RecordData::of(&fields).map_err(RecordError::Malformed)? {
        return Ok(RecordKind::Data(data));
    }
    let kind = match fields.kind {
        1 => RecordKind::Begin,
        3 => RecordKind::Note,
        4 => RecordKind::Pad,
        5 => RecordKind::Index,
        _ => return Err(RecordError::Malformed("its kind is unknown")),
    };
    if (fields.is_copied, fields.creator, fields.serial, fields.offset) == (false, 0, 0, 0) {
        Ok(kind)
    } else {
        Err(RecordError::Malformed("it names a file and holds no data"))
    }
}

fn word(bytes: &[u8; RECORD_HEAD_BYTES], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn long(bytes: &[u8; RECORD_HEAD_BYTES], at: usize) -> u64 {
    u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32
}

#[cfg(test)]
mod tests {
    use forebay_types::{FileId, NodeRank};
    use proptest::prelude::*;

    use super::*;

    const LOG: LogIdentity = LogIdentity(0x1234_5678_9abc_def0);

    #[test]
    fn no_log_has_the_segments_of_another() {
        let last = |identity: u64| LogIdentity(identity).first_segment() + (1 << 24) - 2;
        assert!(last(7) < LogIdentity(8).first_segment());
        assert!(last(u64::MAX) < SEGMENTS_END);
        assert_ne!(LogIdentity(0).first_segment(), 0, "a number that is missing tells of a segment that was freed");
    }
    const SEGMENT_BYTES: u32 = 64 << 20;

    fn kinds() -> impl Strategy<Value = RecordKind> {
        prop_oneof![
            Just(RecordKind::Note),
            Just(RecordKind::Pad),
            Just(RecordKind::Index),
            (any::<u32>(), any::<u64>(), 0..u64::MAX / 2, any::<bool>()).prop_map(
                |(creator, serial, offset, is_copied)| {
                    let file = FileId { creator: NodeRank(creator), serial };
                    RecordKind::Data(RecordData::Written { file, offset, is_copied })
                }
            ),
            (any::<u32>(), any::<u64>(), any::<bool>()).prop_map(|(creator, serial, is_copied)| {
                let file = FileId { creator: NodeRank(creator), serial };
                RecordKind::Data(RecordData::Appended { file, is_copied })
            }),
            (any::<u32>(), any::<u64>(), any::<u32>()).prop_map(|(of, segment, offset)| {
                RecordKind::Data(RecordData::Copy { of: NodeRank(of), from: LogPosition { segment, offset } })
            }),
        ]
    }

    fn heads() -> impl Strategy<Value = RecordHead> {
        (kinds(), any::<u64>(), 0..1u32 << 20, 0..1u64 << 40, 0..1u32 << 20, any::<u32>()).prop_map(
            |(kind, segment, eighth, sequence, contents_bytes, contents_checksum)| {
                let offset = eighth * RECORD_ALIGN_BYTES;
                let to_end = SEGMENT_BYTES - offset - RECORD_HEAD_BYTES as u32;
                RecordHead {
                    kind,
                    position: LogPosition { segment, offset },
                    sequence: Sequence(sequence),
                    durable: Sequence(sequence / 2),
                    contents_bytes: if kind == RecordKind::Index { to_end } else { contents_bytes },
                    contents_checksum,
                }
            },
        )
    }

    proptest! {
        #[test]
        fn a_head_comes_back_as_it_was(head in heads()) {
            let bytes = head.encode(LOG);
            prop_assert_eq!(RecordHead::decode(&bytes, LOG, head.position, SEGMENT_BYTES), Ok(head));
        }

        #[test]
        fn every_changed_bit_is_noticed(head in heads(), bit in 0..RECORD_HEAD_BYTES * 8) {
            let mut bytes = head.encode(LOG);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(RecordHead::decode(&bytes, LOG, head.position, SEGMENT_BYTES).is_err());
        }

        #[test]
        fn a_copy_elsewhere_is_no_record(head in heads(), by in 1..1000u32) {
            let bytes = head.encode(LOG);
            let LogPosition { segment, offset } = head.position;
            let elsewhere = [
                (LOG, LogPosition { segment, offset: offset + by * RECORD_ALIGN_BYTES }),
                (LOG, LogPosition { segment: segment.wrapping_add(by.into()), offset }),
                (LogIdentity(LOG.0 ^ 1), head.position),
            ];
            for (identity, position) in elsewhere {
                let decoded = RecordHead::decode(&bytes, identity, position, SEGMENT_BYTES);
                prop_assert_eq!(decoded, Err(RecordError::Absent));
            }
        }
    }

    /// Changes a good head and makes its checksum right again.
    fn decoded_after(change: impl FnOnce(&mut [u8; RECORD_HEAD_BYTES])) -> Result<RecordHead, RecordError> {
        let position = LogPosition { segment: 3, offset: 0 };
        let (sequence, durable) = (Sequence(9), Sequence(4));
        let good =
            RecordHead { kind: RecordKind::Note, position, sequence, durable, contents_bytes: 9, contents_checksum: 1 };
        let mut bytes = good.encode(LOG);
        change(&mut bytes);
        let checksum = crc32c::crc32c(&bytes[4..]);
        bytes[..4].copy_from_slice(&checksum.to_le_bytes());
        RecordHead::decode(&bytes, LOG, position, SEGMENT_BYTES)
    }

    #[test]
    fn invalid_records_with_a_right_checksum_are_refused() {
        assert!(decoded_after(|_| ()).is_ok());
        let set =
            |at: usize, value: u64| decoded_after(move |bytes| bytes[at..at + 8].copy_from_slice(&value.to_le_bytes()));
        let senseless = [
            decoded_after(|bytes| bytes[4] = 0),
            decoded_after(|bytes| bytes[4] = 8),
            decoded_after(|bytes| bytes[4] = 1),
            decoded_after(|bytes| bytes[6] = 1),
            decoded_after(|bytes| bytes[28..32].copy_from_slice(&u32::MAX.to_le_bytes())),
            decoded_after(|bytes| bytes[28..32].copy_from_slice(&SEGMENT_BYTES.to_le_bytes())),
            decoded_after(|bytes| bytes[28..32].copy_from_slice(&(RECORD_CONTENTS_BYTES_MAX + 1).to_le_bytes())),
            set(48, 10),
            set(40, 1 << 62),
            decoded_after(|bytes| bytes[4] = 5),
            set(40, u64::MAX),
            set(56, 1),
            set(64, 1),
            decoded_after(|bytes| {
                bytes[4] = 2;
                bytes[64..72].copy_from_slice(&u64::MAX.to_le_bytes());
            }),
            // It is appended and has an offset; it is a copy and is to be copied, or of no segment; it is no data and is to be copied.
            decoded_after(|bytes| (bytes[4], bytes[64]) = (6, 1)),
            decoded_after(|bytes| bytes[4..6].copy_from_slice(&[7, 1])),
            decoded_after(|bytes| (bytes[4], bytes[70]) = (7, 1)),
            decoded_after(|bytes| bytes[5] = 1),
        ];
        for decoded in senseless {
            assert!(matches!(decoded, Err(RecordError::Malformed(_))), "{decoded:?}");
        }
    }

    #[test]
    fn lengths_are_rounded_up_and_never_overflow() {
        assert_eq!((record_bytes(0), record_bytes(1), record_bytes(8)), (Some(72), Some(80), Some(80)));
        assert_eq!(record_bytes(u32::MAX - 70), None);
        assert_eq!(record_bytes(u32::MAX - 72), None, "the rounding overflows");
    }
}
