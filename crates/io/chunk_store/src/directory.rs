//! The directory of a store on a machine: two files that the user alone can open.
//!
//! All calls go through the directory's descriptor and follow no link, so that nobody can put a file of another in the place of
//! one of these. A lock (`flock(2)`) is held only while a store is opened: it ends with its process, and no store in use has one.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use forebay_log::network_file_system;
use rustix::fs::{Advice, AtFlags, CWD, FallocateFlags, FlockOperation, Mode, OFlags};
use rustix::fs::{fadvise, fallocate, flock, fstat, fstatvfs, mkdir, openat, renameat, statat, unlinkat};
use rustix::io::Errno;
use rustix::process::{Resource, geteuid, getrlimit};

use crate::disk::{Area, Disk, DiskRoom};
use crate::error::ChunkStoreError;
use crate::format::{CLOCK_AT, CLOCK_BYTES, ClockBlock, HEAD_BYTES, Head, VERSION};
use crate::limits::LOCK_TRIES_MAX;
use crate::room::{Neighbour, STAT_BLOCK_BYTES};
use crate::slots::count_entries;

/// The files of a store: names that nobody else's file has.
const INDEX: &str = "forebay-cache-index";
const CHUNKS: &str = "forebay-cache-chunks";
/// The same while a store is made.
const NEW_INDEX: &str = "forebay-cache-index.new";
const NEW_CHUNKS: &str = "forebay-cache-chunks.new";

/// Bits of a mode that let others write.
const OTHERS_WRITE: u32 = 0o022;

/// How long to wait for a process that opens the store, each time.
const LOCK_WAIT: Duration = Duration::from_millis(10);

/// The files of a store.
pub struct FileDisk {
    path: PathBuf,
    directory: OwnedFd,
    index: File,
    chunks: File,
    neighbour: Option<Neighbour>,
}

impl FileDisk {
    /// Opens the directory at `path`, or makes it. `neighbour` goes first where the disk is full.
    ///
    /// # Errors
    /// When there can be no store.
    pub fn open(path: &Path, neighbour: Option<Neighbour>) -> Result<Self, ChunkStoreError> {
        match mkdir(path, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            // The directory that is there may do.
            Err(Errno::ROFS) if path.exists() => {}
            Err(errno) => return Err(ChunkStoreError::io("make", path, errno)),
        }
        let directory = open_directory(path)?;
        check(&directory, path)?;
        let index = lock_index(&directory, path)?;
        let chunks = open_file(&directory, path, CHUNKS, OFlags::RDWR | OFlags::CREATE)?;
        Ok(Self { path: path.to_owned(), directory, index, chunks, neighbour })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn file(&self, area: Area) -> &File {
        match area {
            Area::Index => &self.index,
            Area::Chunks => &self.chunks,
        }
    }

    /// Makes an empty file with no name of its own yet.
    fn make(&self, name: &str, bytes: u64) -> io::Result<File> {
        match unlinkat(&self.directory, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(openat(&self.directory, name, flags, Mode::RUSR | Mode::WUSR)?);
        file.set_len(bytes)?;
        Ok(file)
    }
}

impl Disk for FileDisk {
    fn read_at(&self, area: Area, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut at = 0;
        while at < buffer.len() {
            match self.file(area).read_at(&mut buffer[at..], offset + at as u64) {
                Ok(0) => break,
                Ok(count) => at += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(at)
    }

    fn write_at(&self, area: Area, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file(area).write_all_at(bytes, offset)
    }

    fn will_read(&self, offset: u64, len: u64) {
        let _ = fadvise(&self.chunks, offset, std::num::NonZeroU64::new(len), Advice::WillNeed);
    }

    fn release(&self, offset: u64, len: u64) -> io::Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(fallocate(&self.chunks, flags, offset, len)?)
    }

    fn index_bytes(&self) -> io::Result<u64> {
        Ok(self.index.metadata()?.len())
    }

    fn used_bytes(&self) -> io::Result<u64> {
        Ok(self.chunks.metadata()?.blocks() * STAT_BLOCK_BYTES)
    }

    fn room(&self) -> io::Result<DiskRoom> {
        let room = fstatvfs(&self.directory)?;
        let device = fstat(&self.directory)?.st_dev;
        Ok(DiskRoom {
            all_bytes: room.f_blocks.saturating_mul(room.f_frsize),
            free_bytes: room.f_bavail.saturating_mul(room.f_frsize),
            promised_bytes: self.neighbour.as_ref().map_or(0, |neighbour| neighbour.promised_bytes(device)),
        })
    }

    fn is_removed(&self) -> bool {
        [&self.index, &self.chunks].into_iter().any(|file| file.metadata().is_ok_and(|found| found.nlink() == 0))
    }

    fn make_anew(&mut self, index_bytes: u64, chunks_bytes: u64) -> io::Result<()> {
        // Beyond this limit the kernel sends a signal that ends the process.
        if getrlimit(Resource::Fsize).current.is_some_and(|limit| limit < chunks_bytes) {
            return Err(Errno::FBIG.into());
        }
        let (index, chunks) = (self.make(NEW_INDEX, index_bytes)?, self.make(NEW_CHUNKS, chunks_bytes)?);
        flock(&index, FlockOperation::NonBlockingLockExclusive)?;
        renameat(&self.directory, NEW_CHUNKS, &self.directory, CHUNKS)?;
        renameat(&self.directory, NEW_INDEX, &self.directory, INDEX)?;
        (self.index, self.chunks) = (index, chunks);
        Ok(())
    }

    fn opened(&mut self) {
        let _ = flock(&self.index, FlockOperation::Unlock);
    }
}

fn open_directory(path: &Path) -> Result<OwnedFd, ChunkStoreError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(CWD, path, flags, Mode::empty()).map_err(|errno| match errno {
        Errno::NOTDIR | Errno::LOOP => ChunkStoreError::NotDirectory { path: path.to_owned() },
        errno => ChunkStoreError::io("open", path, errno),
    })
}

/// Whether the directory may hold a store of this user.
fn check(directory: &OwnedFd, path: &Path) -> Result<(), ChunkStoreError> {
    let path = path.to_owned();
    let found = fstat(directory).map_err(|errno| ChunkStoreError::io("look at", &path, errno))?;
    let uid = geteuid().as_raw();
    if found.st_uid != uid {
        return Err(ChunkStoreError::OtherUser { path, found: found.st_uid, uid });
    }
    if found.st_mode & OTHERS_WRITE != 0 {
        return Err(ChunkStoreError::OpenToOthers { path, mode: found.st_mode & 0o7777 });
    }
    match network_file_system(&path) {
        Ok(None) => Ok(()),
        Ok(Some(file_system)) => Err(ChunkStoreError::NetworkFileSystem { path, file_system }),
        Err(error) => Err(ChunkStoreError::io("look at", &path, error)),
    }
}

/// Opens a file of the store, which is this user's and no link, pipe or device.
fn open_file(directory: &OwnedFd, path: &Path, name: &'static str, access: OFlags) -> Result<File, ChunkStoreError> {
    let strange = || ChunkStoreError::NotRegular { path: path.to_owned(), name };
    let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = openat(directory, name, flags, Mode::RUSR | Mode::WUSR);
    let file = File::from(opened.map_err(|errno| match errno {
        Errno::LOOP | Errno::ISDIR | Errno::NXIO => strange(),
        errno => ChunkStoreError::io("open", path, errno),
    })?);
    let found = file.metadata().map_err(|error| ChunkStoreError::io("look at", path, error))?;
    let is_ours = found.is_file() && found.uid() == geteuid().as_raw();
    if !is_ours {
        return Err(strange());
    }
    if found.mode() & OTHERS_WRITE != 0 {
        return Err(ChunkStoreError::OpenToOthers { path: path.join(name), mode: found.mode() & 0o7777 });
    }
    Ok(file)
}

/// The index, opened and locked. Another process may put another in its place meanwhile.
fn lock_index(directory: &OwnedFd, path: &Path) -> Result<File, ChunkStoreError> {
    for _ in 0..LOCK_TRIES_MAX {
        let index = open_file(directory, path, INDEX, OFlags::RDWR | OFlags::CREATE)?;
        match flock(&index, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) if index.metadata().is_ok_and(|found| found.nlink() > 0) => return Ok(index),
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => std::thread::sleep(LOCK_WAIT),
            Err(errno) => return Err(ChunkStoreError::io("lock", path, errno)),
        }
    }
    Err(ChunkStoreError::Busy { path: path.to_owned() })
}

/// A store, as it is found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoreSummary {
    /// Its directory.
    pub path: PathBuf,
    /// The version of its format, 0 of a damaged one.
    pub version: u16,
    /// The capacity that it was opened with last, bytes; 0 where this program cannot read it.
    pub capacity_bytes: u64,
    /// The room that it takes on the disk, bytes.
    pub used_bytes: u64,
    /// Chunks in it; 0 where this program cannot read it.
    pub chunks: u64,
    /// When something in it was written last; each use is.
    pub last_use: SystemTime,
}

/// Looks at the store in a directory; `None` where there is none.
///
/// # Errors
/// When the directory is another user's, or cannot be looked at.
pub fn summary(path: &Path) -> Result<Option<StoreSummary>, ChunkStoreError> {
    let Some(directory) = existing(path)? else { return Ok(None) };
    let open = |name| match open_file(&directory, path, name, OFlags::RDONLY) {
        Err(ChunkStoreError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
        opened => opened.map(Some),
    };
    let Some(index) = open(INDEX)? else { return Ok(None) };
    let failed = |error| ChunkStoreError::io("read", path, error);
    let found = index.metadata().map_err(failed)?;
    let mut bytes = [0; HEAD_BYTES];
    let len = index.read_at(&mut bytes, 0).map_err(failed)?;
    let head = Head::decode(&bytes[..len], found.len());
    let chunks = open(CHUNKS)?.map(|chunks| chunks.metadata()).transpose().map_err(failed)?;
    let blocks = found.blocks() + chunks.as_ref().map_or(0, std::os::unix::fs::MetadataExt::blocks);
    let written = [Some(&found), chunks.as_ref()].into_iter().flatten().filter_map(|found| found.modified().ok());
    let mut summary = StoreSummary {
        path: path.to_owned(),
        version: 0,
        capacity_bytes: 0,
        used_bytes: blocks * STAT_BLOCK_BYTES,
        chunks: 0,
        last_use: written.max().unwrap_or(SystemTime::UNIX_EPOCH),
    };
    match head {
        Head::Absent => {}
        Head::Other(version) => summary.version = version,
        Head::Known(geometry) => {
            let mut clock = [0; CLOCK_BYTES];
            let len = index.read_at(&mut clock, CLOCK_AT).map_err(failed)?;
            summary.version = VERSION;
            summary.capacity_bytes = ClockBlock::decode(&clock[..len]).unwrap_or_default().capacity_bytes;
            summary.chunks = count_entries(geometry, |buffer, offset| index.read_at(buffer, offset)).map_err(failed)?;
        }
    }
    Ok(Some(summary))
}

/// Removes the store in a directory, of whatever version, also while jobs use it: they go on without it. The directory stays, with
/// whatever else is in it. Returns the bytes that it took; `None` where there was none.
///
/// # Errors
/// When the directory is another user's, or a file cannot be removed.
pub fn drop_store(path: &Path) -> Result<Option<u64>, ChunkStoreError> {
    let Some(directory) = existing(path)? else { return Ok(None) };
    let mut removed_bytes = None;
    for name in [INDEX, CHUNKS, NEW_INDEX, NEW_CHUNKS] {
        match statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) if found.st_mode & 0o170_000 == 0o100_000 => {
                *removed_bytes.get_or_insert(0) += u64::try_from(found.st_blocks).unwrap_or(0) * STAT_BLOCK_BYTES;
            }
            Ok(_) => return Err(ChunkStoreError::NotRegular { path: path.to_owned(), name }),
            Err(Errno::NOENT) => continue,
            Err(errno) => return Err(ChunkStoreError::io("look at", path, errno)),
        }
        // Processes that have it open keep no room.
        if let Ok(file) = open_file(&directory, path, name, OFlags::WRONLY) {
            file.set_len(0).map_err(|error| ChunkStoreError::io("empty", path, error))?;
        }
        unlinkat(&directory, name, AtFlags::empty()).map_err(|errno| ChunkStoreError::io("remove", path, errno))?;
    }
    Ok(removed_bytes)
}

/// A directory of this user; `None` where nothing is.
fn existing(path: &Path) -> Result<Option<OwnedFd>, ChunkStoreError> {
    let directory = match open_directory(path) {
        Err(ChunkStoreError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let found = fstat(&directory).map_err(|errno| ChunkStoreError::io("look at", path, errno))?;
    let uid = geteuid().as_raw();
    match found.st_uid == uid {
        true => Ok(Some(directory)),
        false => Err(ChunkStoreError::OtherUser { path: path.to_owned(), found: found.st_uid, uid }),
    }
}
