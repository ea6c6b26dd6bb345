//! For fuzzing and for its corpus: recovery of a store whose files were spoiled on purpose, with the checksums right.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _};
use std::path::Path;

use forebay_types::{FileId, LogPosition, NodeRank};
use forebay_wire::log_record::{LogIdentity, RECORD_HEAD_BYTES, RecordData, RecordHead, RecordKind, Sequence};
use rustix::process::geteuid;

use crate::directory::{CHECKPOINT, HEAD, segment_name};
use crate::head::{HEAD_BYTES_MAX, StoreHead};
use crate::{Owner, Recovered, RecoveredRecord, Recovery, Settings, checkpoint, limits};

/// Of the stores that are recovered.
const SEGMENT_BYTES: u32 = limits::SEGMENT_BYTES_MIN;
const IDENTITY: LogIdentity = LogIdentity(7);
const HEAD_LEN: u32 = RECORD_HEAD_BYTES as u32;

/// Records of one store.
const RECORDS_MAX: usize = 200;

/// Reads bytes as the head of a store, their checksum made right, and checks what must hold then; whether they are one.
///
/// # Panics
/// When something does not hold.
#[must_use]
pub fn read_head(body: &[u8]) -> bool {
    let bytes = sealed(body);
    let Ok(head) = StoreHead::decode(&bytes) else { return false };
    assert_eq!(head.encode(), bytes);
    assert!(bytes.len() <= HEAD_BYTES_MAX && head.segment_bytes <= limits::SEGMENT_BYTES);
    assert!(limits::contents_bytes_max(head.segment_bytes) > 0);
    true
}

/// The same of a checkpoint of a log.
///
/// # Panics
/// When something does not hold.
#[must_use]
pub fn read_checkpoint(body: &[u8]) -> bool {
    let bytes = sealed(body);
    let Ok(found) = checkpoint::decode(bytes.clone(), IDENTITY) else { return false };
    assert_eq!(found.contents.len() + checkpoint::FRAME_BYTES, bytes.len());
    assert!(found.up_to < Sequence::END);
    true
}

fn sealed(body: &[u8]) -> Vec<u8> {
    [body, &crc32c::crc32c(body).to_le_bytes()].concat()
}

/// Recovers, in an empty directory, a store whose segments are as `bytes` say; how many records count, if it can be recovered.
///
/// # Errors
/// When the directory cannot be written to.
///
/// # Panics
/// When something does not hold.
pub fn recover(directory: &Path, bytes: &[u8]) -> io::Result<Option<usize>> {
    let path = directory.join("store");
    let mut script = Script { bytes };
    let how = script.number();
    let (written, is_in_order) = write_store(&path, &mut script, how)?;
    let found = recover_twice(&path, how, written, is_in_order);
    fs::remove_dir_all(&path)?;
    Ok(found)
}

/// After a recovery the next one finds the same.
fn recover_twice(path: &Path, how: u8, written: usize, is_in_order: bool) -> Option<usize> {
    let owner = Owner { boot: [how & 1; 16], ..owner() };
    let settings = Settings { segment_bytes: SEGMENT_BYTES, ..Settings::new(1 << 20) };
    let mut recovery = Recovery::open(path, &owner, &settings).ok()?;
    let found = all(&mut recovery)?;
    assert!(found.len() <= 2 * written + 1, "{} records of {written}", found.len());
    if found.iter().any(|one| one.record == RecoveredRecord::Damaged) {
        // The device has lost what it had said to be durable: nothing goes on with such a store.
        return Some(found.len());
    }
    recovery.settle().ok()?;
    let kept: Vec<&Recovered> = found.iter().filter(|one| recovery.keeps(one.position.segment)).collect();
    assert!(kept.len() == found.len() || !recovery.repairs.removed.is_empty());
    drop(recovery);
    let again = all(&mut Recovery::open(path, &owner, &settings).ok()?)?;
    // After a loss of power that holds for heads that tell the truth about what is durable, which these need not do; and at any time for
    // records that are numbered one after the other, as a log writes them.
    assert!(how & 1 == 1 || !is_in_order || again.iter().collect::<Vec<_>>() == kept, "{again:?} after {found:?}");
    Some(found.len())
}

fn all(recovery: &mut Recovery) -> Option<Vec<Recovered>> {
    let mut found = vec![];
    while let Some(recovered) = recovery.next().ok()? {
        assert!(recovery.holds(recovered.position.segment));
        if let RecoveredRecord::Data { bytes, .. } = recovered.record {
            assert!(recovered.position.offset + HEAD_LEN + bytes <= SEGMENT_BYTES);
        }
        found.push(recovered);
    }
    Some(found)
}

fn owner() -> Owner {
    Owner { job: "1".into(), node: NodeRank(0), nodes: 1, landing: "/lustre".into(), boot: [0; 16] }
}

/// How many records there are, and whether each has the number after the one before it.
fn write_store(path: &Path, script: &mut Script<'_>, how: u8) -> io::Result<(usize, bool)> {
    fs::DirBuilder::new().mode(0o700).create(path)?;
    let Owner { job, node, nodes, landing, boot } = owner();
    let uid = geteuid().as_raw();
    let head = StoreHead { job, node, nodes, landing, uid, boot, identity: IDENTITY, segment_bytes: SEGMENT_BYTES };
    fs::write(path.join(HEAD), head.encode())?;
    if how & 2 != 0 {
        let up_to = Sequence(script.large());
        let head = checkpoint::head(IDENTITY, up_to, 4);
        fs::write(path.join(CHECKPOINT), sealed(&[&head[..], b"core"].concat()))?;
    }
    let mut number = if how & 4 == 0 { IDENTITY.first_segment() } else { script.large() };
    let (mut sequence, mut written, mut is_in_order) = (1, 0, true);
    for _ in 0..1 + (how >> 4 & 3) {
        let mut segment = Segment { bytes: vec![0; SEGMENT_BYTES as usize], number, offset: 0, heads: vec![] };
        loop {
            let before: u64 = sequence;
            if written == RECORDS_MAX || !segment.add(script, &mut sequence) {
                is_in_order &= sequence == before || sequence == before.wrapping_add(1);
                break;
            }
            is_in_order &= sequence == before.wrapping_add(1);
            written += 1;
        }
        let cut = if how & 8 == 0 { segment.bytes.len() } else { usize::from(script.number()) << 7 };
        let file = fs::File::create_new(path.join(segment_name(number)))?;
        file.set_len(cut as u64)?;
        let used = (segment.offset as usize).min(cut);
        file.write_all_at(&segment.bytes[..used], 0)?;
        let Some(next) = number.checked_add(1 + u64::from(how >> 7)) else { break };
        number = next;
    }
    Ok((written, is_in_order))
}

/// A segment that is written.
struct Segment {
    bytes: Vec<u8>,
    number: u64,
    offset: u32,
    heads: Vec<u8>,
}

impl Segment {
    /// Adds a record, or something else; `false` when the segment ends.
    fn add(&mut self, script: &mut Script<'_>, sequence: &mut u64) -> bool {
        let how = script.number();
        let position = LogPosition { segment: self.number, offset: self.offset };
        let (is_last, mut contents) = match how >> 5 {
            0 => return false,
            7 => (true, self.index()),
            _ => (false, vec![how; usize::from(script.number()) * 4]),
        };
        if contents.len() + RECORD_HEAD_BYTES > self.bytes.len() - self.offset as usize {
            return false;
        }
        let kind = match how >> 5 {
            1 => RecordKind::Begin,
            2 | 3 => RecordKind::Note,
            4 => RecordKind::Data(RecordData::written(FileId { creator: NodeRank(0), serial: 1 }, script.large())),
            5 => RecordKind::Pad,
            _ => RecordKind::Index,
        };
        if kind == RecordKind::Begin {
            contents.clear();
        }
        *sequence = if how & 16 == 0 { sequence.wrapping_add(1) } else { script.large() };
        let durable = sequence.saturating_sub(script.large());
        let contents_checksum = if kind == RecordKind::Pad { 0 } else { crc32c::crc32c(&contents) };
        let (contents_bytes, sequence, durable) = (contents.len() as u32, Sequence(*sequence), Sequence(durable));
        let head = RecordHead { kind, position, sequence, durable, contents_bytes, contents_checksum };
        self.put(&head, &contents, how & 15);
        !is_last
    }

    /// The contents of an index up to the segment's end.
    fn index(&self) -> Vec<u8> {
        let len = (self.bytes.len() - self.offset as usize).saturating_sub(RECORD_HEAD_BYTES);
        let mut contents = vec![0; len.max(self.heads.len() + 8)];
        contents[..self.heads.len()].copy_from_slice(&self.heads);
        let end = contents.len() - 8;
        contents[end..].copy_from_slice(&u64::from(self.offset).to_le_bytes());
        contents
    }

    fn put(&mut self, head: &RecordHead, contents: &[u8], spoiled: u8) {
        let encoded = head.encode(IDENTITY);
        let start = self.offset as usize;
        self.bytes[start..start + RECORD_HEAD_BYTES].copy_from_slice(&encoded);
        self.bytes[start + RECORD_HEAD_BYTES..][..contents.len()].copy_from_slice(contents);
        match spoiled {
            // The head never came to the disk, or the contents did not.
            1 => self.bytes[start..start + RECORD_HEAD_BYTES].fill(0),
            2 => self.bytes[start + RECORD_HEAD_BYTES..][..contents.len()].fill(0),
            3 => self.bytes[start + 40] ^= 1,
            _ => {}
        }
        self.heads.extend_from_slice(&encoded);
        self.offset += (RECORD_HEAD_BYTES + contents.len()).next_multiple_of(8) as u32;
    }
}

/// The rest of the bytes.
struct Script<'a> {
    bytes: &'a [u8],
}

impl Script<'_> {
    /// The next byte; 0 behind the end.
    fn number(&mut self) -> u8 {
        let Some((first, rest)) = self.bytes.split_first() else { return 0 };
        self.bytes = rest;
        *first
    }

    /// A small number, or one near the end of what there is.
    fn large(&mut self) -> u64 {
        match self.number() {
            near @ 0xf8.. => u64::MAX - u64::from(u8::MAX - near),
            // Sequences and segments end there.
            near @ 0xf0.. => (1 << 62) + u64::from(near) - 0xf4,
            small => small.into(),
        }
    }
}
