//! The file as this rank reads and writes it: by POSIX, through a copy of the descriptor that MPI has where there is one.
//!
//! MPI gives its descriptor to nobody, but it is among those of the process, and is known by device and inode. A copy costs
//! the file system nothing, and stays right when the name is changed or removed while the file is open, and where the
//! permissions of the file would not let it be opened again. Only where MPI has none (it may open a file when it is first used)
//! the name is opened.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, RawFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{Advice, AtFlags, OFlags, StatxFlags, fcntl_getfl};

use crate::choice::FileSystem;
use crate::error::Error;
use crate::missing::Missing;
use crate::view::Extent;

/// The kinds of access that a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// To be read.
    pub reads: bool,
    /// To be written.
    pub writes: bool,
}

/// Requests of this rank to the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// Calls of `pwrite`.
    pub writes: u64,
    /// The same, cut at stripes, as a striped file system sees them.
    pub striped_writes: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Calls of `pread`.
    pub reads: u64,
    /// Bytes read.
    pub bytes_read: u64,
}

impl Requests {
    /// These and others.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self {
            writes: self.writes + other.writes,
            striped_writes: self.striped_writes + other.striped_writes,
            bytes_written: self.bytes_written + other.bytes_written,
            reads: self.reads + other.reads,
            bytes_read: self.bytes_read + other.bytes_read,
        }
    }
}

/// The open file.
#[derive(Debug)]
pub struct Storage {
    path: PathBuf,
    file: Arc<File>,
    is_mpis: bool,
    is_nfs: bool,
    access: Access,
    stripe_bytes: u64,
    is_dirty: bool,
    requests: Requests,
    small: Small,
    missing: Missing,
}

/// Requests of so many bytes at most tell what a request costs, whatever is in it.
const SMALL_BYTES: usize = 64 << 10;

/// Small requests, and how long they took.
#[derive(Clone, Copy, Debug, Default)]
struct Small {
    count: u64,
    took: Duration,
}

impl Small {
    fn add(&mut self, len: usize, began: Instant) {
        if len <= SMALL_BYTES {
            self.count += 1;
            self.took += began.elapsed();
        }
    }
}

impl Storage {
    /// The file at an absolute path, which MPI has opened.
    ///
    /// # Errors
    /// Where MPI has no descriptor of it that can be used, those of opening it.
    pub fn open(
        path: PathBuf,
        access: Access,
        file_system: FileSystem,
        stripe_bytes: u64,
        missing: Missing,
    ) -> io::Result<Self> {
        let copied = copy_of_descriptor(&path, access);
        let is_mpis = copied.is_some();
        let file = match copied {
            Some(file) => file,
            None => OpenOptions::new().read(access.reads).write(access.writes).open(&path)?,
        };
        let (file, is_nfs) = (Arc::new(file), file_system == FileSystem::Nfs);
        let (is_dirty, requests) = (false, Requests::default());
        let small = Small::default();
        let storage = Self { path, file, is_mpis, is_nfs, access, stripe_bytes, is_dirty, requests, small, missing };
        storage.revalidate();
        Ok(storage)
    }

    /// The same file for another thread, with counts of its own. By the same descriptor: where closing one is a request to a server,
    /// a second one costs that again.
    #[must_use]
    pub fn for_another_thread(&self) -> Self {
        let (file, missing) = (self.file.clone(), Missing::default());
        let (path, requests) = (self.path.clone(), Requests::default());
        let Self { is_mpis, is_nfs, access, stripe_bytes, .. } = *self;
        let (small, is_dirty) = (Small::default(), false);
        Self { path, file, is_mpis, is_nfs, access, stripe_bytes, is_dirty, requests, small, missing }
    }

    /// Its inode, and whether it is MPI's own open file, which is right whatever the inode is on other hosts.
    ///
    /// # Errors
    /// That of asking.
    pub fn identity(&self) -> io::Result<(u64, bool)> {
        Ok((self.file.metadata()?.ino(), self.is_mpis))
    }

    /// Bytes that an earlier run left out and this rank has not written.
    #[must_use]
    pub const fn missing(&self) -> &Missing {
        &self.missing
    }

    /// MPI has written these bytes.
    pub fn is_written(&mut self, extent: Extent) {
        self.missing.written(extent);
    }

    /// The file has this size now: beyond it nothing is missing.
    pub fn cut(&mut self, size: u64) {
        self.missing.cut(size);
    }

    /// Its size, bytes.
    ///
    /// # Errors
    /// That of asking.
    pub fn len_bytes(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The access that it is opened for.
    #[must_use]
    pub const fn access(&self) -> Access {
        self.access
    }

    /// Where requests are cut in counts from now on.
    pub const fn set_stripe_bytes(&mut self, stripe_bytes: u64) {
        self.stripe_bytes = stripe_bytes;
    }

    /// Where the row of whole stripes ends that a byte of the file is in; a row has so many bytes, and one stripe at least.
    #[must_use]
    pub const fn row_end(&self, offset: u64, row_bytes: u64) -> u64 {
        let stripes = if row_bytes < self.stripe_bytes { 1 } else { row_bytes / self.stripe_bytes };
        let row = stripes * self.stripe_bytes;
        (offset / row * row).saturating_add(row)
    }

    /// Requests to it so far.
    #[must_use]
    pub const fn requests(&self) -> Requests {
        self.requests
    }

    /// How long a small request took on average since the last time, nanoseconds; 0 if there was none.
    pub fn take_request_ns(&mut self) -> i64 {
        let Small { count, took } = std::mem::take(&mut self.small);
        (took.as_nanos() / u128::from(count.max(1))).min(i64::MAX as u128) as i64
    }

    /// Writes all bytes at the offset, by one request unless the file system takes fewer.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let mut done = 0;
        while done < bytes.len() {
            let at = offset + done as u64;
            let began = Instant::now();
            let written = self.file.write_at(&bytes[done..], at);
            self.small.add(bytes.len() - done, began);
            self.is_dirty = true;
            let taken = match written {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Ok(0) => Err(ErrorKind::WriteZero.into()),
                taken => taken,
            };
            let taken = taken.map_err(|source| Error::Write { path: self.path.clone(), source })?;
            done += taken;
            let extent = Extent { offset: at, len: taken as u64 };
            self.requests.writes += 1;
            self.requests.striped_writes += extent.end().div_ceil(self.stripe_bytes) - at / self.stripe_bytes;
            self.requests.bytes_written += taken as u64;
            self.missing.written(extent);
        }
        Ok(())
    }

    /// Reads from the offset on, and says how many bytes there are; fewer than asked for only at the end of the file.
    ///
    /// # Errors
    /// [`Error::Read`].
    pub fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Result<usize, Error> {
        let mut done = 0;
        while done < bytes.len() {
            let began = Instant::now();
            let read = self.file.read_at(&mut bytes[done..], offset + done as u64);
            self.small.add(bytes.len() - done, began);
            let read = match read {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                read => read.map_err(|source| Error::Read { path: self.path.clone(), source })?,
            };
            self.requests.reads += 1;
            self.requests.bytes_read += read as u64;
            if read == 0 {
                break;
            }
            done += read;
        }
        Ok(done)
    }

    /// Brings what this rank wrote to stable storage.
    ///
    /// # Errors
    /// [`Error::Write`]: some of it may not be there.
    pub fn sync(&mut self) -> Result<(), Error> {
        if self.is_dirty {
            self.file.sync_data().map_err(|source| Error::Write { path: self.path.clone(), source })?;
            self.is_dirty = false;
        }
        Ok(())
    }

    /// Forgets what this host knows of the file, where it may be what others have changed since: over NFS, whose clients believe
    /// their pages and sizes for a while. (ROMIO locks each range that it reads, to the same end.)
    pub fn revalidate(&self) {
        if self.is_nfs {
            // Both are advice: a kernel that does not take it reads what it has.
            let _ =
                rustix::fs::statx(&*self.file, "", AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC, StatxFlags::SIZE);
            let _ = rustix::fs::fadvise(&*self.file, 0, None, Advice::DontNeed);
        }
    }
}

/// A copy of a descriptor of this process that is open on the file, for what is wanted. Not one that appends, since a write by
/// offset appends there too, and none that takes aligned memory only.
fn copy_of_descriptor(path: &Path, access: Access) -> Option<File> {
    let wanted = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    let is_wanted = |found: &fs::Metadata| (found.dev(), found.ino()) == (wanted.dev(), wanted.ino());
    let real = fs::canonicalize(path).ok()?;
    fs::read_dir("/proc/self/fd").ok()?.flatten().find_map(|entry| {
        // By name first: to look at all descriptors could mean a request to a server for each.
        fs::read_link(entry.path()).ok().filter(|opened| *opened == real)?;
        let number: RawFd = entry.file_name().to_str()?.parse().ok()?;
        // SAFETY: the number is used for the copy alone. If another thread closes it first, there is no copy, or one of another
        // file, which is seen below.
        let copied = unsafe { BorrowedFd::borrow_raw(number) }.try_clone_to_owned().ok()?;
        let flags = fcntl_getfl(copied.as_fd()).ok()?;
        let file = File::from(copied);
        file.metadata().ok().filter(is_wanted)?;
        let mode = flags & OFlags::ACCMODE;
        let serves = match (access.reads, access.writes) {
            (true, true) => mode == OFlags::RDWR,
            (true, false) => mode != OFlags::WRONLY,
            (false, _) => mode != OFlags::RDONLY,
        };
        (serves && !flags.intersects(OFlags::APPEND | OFlags::DIRECT | OFlags::PATH)).then_some(file)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: Access = Access { reads: true, writes: true };

    fn storage(path: &Path) -> Storage {
        fs::write(path, [7; 100]).unwrap();
        Storage::open(path.to_owned(), BOTH, FileSystem::Local, 10, Missing::default()).unwrap()
    }

    #[test]
    fn counts_what_a_striped_file_system_sees() {
        let directory = tempfile::tempdir().unwrap();
        let mut storage = storage(&directory.path().join("file"));
        storage.write(5, &[1; 20]).unwrap();
        storage.write(30, &[2; 10]).unwrap();
        assert_eq!((storage.requests().writes, storage.requests().striped_writes), (2, 4));
        let mut bytes = [0; 20];
        assert_eq!(storage.read(90, &mut bytes).unwrap(), 10);
        assert_eq!(bytes[..10], [7; 10]);
    }

    #[test]
    fn a_file_that_is_renamed_or_unlinked_is_written_all_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let (path, renamed) = (directory.path().join("file"), directory.path().join("renamed"));
        let mut storage = storage(&path);
        fs::rename(&path, &renamed).unwrap();
        fs::write(&path, b"other").unwrap();
        storage.write(0, b"x").unwrap();
        assert_eq!((fs::read(&path).unwrap(), fs::read(&renamed).unwrap()[0]), (b"other".to_vec(), b'x'));
        fs::remove_file(&renamed).unwrap();
        storage.write(0, b"y").unwrap();
    }

    /// As MPI's, which was open before the file's mode took the right to open it away.
    #[test]
    fn an_open_descriptor_is_copied_if_it_serves() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, [7; 100]).unwrap();
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let open = || {
            Storage::open(link.clone(), BOTH, FileSystem::Local, 10, Missing::default()).unwrap().identity().unwrap().1
        };
        let reader = File::open(&path).unwrap();
        let appender = OpenOptions::new().read(true).append(true).open(&path).unwrap();
        assert!(!open(), "one that cannot write, and one that would append");
        let _both = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        assert!(open());
        drop((reader, appender));
    }
}
