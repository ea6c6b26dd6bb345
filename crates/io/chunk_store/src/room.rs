//! Room that is promised to another on the same disk.

use std::path::PathBuf;

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, openat, statat};

/// The unit of `st_blocks`, bytes.
pub(crate) const STAT_BLOCK_BYTES: u64 = 512;

/// A directory that goes first: the job's burst store, without whose room programs would wait.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Neighbour {
    /// It.
    pub directory: PathBuf,
    /// The room that its files may take, bytes.
    pub capacity_bytes: u64,
}

impl Neighbour {
    /// The room on this device that it may still take, bytes: none where it lies on another one.
    pub(crate) fn promised_bytes(&self, device: u64) -> u64 {
        let is_here = statat(CWD, &self.directory, AtFlags::empty()).is_ok_and(|found| found.st_dev == device);
        if is_here { self.capacity_bytes.saturating_sub(self.used_bytes()) } else { 0 }
    }

    fn used_bytes(&self) -> u64 {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let Ok(directory) = openat(CWD, &self.directory, flags, Mode::empty()) else { return 0 };
        let entries = Dir::read_from(&directory).into_iter().flatten().flatten();
        let found = entries.filter_map(|entry| statat(&directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW).ok());
        found.map(|found| u64::try_from(found.st_blocks).unwrap_or(0) * STAT_BLOCK_BYTES).sum()
    }
}
