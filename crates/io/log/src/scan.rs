//! Finds the records of one segment.
//!
//! A sealed segment is known by its index. Any other is walked from head to head. If no record begins at a place, a
//! writer died before it had written one, and the next record is looked for behind that. A head counts only with its
//! checksum, its log and its place. Parts that were never written are passed over (`holes`).

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

use forebay_types::LogPosition;
use forebay_wire::log_record::{LogIdentity, RECORD_ALIGN_BYTES, RECORD_HEAD_BYTES, RecordHead, RecordKind, is_placed};

use crate::holes;

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
    /// The ranges outside of which nothing was written, once they were needed.
    written: Option<Vec<Range<u32>>>,
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
        Ok(Self { number, file, identity, segment_bytes, bytes, written: None, window: Vec::new(), window_start: 0 })
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
        loop {
            from = self.pass_unwritten(from)?;
            if from.saturating_add(HEAD) > self.bytes {
                return Ok(self.bytes);
            }
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
    }

    /// The first offset from `from` on at which a record may begin: before it nothing was written. The segment's end when there is none.
    fn pass_unwritten(&mut self, from: u32) -> io::Result<u32> {
        let written = match &self.written {
            Some(written) => written,
            None => self.written.insert(holes::written(&self.file, self.bytes)?),
        };
        let next = written.partition_point(|range| range.end <= from);
        let Some(Range { start, .. }) = written.get(next) else { return Ok(self.bytes) };
        // A head's first bytes may be zeros, which lie where nothing was written.
        Ok(from.max(start.saturating_sub(HEAD) / RECORD_ALIGN_BYTES * RECORD_ALIGN_BYTES))
    }

    /// The bytes from an offset on, a head's at least unless the segment ends before.
    fn window(&mut self, offset: u32) -> io::Result<&[u8]> {
        let window_end = self.window_start + self.window.len() as u32;
        let wanted = HEAD.min(self.bytes.saturating_sub(offset));
        if offset < self.window_start || offset + wanted > window_end {
            // Near what was read last, more is wanted soon.
            let is_behind = offset >= self.window_start && !self.window.is_empty();
            let is_near = is_behind && offset <= window_end.saturating_add(SPARSE_BYTES);
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use forebay_wire::log_record::Sequence;
    use proptest::prelude::*;

    use super::*;
    use crate::append::write_all;
    use crate::directory::allocate;

    const IDENTITY: LogIdentity = LogIdentity(0xfeed_0000_0001);
    const NUMBER: u64 = 7;
    const BYTES: u32 = 1 << 20;

    /// Directories on the file systems of this machine that tests may write to.
    fn directories() -> Vec<tempfile::TempDir> {
        let memory = Path::new("/dev/shm");
        let in_memory = memory.is_dir().then(|| tempfile::TempDir::new_in(memory).unwrap());
        in_memory.into_iter().chain([tempfile::tempdir().unwrap()]).collect()
    }

    /// A segment that has all its blocks and no bytes.
    fn unwritten(directory: &Path, bytes: u32) -> File {
        let file = File::options().read(true).write(true).create_new(true).open(directory.join("segment")).unwrap();
        allocate(&file, bytes).unwrap();
        std::fs::remove_file(directory.join("segment")).unwrap();
        file
    }

    fn scanned(file: &File) -> Scanned {
        Scanned::new(file.try_clone().unwrap(), NUMBER, IDENTITY, BYTES).unwrap()
    }

    fn steps(mut scanned: Scanned) -> Vec<Step> {
        let (mut steps, mut offset) = (vec![], 0);
        while let Some((step, next)) = scanned.step(offset).unwrap() {
            steps.push(step);
            offset = next;
        }
        steps
    }

    /// A part of a record: its first and its last bytes are missing where its writer died, or its pages were lost.
    #[derive(Clone, Debug)]
    struct Part {
        offset: u32,
        contents_bytes: u32,
        missing_before: u32,
        missing_behind: u32,
        is_synced: bool,
    }

    impl Part {
        fn write(&self, file: &File) {
            let contents = vec![1; self.contents_bytes as usize];
            let head = RecordHead {
                kind: RecordKind::Note,
                position: LogPosition { segment: NUMBER, offset: self.offset },
                sequence: Sequence(9),
                durable: Sequence(1),
                contents_bytes: self.contents_bytes,
                contents_checksum: crc32c::crc32c(&contents),
            };
            let record = [&head.encode(IDENTITY)[..], &contents].concat();
            let begin = (self.missing_before as usize).min(record.len());
            let end = record.len() - (self.missing_behind as usize).min(record.len() - begin);
            write_all(file, u64::from(self.offset) + begin as u64, &record[begin..end], &[]).unwrap();
            if self.is_synced {
                file.sync_data().unwrap();
            }
        }
    }

    fn parts() -> impl Strategy<Value = Vec<Part>> {
        // Beside the ends of pages and of larger blocks, and anywhere.
        let offset = prop_oneof![
            (0..BYTES / 4096, 0..24_u32).prop_map(|(page, back)| (page * 4096).saturating_sub(back * 8)),
            (0..BYTES / 8).prop_map(|at| at * 8),
        ];
        let missing = || prop_oneof![3 => Just(0), 1 => 1..80_u32, 1 => 1..5000_u32];
        let part = (offset, 0..9000_u32, missing(), missing(), any::<bool>()).prop_map(
            |(offset, contents_bytes, missing_before, missing_behind, is_synced)| {
                let offset = offset.min(BYTES - 9080);
                Part { offset, contents_bytes, missing_before, missing_behind, is_synced }
            },
        );
        prop::collection::vec(part, 0..12)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]
        /// Synced or not, whole or torn, wherever it lies.
        #[test]
        fn what_was_written_is_found_as_if_all_was_read(parts in parts()) {
            for directory in directories() {
                let file = unwritten(directory.path(), BYTES);
                parts.iter().for_each(|part| part.write(&file));
                let passed_over = steps(scanned(&file));
                let whole = Scanned { written: Some(std::iter::once(0..BYTES).collect()), ..scanned(&file) };
                prop_assert_eq!(&passed_over, &steps(whole));
                // Pages that were read are in the page cache now.
                prop_assert_eq!(&passed_over, &steps(scanned(&file)));
            }
        }
    }

    #[test]
    fn little_is_read_of_what_was_never_written() {
        for directory in directories() {
            let file = unwritten(directory.path(), BYTES);
            let is_told = holes::written(&file, BYTES).unwrap().is_empty();
            let mut scanned = scanned(&file);
            assert_eq!(scanned.step(0).unwrap(), Some((Step::Gap(0, BYTES), BYTES)));
            let read = scanned.window_start + scanned.window.len() as u32;
            assert_eq!(read <= DENSE_BYTES + SPARSE_BYTES, is_told, "{read} bytes");
        }
    }
}
