//! A copy that is not whole: a draft beside its place, and its journal, which has the checksum of each block that was written.
//!
//! The journal is only believed as far as the draft agrees with it, so neither needs to be on the disk in any order, and a power
//! loss costs at most blocks.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::error::{StageError, What};
use crate::limits::BLOCK_BYTES;
use crate::noted::Version;

/// How the names of drafts begin.
const PREFIX: &str = ".forebay-stage-";

/// How those of journals end.
const SUMS: &str = ".sums";

/// What of a name is in its draft's.
const NAME_BYTES: usize = 200;

/// Whether a name is a draft's or a journal's.
pub fn is_draft(name: &OsStr) -> bool {
    name.as_bytes().starts_with(PREFIX.as_bytes())
}

/// A draft that this process alone writes to.
pub struct Draft {
    pub path: PathBuf,
    pub file: File,
    sums_path: PathBuf,
    sums_file: File,
    /// Of the blocks that are right, in order.
    pub sums: Vec<u32>,
}

impl Draft {
    /// The draft of the copy `place` of `version`, with what is right in it; else a new one.
    pub fn open(place: &Path, version: Version) -> Result<Self, StageError> {
        let (path, sums_path) = paths(place);
        let failed = |path: &Path, error| StageError::io(What::Write, path, error);
        let open = |path: &Path| {
            let mut options = OpenOptions::new();
            let options = options.read(true).write(true).create(true).mode(0o600);
            options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed()).open(path)
        };
        let mut sums_file = open(&sums_path).map_err(|error| failed(&sums_path, error))?;
        // A file system without locks has one copier, or several whose copies are verified.
        if flock(&sums_file, FlockOperation::NonBlockingLockExclusive) == Err(rustix::io::Errno::WOULDBLOCK) {
            return Err(StageError::Busy(place.to_owned()));
        }
        let mut known = vec![];
        sums_file.read_to_end(&mut known).map_err(|error| failed(&sums_path, error))?;
        let file = open(&path).map_err(|error| failed(&path, error))?;
        let mut draft = Self { path, file, sums_path, sums_file, sums: vec![] };
        let head = version.line();
        if let Some(known) = known.strip_prefix(head.as_bytes()) {
            draft.believe(known, version.bytes);
        }
        draft.begin(&head, version.bytes).map_err(|error| failed(&draft.path, error))?;
        Ok(draft)
    }

    /// Keeps the blocks up to the first that is not what the journal says.
    fn believe(&mut self, known: &[u8], bytes: u64) {
        let mut block = vec![0; BLOCK_BYTES];
        for sum in known.chunks_exact(4).map(|sum| u32::from_le_bytes([sum[0], sum[1], sum[2], sum[3]])) {
            let range = block_range(self.sums.len() as u64, bytes);
            let part = &mut block[..(range.end - range.start) as usize];
            let is_right =
                self.file.read_exact_at(part, range.start).is_ok() && !part.is_empty() && crc32c::crc32c(part) == sum;
            if !is_right {
                return;
            }
            self.sums.push(sum);
        }
    }

    /// Cuts both files to what is right. What follows in the draft is a hole.
    fn begin(&mut self, head: &str, bytes: u64) -> std::io::Result<()> {
        self.file.set_len(self.copied_bytes(bytes))?;
        self.file.set_len(bytes)?;
        self.sums_file.set_len(0)?;
        self.sums_file.seek(SeekFrom::Start(0))?;
        let sums: Vec<u8> = self.sums.iter().flat_map(|sum| sum.to_le_bytes()).collect();
        self.sums_file.write_all(&[head.as_bytes(), &sums].concat())
    }

    /// How much is right.
    pub fn copied_bytes(&self, bytes: u64) -> u64 {
        (self.sums.len() as u64 * BLOCK_BYTES as u64).min(bytes)
    }

    /// Writes the next block. One of zeros stays a hole.
    pub fn append(&mut self, block: &[u8]) -> std::io::Result<()> {
        if block.iter().any(|byte| *byte != 0) {
            self.file.write_all_at(block, self.sums.len() as u64 * BLOCK_BYTES as u64)?;
        }
        let sum = crc32c::crc32c(block);
        self.sums.push(sum);
        self.sums_file.write_all(&sum.to_le_bytes())
    }

    /// Forgets it.
    pub fn remove(self) {
        let _ = (fs::remove_file(&self.path), fs::remove_file(&self.sums_path));
    }

    /// Gives it its name; the journal goes.
    pub fn publish(self, place: &Path) -> std::io::Result<()> {
        fs::rename(&self.path, place)?;
        if let Some(directory) = place.parent() {
            sync_directory(directory)?;
        }
        // What a lost removal leaves is cut at the next copy.
        let _ = fs::remove_file(&self.sums_path);
        Ok(())
    }
}

/// The range of a block of a file of so many bytes.
pub fn block_range(index: u64, bytes: u64) -> std::ops::Range<u64> {
    let start = (index * BLOCK_BYTES as u64).min(bytes);
    start..(start + BLOCK_BYTES as u64).min(bytes)
}

/// Where the draft of a copy lies.
pub fn draft_path(place: &Path) -> PathBuf {
    paths(place).0
}

fn paths(place: &Path) -> (PathBuf, PathBuf) {
    let name = place.file_name().unwrap_or_default().as_bytes();
    let mut draft = PREFIX.as_bytes().to_vec();
    draft.extend_from_slice(&name[..name.len().min(NAME_BYTES)]);
    if name.len() > NAME_BYTES {
        draft.extend_from_slice(format!("-{:08x}", crc32c::crc32c(name)).as_bytes());
    }
    let sums = [&draft[..], SUMS.as_bytes()].concat();
    (place.with_file_name(OsString::from_vec(draft)), place.with_file_name(OsString::from_vec(sums)))
}

/// A file system that cannot make names durable does it anyway, or never.
fn sync_directory(directory: &Path) -> std::io::Result<()> {
    match File::open(directory)?.sync_all() {
        Err(error) if error.kind() == std::io::ErrorKind::InvalidInput => Ok(()),
        synced => synced,
    }
}
