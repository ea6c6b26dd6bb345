//! Finds the records of one segment.
//!
//! A sealed segment is known by its index. Any other is walked from head to head. If no record begins at a place, a
//! writer died before it had written one, and the next record is looked for behind that. A head counts only with its
//! checksum, its log and its place.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use forebay_types::LogPosition;
use forebay_wire::log_record::{LogIdentity, RECORD_ALIGN_BYTES, RECORD_HEAD_BYTES, RecordHead, RecordKind, is_placed};

const HEAD: u32 = RECORD_HEAD_BYTES as u32;

/// Read at once where heads lie far apart, bytes: a page.
const SPARSE_BYTES: u32 = 4 << 10;

/// Read at once where they are near each other or none is known, bytes.
const DENSE_BYTES: u32 = 256 << 10;

/// A segment that is read.
pub(crate) struct Scanned {
    pub number: u64,
    pub file: File,
    identity: LogIdentity,
    /// Of a whole segment.
    segment_bytes: u32,
    /// Of this one: less where a recovery has cut it.
    bytes: u32,
    window: Vec<u8>,
    window_start: u32,
}

/// The content of one place of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// A record whose head is right.
    Record(RecordHead),
    /// From the first offset up to the second no record begins.
    Gap(u32, u32),
}

impl Scanned {
    pub fn new(file: File, number: u64, identity: LogIdentity, segment_bytes: u32) -> io::Result<Self> {
        let length = file.metadata()?.len().min(segment_bytes.into());
        let bytes = length as u32 / RECORD_ALIGN_BYTES * RECORD_ALIGN_BYTES;
        Ok(Self { number, file, identity, segment_bytes, bytes, window: Vec::new(), window_start: 0 })
    }

    /// The record that begins at an offset, if one does.
    pub fn head_at(&mut self, offset: u32) -> io::Result<Option<RecordHead>> {
        let (identity, position) = (self.identity, LogPosition { segment: self.number, offset });
        let segment_bytes = self.segment_bytes;
        let Some(bytes) = self.window(offset)?.first_chunk::<RECORD_HEAD_BYTES>() else { return Ok(None) };
        let head = RecordHead::decode(bytes, identity, position, segment_bytes).ok();
        Ok(head.filter(|head| head.end().is_some_and(|end| end <= self.bytes)))
    }

    /// The step at an offset, and the offset of the next; `None` at the end.
    pub fn step(&mut self, offset: u32) -> io::Result<Option<(Step, u32)>> {
        if offset >= self.bytes {
            return Ok(None);
        }
        if let Some(head) = self.head_at(offset)? {
            return Ok(head.end().map(|end| (Step::Record(head), end)));
        }
        let end = self.find_head(offset + RECORD_ALIGN_BYTES)?;
        Ok(Some((Step::Gap(offset, end), end)))
    }

    /// The offset of the next record that begins at `from` or behind; the segment's end when there is none.
    fn find_head(&mut self, mut from: u32) -> io::Result<u32> {
        while from.saturating_add(HEAD) <= self.bytes {
            let (identity, number) = (self.identity, self.number);
            let window = self.window(from)?;
            let places = window.windows(RECORD_HEAD_BYTES).step_by(RECORD_ALIGN_BYTES as usize).enumerate();
            let mut candidates = places.filter_map(|(index, bytes)| {
                let offset = from + index as u32 * RECORD_ALIGN_BYTES;
                let bytes = bytes.first_chunk()?;
                is_placed(bytes, identity, LogPosition { segment: number, offset }).then_some(offset)
            });
            let searched = window.len() as u32 - HEAD;
            match candidates.next() {
                Some(candidate) if self.head_at(candidate)?.is_some() => return Ok(candidate),
                Some(candidate) => from = candidate + RECORD_ALIGN_BYTES,
                None => from += searched / RECORD_ALIGN_BYTES * RECORD_ALIGN_BYTES + RECORD_ALIGN_BYTES,
            }
        }
        Ok(self.bytes)
    }

    /// The bytes from an offset on, a head's at least unless the segment ends before.
    fn window(&mut self, offset: u32) -> io::Result<&[u8]> {
        let window_end = self.window_start + self.window.len() as u32;
        let wanted = HEAD.min(self.bytes.saturating_sub(offset));
        if offset < self.window_start || offset + wanted > window_end {
            // Near what was read last, more is wanted soon.
            let is_near = offset >= self.window_start && offset <= window_end.saturating_add(SPARSE_BYTES);
            let step = if is_near { DENSE_BYTES } else { SPARSE_BYTES };
            self.window.resize(step.min(self.bytes.saturating_sub(offset)) as usize, 0);
            self.window_start = offset;
            self.file.read_exact_at(&mut self.window, offset.into())?;
        }
        Ok(&self.window[(offset - self.window_start) as usize..])
    }

    /// The heads of all records by the segment's index, and that of the index; `None` for a segment without.
    pub fn index(&mut self) -> io::Result<Option<(Vec<RecordHead>, RecordHead)>> {
        let mut tail = [0; 8];
        if self.bytes < self.segment_bytes {
            return Ok(None);
        }
        self.file.read_exact_at(&mut tail, u64::from(self.bytes) - 8)?;
        let Some(offset) = u32::try_from(u64::from_le_bytes(tail)).ok() else { return Ok(None) };
        let is_placed = offset < self.bytes && offset.is_multiple_of(RECORD_ALIGN_BYTES);
        let head = if is_placed { self.head_at(offset)? } else { None };
        let Some(index) = head.filter(|head| head.kind == RecordKind::Index) else { return Ok(None) };
        let Some(contents) = self.contents(&index)? else { return Ok(None) };
        let (heads, _) = contents.as_chunks::<RECORD_HEAD_BYTES>();
        let mut records = Vec::with_capacity(heads.len());
        let mut at = 0;
        for bytes in heads {
            let position = LogPosition { segment: self.number, offset: at };
            let Ok(head) = RecordHead::decode(bytes, self.identity, position, self.segment_bytes) else { break };
            at = head.end().unwrap_or(self.bytes);
            records.push(head);
        }
        Ok((at <= offset).then_some((records, index)))
    }

    /// A record's contents; `None` when they do not have their checksum.
    pub fn contents(&self, head: &RecordHead) -> io::Result<Option<Vec<u8>>> {
        let mut contents = vec![0; head.contents_bytes as usize];
        self.file.read_exact_at(&mut contents, head.contents_offset().into())?;
        Ok(head.fits(&contents).then_some(contents))
    }
}
