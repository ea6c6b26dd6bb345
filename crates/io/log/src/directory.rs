//! The directory of a store: the only place that knows names of files.
//!
//! `head`, `lock`, `checkpoint` and the segments lie in one directory of mode 0700 that the job's user owns. Everything goes
//! through its descriptor, so that nobody can put another directory in its place. A lock (`flock(2)`) on `lock` is held
//! as long as the store is open; it ends with the process, however that ends.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use forebay_wire::log_record::SEGMENTS_END;
use rustix::fs::{AtFlags, CWD, Dir, FallocateFlags, FlockOperation, Mode, OFlags};
use rustix::fs::{fallocate, flock, fstat, fstatfs, fsync, mkdir, openat, renameat, rmdir, statat, unlinkat};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::StoreError;
use crate::network::network_name;

pub(crate) const HEAD: &str = "head";
pub(crate) const CHECKPOINT: &str = "checkpoint";
const LOCK: &str = "lock";
/// A file that is being written, and takes its name when it is whole.
const NEW: &str = ".new";
/// The head of a store that is being removed: the files left beside it have no meaning.
const WIPED: &str = "wiped";
const SEGMENT: &str = "segment-";

/// Bits of a mode that let others in.
const OTHERS: u32 = 0o077;

pub(crate) struct Directory {
    path: PathBuf,
    directory: OwnedFd,
    /// Held as long as the store is open.
    _lock: File,
}

/// The entries of a directory.
#[derive(Default)]
pub(crate) struct Contents {
    /// Numbers of segments, ascending.
    pub segments: Vec<u64>,
    pub has_head: bool,
    pub has_checkpoint: bool,
    /// Its removal has begun.
    pub is_wiped: bool,
    /// A name that is none of a store.
    pub strange: Option<String>,
}

impl Directory {
    /// Opens the directory at `path`, or creates it, and locks it.
    pub fn open(path: &Path, is_forced: bool) -> Result<Self, StoreError> {
        match mkdir(path, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(StoreError::io("create", path, errno)),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = openat(CWD, path, flags, Mode::empty()).map_err(|errno| StoreError::io("open", path, errno))?;
        check(&directory, path, is_forced)?;
        let lock = open_regular(&directory, LOCK, OFlags::RDWR | OFlags::CREATE)
            .map_err(|error| StoreError::io("write to", path, error))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { path: path.to_owned(), directory, _lock: lock }),
            Err(Errno::WOULDBLOCK) => Err(StoreError::Busy { path: path.to_owned() }),
            Err(errno) => Err(StoreError::io("lock", path, errno)),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the store is found at its path. If the path cannot be looked at, it counts as found.
    pub fn is_in_place(&self) -> bool {
        let found = match statat(CWD, &self.path, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => found,
            Err(errno) => return !matches!(errno, Errno::NOENT | Errno::NOTDIR),
        };
        fstat(&self.directory).is_ok_and(|held| (held.st_dev, held.st_ino) == (found.st_dev, found.st_ino))
    }

    /// Lists the directory.
    pub fn contents(&self) -> Result<Contents, StoreError> {
        let failed = |errno| StoreError::io("list", &self.path, errno);
        let mut contents = Contents::default();
        for entry in Dir::read_from(&self.directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().to_string_lossy();
            match &*name {
                "." | ".." | LOCK => {}
                CHECKPOINT => contents.has_checkpoint = true,
                HEAD => contents.has_head = true,
                WIPED => contents.is_wiped = true,
                name if name.strip_suffix(NEW).is_some_and(|name| [HEAD, CHECKPOINT].contains(&name)) => {}
                name => match segment_number(name) {
                    Some(number) => contents.segments.push(number),
                    None => contents.strange = Some(name.to_owned()),
                },
            }
        }
        contents.segments.sort_unstable();
        Ok(contents)
    }

    /// The room that its files take, bytes, as far as they can be looked at.
    pub fn bytes(&self) -> u64 {
        let entries = Dir::read_from(&self.directory).into_iter().flatten().flatten();
        let found =
            entries.filter_map(|entry| statat(&self.directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW).ok());
        found.map(|found| u64::try_from(found.st_blocks).unwrap_or(0) * 512).sum()
    }

    /// A whole small file; `None` when there is none. One that is longer than `bytes_max` is an error, and not read.
    pub fn read(&self, name: &str, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
        let file = match open_regular(&self.directory, name, OFlags::RDONLY) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let mut bytes = Vec::new();
        if file.metadata()?.len() <= bytes_max {
            file.take(bytes_max + 1).read_to_end(&mut bytes)?;
            if bytes.len() as u64 <= bytes_max {
                return Ok(Some(bytes));
            }
        }
        Err(io::Error::other(format!("{name} is longer than {bytes_max} bytes")))
    }

    /// Gives a file these contents, all or nothing, durable when it returns.
    pub fn replace(&self, name: &str, parts: &[&[u8]]) -> io::Result<()> {
        let new = format!("{name}{NEW}");
        let mut file = open_regular(&self.directory, &new, OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC)?;
        let written = parts.iter().try_for_each(|part| file.write_all(part)).and_then(|()| file.sync_all());
        if let Err(error) = written {
            // If it cannot be removed now, the next write replaces it.
            let _ = unlinkat(&self.directory, &*new, AtFlags::empty());
            return Err(error);
        }
        renameat(&self.directory, &*new, &self.directory, name)?;
        self.sync()
    }

    /// Creates a segment with all its blocks; nothing is left of one that cannot have them. `sync` makes its name durable.
    pub fn create_segment(&self, number: u64, bytes: u32) -> io::Result<File> {
        let file = self.name_segment(number)?;
        allocate(&file, bytes).or_else(|error| self.remove_segment(number).and(Err(error)))?;
        Ok(file)
    }

    /// Creates a segment that has no room yet.
    pub fn name_segment(&self, number: u64) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(openat(&self.directory, &*segment_name(number), flags, Mode::RUSR | Mode::WUSR)?.into())
    }

    pub fn open_segment(&self, number: u64, access: OFlags) -> io::Result<File> {
        open_regular(&self.directory, &segment_name(number), access)
    }

    /// The room that was given to a segment.
    pub fn segment_bytes(&self, number: u64) -> io::Result<u64> {
        let found = statat(&self.directory, &*segment_name(number), AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(u64::try_from(found.st_size).unwrap_or(0))
    }

    pub fn remove_segment(&self, number: u64) -> io::Result<()> {
        Ok(unlinkat(&self.directory, &*segment_name(number), AtFlags::empty())?)
    }

    /// Makes names durable.
    pub fn sync(&self) -> io::Result<()> {
        Ok(fsync(&self.directory)?)
    }

    /// Removes every file of the store but the lock. If the process is killed meanwhile, the store left says that it is wiped.
    pub fn clear(&self) -> Result<(), StoreError> {
        let failed = |errno| StoreError::io("remove", &self.path, errno);
        match renameat(&self.directory, HEAD, &self.directory, WIPED) {
            Ok(()) | Err(Errno::NOENT) => self.sync().map_err(|error| StoreError::io("remove", &self.path, error))?,
            Err(errno) => return Err(failed(errno)),
        }
        let segments = self.contents()?.segments.into_iter().map(segment_name);
        let others = [CHECKPOINT.to_owned(), format!("{CHECKPOINT}{NEW}"), format!("{HEAD}{NEW}"), WIPED.to_owned()];
        for name in segments.chain(others) {
            match unlinkat(&self.directory, &*name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(failed(errno)),
            }
        }
        Ok(())
    }

    /// Removes the store with its directory.
    pub fn remove(&self) -> Result<(), StoreError> {
        self.clear()?;
        let removed = unlinkat(&self.directory, LOCK, AtFlags::empty()).and_then(|()| rmdir(&self.path));
        removed.map_err(|errno| StoreError::io("remove", &self.path, errno))
    }
}

/// A store that has nothing in it leaves no directory, as after a start that failed.
impl Drop for Directory {
    fn drop(&mut self) {
        let is_empty = |contents: Contents| {
            let Contents { segments, has_head, has_checkpoint, is_wiped, strange } = contents;
            segments.is_empty() && strange.is_none() && ![has_head, has_checkpoint, is_wiped].contains(&true)
        };
        // The path may lead to another directory by now.
        if self.is_in_place() && self.contents().is_ok_and(is_empty) {
            let _ = unlinkat(&self.directory, LOCK, AtFlags::empty()).and_then(|()| rmdir(&self.path));
        }
    }
}

/// Opens a file of the store. In a job's epilogue root waits for the process that opens it, so a pipe or a device is neither waited for nor read.
fn open_regular(directory: &OwnedFd, name: &str, access: OFlags) -> io::Result<File> {
    let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(openat(directory, name, flags, Mode::RUSR | Mode::WUSR)?);
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other(format!("{name} is not a regular file"))),
    }
}

/// Gives a segment all its blocks.
pub(crate) fn allocate(file: &File, bytes: u32) -> io::Result<()> {
    Ok(fallocate(file, FallocateFlags::empty(), 0, bytes.into())?)
}

/// Whether the directory may hold a store of this user.
fn check(directory: &OwnedFd, path: &Path, is_forced: bool) -> Result<(), StoreError> {
    let stat = fstat(directory).map_err(|errno| StoreError::io("look at", path, errno))?;
    let (uid, path_owned) = (geteuid().as_raw(), || path.to_owned());
    if stat.st_uid != uid {
        return Err(StoreError::OtherUser { path: path_owned(), found: stat.st_uid, uid });
    }
    if stat.st_mode & OTHERS != 0 {
        return Err(StoreError::OpenToOthers { path: path_owned(), mode: stat.st_mode & 0o7777 });
    }
    let statfs = fstatfs(directory).map_err(|errno| StoreError::io("look at", path, errno))?;
    match network_name(statfs.f_type as u32) {
        Some(file_system) if !is_forced => Err(StoreError::NetworkFileSystem { path: path_owned(), file_system }),
        _ => Ok(()),
    }
}

pub(crate) fn segment_name(number: u64) -> String {
    format!("{SEGMENT}{number:012}")
}

fn segment_number(name: &str) -> Option<u64> {
    let number = name.strip_prefix(SEGMENT)?.parse().ok()?;
    (number < SEGMENTS_END && segment_name(number) == name).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_segments_are_their_numbers() {
        assert_eq!(segment_number(&segment_name(7)), Some(7));
        assert_eq!(segment_number("segment-000000000012"), Some(12));
        assert_eq!(segment_number(&segment_name(SEGMENTS_END - 1)), Some(SEGMENTS_END - 1));
        // One more would be the number of the next segment.
        assert_eq!(segment_number("segment-18446744073709551615"), None);
        for strange in ["segment-12", "segment-+00000000012", "segment-", "head", "segment-000000000012.new"] {
            assert_eq!(segment_number(strange), None, "{strange}");
        }
    }
}
