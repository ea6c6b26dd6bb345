//! Bytes on their way to a file that has to be trusted afterwards: written, made durable, read back and compared.
//!
//! The checksum of each part is taken from the bytes that are written, so the source is read once. All parts of an upload are made durable
//! together and compared then. The caller decides which bytes go where, in which parts, and what a part that differs means.
//!
//! Large uploads leave the page cache (`ReadBack::Cached`): the memory belongs to programs, and pages that the next part finds free again
//! cost less than half of the processor time of pages that the kernel has to fetch.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::{Advice, fadvise};
use thiserror::Error;

/// Runs from this length on leave the page cache when they are compared. Small files stay there: they cost little memory, and are often
/// read soon after they were written.
pub const LEAVES_BYTES_MIN: usize = 1 << 20;

/// A range of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// Where it begins, bytes.
    pub offset: u64,
    /// How long it is, bytes.
    pub len: usize,
}

/// The source of the answer when a part is read back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadBack {
    /// The page cache, as far as it has the part. Then long runs leave it.
    Cached,
    /// The file system below the page cache. Pages stay, for programs that are about to read them.
    Stored,
}

/// When calls on the file system may be made.
pub trait Turns {
    /// Makes a call that writes so many bytes.
    ///
    /// # Errors
    /// Why it was not made, or what it says.
    fn write(&self, bytes: u64, call: impl FnOnce() -> io::Result<()>) -> io::Result<()>;

    /// Makes any other call.
    ///
    /// # Errors
    /// As `write`.
    fn call(&self, call: impl FnOnce() -> io::Result<()>) -> io::Result<()>;
}

/// Every call is made immediately.
#[derive(Clone, Copy, Debug)]
pub struct Immediately;

impl Turns for Immediately {
    fn write(&self, _bytes: u64, call: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        call()
    }

    fn call(&self, call: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        call()
    }
}

/// Why bytes are not known to be there.
#[derive(Debug, Error)]
pub enum UploadError {
    /// They were not written, or not made durable.
    #[error("cannot write: {0}")]
    Write(#[source] io::Error),
    /// They could not be read back.
    #[error("cannot read back: {0}")]
    ReadBack(#[source] io::Error),
    /// The file has other bytes than were written.
    #[error("other bytes were read back than were written, in the part from offset {offset} on")]
    Differs {
        /// Where the part begins, bytes.
        offset: u64,
    },
}

impl From<UploadError> for io::Error {
    fn from(error: UploadError) -> Self {
        match error {
            UploadError::Write(error) | UploadError::ReadBack(error) => error,
            differs @ UploadError::Differs { .. } => Self::other(differs),
        }
    }
}

/// Parts of a file that are written and not compared yet.
#[derive(Debug, Default)]
pub struct Upload {
    parts: Vec<Part>,
}

#[derive(Debug)]
struct Part {
    runs: Vec<Run>,
    /// crc32c of the bytes of all runs, one after the other.
    checksum: u32,
}

impl Part {
    fn bytes(&self) -> usize {
        self.runs.iter().map(|run| run.len).sum()
    }
}

impl Upload {
    /// Of each part, crc32c of its bytes.
    #[must_use]
    pub fn checksums(&self) -> impl ExactSizeIterator<Item = u32> {
        self.parts.iter().map(|part| part.checksum)
    }

    /// Bytes of all parts.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.parts.iter().map(Part::bytes).sum()
    }

    /// Bytes of the largest part: `verify` needs as much memory.
    #[must_use]
    pub fn largest_bytes(&self) -> usize {
        self.parts.iter().map(Part::bytes).max().unwrap_or(0)
    }

    /// Calls that `verify` makes.
    #[must_use]
    pub fn calls(&self) -> u64 {
        1 + self.parts.iter().map(|part| part.runs.len() as u64).sum::<u64>()
    }

    /// Writes a part, whose runs get `bytes`, one after the other. Returns its checksum.
    ///
    /// # Errors
    /// The error of the file system, or of `turns`.
    pub fn write(
        &mut self,
        (file, turns): (&File, &impl Turns),
        runs: Vec<Run>,
        bytes: &[u8],
    ) -> Result<u32, UploadError> {
        let mut rest = bytes;
        for Run { offset, len } in &runs {
            let (run, after) = rest.split_at(*len);
            turns.write(*len as u64, || file.write_all_at(run, *offset)).map_err(UploadError::Write)?;
            rest = after;
        }
        let checksum = crc32c::crc32c(bytes);
        self.expect(runs, checksum);
        Ok(checksum)
    }

    /// The file is to have bytes of this checksum there: an earlier upload has written them, or they are a hole.
    pub fn expect(&mut self, runs: Vec<Run>, checksum: u32) {
        self.parts.push(Part { runs, checksum });
    }

    /// Makes all parts durable, reads them back in their order and compares them. `verified` gets the bytes of each part that is as written.
    /// The buffer has room for any of them.
    ///
    /// # Errors
    /// The error of the file system, or of `turns`; `Differs` for the first part that is not as written.
    pub fn verify(
        &self,
        (file, turns): (&File, &impl Turns),
        read_back: ReadBack,
        buffer: &mut [u8],
        mut verified: impl FnMut(u64),
    ) -> Result<(), UploadError> {
        turns.call(|| file.sync_data()).map_err(UploadError::Write)?;
        if read_back == ReadBack::Stored {
            // Only pages that are clean go.
            let _ = fadvise(file, 0, None, Advice::DontNeed);
        }
        for part in &self.parts {
            let bytes = &mut buffer[..part.bytes()];
            let mut rest = &mut *bytes;
            for run in &part.runs {
                let (into, after) = rest.split_at_mut(run.len);
                turns.call(|| file.read_exact_at(into, run.offset)).map_err(UploadError::ReadBack)?;
                rest = after;
            }
            if crc32c::crc32c(bytes) != part.checksum {
                return Err(UploadError::Differs { offset: part.runs.first().map_or(0, |run| run.offset) });
            }
            if read_back == ReadBack::Cached {
                leave_page_cache(file, &part.runs);
            }
            verified(bytes.len() as u64);
        }
        Ok(())
    }
}

/// A file system that cannot do that keeps them.
fn leave_page_cache(file: &File, runs: &[Run]) {
    for run in runs.iter().filter(|run| run.len >= LEAVES_BYTES_MIN) {
        let _ = fadvise(file, run.offset, std::num::NonZeroU64::new(run.len as u64), Advice::DontNeed);
    }
}
