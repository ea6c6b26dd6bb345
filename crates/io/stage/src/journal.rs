//! A copy that is not whole: a draft beside its place, and its journal, which has the checksum of each block that was written.
//!
//! The journal is only believed as far as the draft agrees with it, so neither needs to be on the disk in any order, and a power
//! loss costs at most blocks.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use forebay_upload::{Immediately, Run, Upload, UploadError};
use rustix::fs::{AtFlags, FlockOperation, flock, fstat, fsync, renameat, statat, unlinkat};
use rustix::io::Errno;

use crate::error::{StageError, What};
use crate::limits::BLOCK_BYTES;
use crate::noted::Version;
use crate::place::Place;

/// How the names of drafts begin. The number is random, and always the same: nobody calls a file so who does not mean a draft.
const PREFIX: &str = ".forebay-stage-6d1f0b52c8a94e37-";

/// How those of journals end, and those of links that take the place of others.
const SUMS: &str = ".sums";
const LINK: &str = ".link";

/// Bytes of a name that are in its draft's name, so that this is no longer than a name may be.
const NAME_BYTES: usize = 200;

/// Whether a name is that of a draft, a journal or a link that takes a place.
pub fn is_draft(name: &OsStr) -> bool {
    name.as_bytes().starts_with(PREFIX.as_bytes())
}

/// A draft that this process alone writes to.
pub struct Draft<'a> {
    place: &'a Place,
    /// For messages.
    pub path: PathBuf,
    name: OsString,
    pub file: File,
    sums_name: OsString,
    sums_file: File,
    /// Blocks that are right, in order.
    pub upload: Upload,
}

impl<'a> Draft<'a> {
    /// The draft of the copy `place` of `version`, with what is right in it; else a new one.
    pub fn open(place: &'a Place, version: Version) -> Result<Self, StageError> {
        let (name, sums_name) = (draft_name(&place.name, ""), draft_name(&place.name, SUMS));
        let (path, sums_path) = (place.path.with_file_name(&name), place.path.with_file_name(&sums_name));
        let failed = |path: &Path, error| StageError::io(What::Write, path, error);
        let mut sums_file = place.open_beside(&sums_name)?;
        // A file system without locks has one copier, or several whose copies are verified.
        if flock(&sums_file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
            return Err(StageError::Busy(place.path.clone()));
        }
        let mut known = vec![];
        let known_bytes_max = journal_bytes_max(version);
        let read = Read::by_ref(&mut sums_file).take(known_bytes_max).read_to_end(&mut known);
        read.map_err(|error| failed(&sums_path, error))?;
        let file = place.open_beside(&name)?;
        let mut draft = Self { place, path, name, file, sums_name, sums_file, upload: Upload::default() };
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
            let range = self.next_range(bytes);
            let part = &mut block[..(range.end - range.start) as usize];
            let is_right =
                self.file.read_exact_at(part, range.start).is_ok() && !part.is_empty() && crc32c::crc32c(part) == sum;
            if !is_right {
                return;
            }
            self.upload.expect(vec![run_of(&range)], sum);
        }
    }

    /// Where the next block lies in a file of so many bytes.
    pub fn next_range(&self, bytes: u64) -> Range<u64> {
        block_range(self.upload.checksums().len() as u64, bytes)
    }

    /// Cuts both files to the right part. The rest of the draft is a hole.
    fn begin(&mut self, head: &str, bytes: u64) -> std::io::Result<()> {
        self.file.set_len(self.copied_bytes(bytes))?;
        self.file.set_len(bytes)?;
        self.sums_file.set_len(0)?;
        self.sums_file.seek(SeekFrom::Start(0))?;
        let sums: Vec<u8> = self.upload.checksums().flat_map(u32::to_le_bytes).collect();
        self.sums_file.write_all(&[head.as_bytes(), &sums].concat())
    }

    /// How much is right.
    pub fn copied_bytes(&self, bytes: u64) -> u64 {
        self.next_range(bytes).start
    }

    /// Writes the next block, which lies at `range`. One of zeros stays a hole.
    pub fn append(&mut self, range: &Range<u64>, block: &[u8]) -> Result<(), UploadError> {
        let runs = vec![run_of(range)];
        let sum = if block.iter().any(|byte| *byte != 0) {
            self.upload.write((&self.file, &Immediately), runs, block)?
        } else {
            let sum = crc32c::crc32c(block);
            self.upload.expect(runs, sum);
            sum
        };
        self.sums_file.write_all(&sum.to_le_bytes()).map_err(UploadError::Write)
    }

    /// crc32c of all blocks of a file of so many bytes, one after the other.
    pub fn checksum(&self, bytes: u64) -> u32 {
        let blocks = self.upload.checksums().zip(0..).map(|(sum, index)| (sum, block_range(index, bytes)));
        blocks.fold(0, |whole, (sum, range)| crc32c::crc32c_combine(whole, sum, (range.end - range.start) as usize))
    }

    /// Forgets it.
    pub fn remove(self) {
        [&self.name, &self.sums_name].into_iter().for_each(|name| self.unlink(name));
    }

    /// Gives it its name; the journal goes.
    pub fn publish(self) -> std::io::Result<()> {
        let Place { directory, name, .. } = self.place;
        renameat(directory, &*self.name, directory, &**name)?;
        // A user who may write in the directory may have put another file at the draft's name.
        let (named, own) = (statat(directory, &**name, AtFlags::SYMLINK_NOFOLLOW)?, fstat(&self.file)?);
        if (named.st_dev, named.st_ino) != (own.st_dev, own.st_ino) {
            return Err(std::io::Error::other("somebody else has put another file in its place meanwhile"));
        }
        match fsync(directory) {
            // A file system that cannot make names durable does it anyway, or never.
            Err(Errno::INVAL) | Ok(()) => {}
            Err(errno) => return Err(errno.into()),
        }
        // A journal that is left by a lost removal is cut at the next copy.
        self.unlink(&self.sums_name);
        Ok(())
    }

    fn unlink(&self, name: &OsStr) {
        let _ = unlinkat(&self.place.directory, name, AtFlags::empty());
    }
}

/// The longest journal of a copy of this version: more is none of it.
fn journal_bytes_max(version: Version) -> u64 {
    version.line().len() as u64 + version.bytes.div_ceil(BLOCK_BYTES as u64) * 4
}

/// The range of a block of a file of so many bytes.
pub fn block_range(index: u64, bytes: u64) -> Range<u64> {
    let start = (index * BLOCK_BYTES as u64).min(bytes);
    start..(start + BLOCK_BYTES as u64).min(bytes)
}

fn run_of(range: &Range<u64>) -> Run {
    Run { offset: range.start, len: (range.end - range.start) as usize }
}

/// Where the draft of a copy lies.
pub fn draft_path(copy: &Path) -> PathBuf {
    copy.with_file_name(draft_name(copy.file_name().unwrap_or_default(), ""))
}

/// Where its journal lies.
pub fn journal_path(copy: &Path) -> PathBuf {
    copy.with_file_name(draft_name(copy.file_name().unwrap_or_default(), SUMS))
}

/// The name of a link before it takes the place of a copy.
pub fn link_name(copy: &OsStr) -> OsString {
    draft_name(copy, LINK)
}

fn draft_name(copy: &OsStr, ending: &str) -> OsString {
    let name = copy.as_bytes();
    let mut draft = PREFIX.as_bytes().to_vec();
    draft.extend_from_slice(&name[..name.len().min(NAME_BYTES)]);
    if name.len() > NAME_BYTES {
        draft.extend_from_slice(format!("-{:08x}", crc32c::crc32c(name)).as_bytes());
    }
    draft.extend_from_slice(ending.as_bytes());
    OsString::from_vec(draft)
}
