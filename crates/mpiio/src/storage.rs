//! The file as this rank reads and writes it: by POSIX, beside the descriptor that MPI has, which cannot be borrowed.
//!
//! Opened at the first use, since of many ranks few aggregate. By then the name may lead to another file; that is noticed by
//! the inode and nothing is written.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::view::Extent;

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// To be read.
    pub reads: bool,
    /// To be written.
    pub writes: bool,
}

/// What was asked of the file by this rank.
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

/// A file that is opened when it is first used.
#[derive(Debug)]
pub struct Storage {
    path: PathBuf,
    inode: u64,
    access: Access,
    stripe_bytes: u64,
    file: Option<File>,
    is_dirty: bool,
    requests: Requests,
}

impl Storage {
    /// The file at an absolute path, of the given inode.
    #[must_use]
    pub fn new(path: PathBuf, inode: u64, access: Access, stripe_bytes: u64) -> Self {
        Self { path, inode, access, stripe_bytes, file: None, is_dirty: false, requests: Requests::default() }
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it is opened for.
    #[must_use]
    pub const fn access(&self) -> Access {
        self.access
    }

    /// Where requests are cut in counts from now on.
    pub const fn set_stripe_bytes(&mut self, stripe_bytes: u64) {
        self.stripe_bytes = stripe_bytes;
    }

    /// What was asked of it.
    #[must_use]
    pub const fn requests(&self) -> Requests {
        self.requests
    }

    /// Writes all bytes at the offset, by one request unless the file system takes fewer.
    ///
    /// # Errors
    /// [`Error::Write`], [`Error::Open`], [`Error::Replaced`].
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let mut done = 0;
        while done < bytes.len() {
            let at = offset + done as u64;
            let written = self.opened()?.write_at(&bytes[done..], at);
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
        }
        Ok(())
    }

    /// Reads from the offset on, and says how many bytes there are; fewer than asked for only at the end of the file.
    ///
    /// # Errors
    /// [`Error::Read`], [`Error::Open`], [`Error::Replaced`].
    pub fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Result<usize, Error> {
        let mut done = 0;
        while done < bytes.len() {
            let read = self.opened()?.read_at(&mut bytes[done..], offset + done as u64);
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
        if let Some(file) = self.file.as_ref().filter(|_| self.is_dirty) {
            file.sync_data().map_err(|source| Error::Write { path: self.path.clone(), source })?;
            self.is_dirty = false;
        }
        Ok(())
    }

    fn opened(&mut self) -> Result<&File, Error> {
        if self.file.is_none() {
            let failed = |source: io::Error| Error::Open { path: self.path.clone(), source };
            let mut options = OpenOptions::new();
            let file = options.read(self.access.reads).write(self.access.writes).open(&self.path).map_err(failed)?;
            // Devices have other numbers on other hosts; the inode is the file system's own.
            if file.metadata().map_err(failed)?.ino() != self.inode {
                return Err(Error::Replaced(self.path.clone()));
            }
            self.file = Some(file);
        }
        self.file.as_ref().ok_or(Error::Message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: Access = Access { reads: true, writes: true };

    fn storage(path: &Path) -> Storage {
        std::fs::write(path, [7; 100]).unwrap();
        let inode = std::fs::metadata(path).unwrap().ino();
        Storage::new(path.to_owned(), inode, BOTH, 10)
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
    fn another_file_of_the_name_is_not_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let mut storage = storage(&path);
        std::fs::rename(&path, directory.path().join("renamed")).unwrap();
        std::fs::write(&path, b"other").unwrap();
        assert!(matches!(storage.write(0, b"x"), Err(Error::Replaced(_))));
        assert_eq!(std::fs::read(&path).unwrap(), b"other");
    }
}
