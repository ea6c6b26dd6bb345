//! The system calls on the backing file system: each one counted, none able to leave the directory it starts from.
//!
//! Paths are resolved by `openat2(2)` below a descriptor, without following a symbolic link anywhere: the kernel of the
//! node that asks resolves links itself, so a link met here has taken the place of what was asked for. Where the kernel
//! (before 5.6) or a container's filter lacks `openat2`, the path is walked a component at a time to the same effect.

use std::io::IoSliceMut;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

use forebay_body::PooledBuffer;
use forebay_types::{Errno, FileSystem, PIECE_BYTES, limits};
use rustix::fs::{self, Advice, AtFlags, Mode, OFlags, ResolveFlags, StatxFlags};
use rustix::io::retry_on_intr;

use crate::counters::Tally;
use crate::permissions::Permissions;
use crate::stat::{GENERATION_FIELDS, Stat};

pub(crate) struct Calls {
    pub(crate) tally: Tally,
    has_openat2: bool,
    permissions: Permissions,
}

const BENEATH: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

/// A place in the tree that is not opened for reading: the base of other calls.
const BASE: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

const READ: OFlags = OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC).union(OFlags::NOCTTY);

const BASIC_AND_BIRTH: StatxFlags = StatxFlags::BASIC_STATS.union(StatxFlags::BTIME);

impl Calls {
    /// Finds out whether `openat2` works here.
    pub(crate) fn new(permissions: Permissions) -> Self {
        let probe = fs::openat2(fs::CWD, "/", BASE, Mode::empty(), ResolveFlags::NO_SYMLINKS);
        Self { tally: Tally::default(), has_openat2: probe.is_ok(), permissions }
    }

    /// The directory `path` below `base` (`base` itself for the empty path), as a base.
    pub(crate) fn directory(&self, base: BorrowedFd<'_>, path: &[u8]) -> Result<OwnedFd, Errno> {
        self.open(base, path, BASE | OFlags::DIRECTORY)
    }

    /// Whatever is at `path` below `base`, not opened for reading.
    pub(crate) fn place(&self, base: BorrowedFd<'_>, path: &[u8]) -> Result<OwnedFd, Errno> {
        self.open(base, path, BASE)
    }

    /// The directory `base`, opened for listing. A path that begins at a directory, `.` as well, may be walked only by
    /// who may search it; one that may be read but not searched is opened by its descriptor's name.
    pub(crate) fn listable(&self, base: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
        let flags = READ | OFlags::DIRECTORY;
        match quietly(flags, |flags| self.open(base, b"", flags)) {
            Err(Errno::EACCES) => quietly(flags.difference(OFlags::NOFOLLOW), |flags| {
                Tally::one(&self.tally.opens);
                let path = format!("/proc/thread-self/fd/{}", base.as_raw_fd());
                retry_on_intr(|| fs::open(&path, flags, Mode::empty())).map_err(errno)
            }),
            outcome => outcome,
        }
    }

    /// File `name` of directory `base`, opened for reading. Should it have become a FIFO a moment ago, the open does
    /// not wait for a writer.
    pub(crate) fn file(&self, base: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd, Errno> {
        quietly(READ | OFlags::NONBLOCK, |flags| self.open(base, name, flags))
    }

    /// Attributes of entry `name` of directory `base`, as they are shown, of a link itself, without triggering an automounter.
    pub(crate) fn stat_entry(&self, base: BorrowedFd<'_>, name: &[u8]) -> Result<Stat, Errno> {
        self.stat_fields(base, name, StatxFlags::BASIC_STATS)
    }

    /// The same with the time of birth.
    pub(crate) fn stat_entry_and_birth(&self, base: BorrowedFd<'_>, name: &[u8]) -> Result<Stat, Errno> {
        self.stat_fields(base, name, BASIC_AND_BIRTH)
    }

    fn stat_fields(&self, base: BorrowedFd<'_>, name: &[u8], fields: StatxFlags) -> Result<Stat, Errno> {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        let mut stat = self.statx(base, name, flags, fields)?;
        stat.attributes.mode = self.permissions.shown_mode(&stat.attributes, base, name);
        Ok(stat)
    }

    /// The type of entry `name` of directory `base` and its device, as far as this machine knows: neither of an inode ever
    /// changes, so the backing file system need not be asked. Not counted: the name is looked up, as the open that follows does.
    pub(crate) fn stat_kind(&self, base: BorrowedFd<'_>, name: &[u8]) -> Result<Stat, Errno> {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | AtFlags::STATX_DONT_SYNC;
        statx(base, name, flags, StatxFlags::TYPE)
    }

    /// Attributes of what is open, as they are shown.
    pub(crate) fn stat_open(&self, open: BorrowedFd<'_>) -> Result<Stat, Errno> {
        let mut stat = self.statx(open, b"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS)?;
        stat.attributes.mode = self.permissions.shown_mode(&stat.attributes, open, b"");
        Ok(stat)
    }

    /// The same with the time of birth, as the file system's server has them now: a client may keep older ones.
    pub(crate) fn stat_now(&self, open: BorrowedFd<'_>) -> Result<Stat, Errno> {
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC;
        let mut stat = self.statx(open, b"", flags, BASIC_AND_BIRTH)?;
        stat.attributes.mode = self.permissions.shown_mode(&stat.attributes, open, b"");
        Ok(stat)
    }

    /// Only the fields of what is open that make its generation.
    pub(crate) fn stat_generation(&self, open: BorrowedFd<'_>) -> Result<Stat, Errno> {
        self.statx(open, b"", AtFlags::EMPTY_PATH, GENERATION_FIELDS)
    }

    /// The target of symbolic link `name` of directory `base`.
    pub(crate) fn read_link(&self, base: BorrowedFd<'_>, name: &[u8]) -> Result<Vec<u8>, Errno> {
        Tally::one(&self.tally.stats);
        // Room for any target: a buffer that is too small would cost another request.
        let room = || Vec::with_capacity(limits::TARGET_BYTES_MAX + 1);
        let target = retry_on_intr(|| fs::readlinkat(base, name, room())).map_err(errno)?;
        Ok(target.into_bytes())
    }

    /// Reads at `offset_bytes` until `buffer` is full or the file ends; returns the bytes read.
    pub(crate) fn read(&self, file: BorrowedFd<'_>, buffer: &mut [u8], offset_bytes: u64) -> Result<usize, Errno> {
        let mut filled = 0;
        while filled < buffer.len() {
            Tally::one(&self.tally.reads);
            let at = offset_bytes + filled as u64;
            let count = retry_on_intr(|| rustix::io::pread(file, &mut buffer[filled..], at)).map_err(errno)?;
            self.tally.bytes.fetch_add(count as u64, Ordering::Relaxed);
            if count == 0 {
                break;
            }
            filled += count;
        }
        Ok(filled)
    }

    /// Reads at `offset_bytes` until all of `pieces` are full or the file ends, as much as possible at once; returns the bytes read.
    pub(crate) fn read_pieces(
        &self,
        file: BorrowedFd<'_>,
        pieces: &mut [PooledBuffer],
        offset_bytes: u64,
    ) -> Result<usize, Errno> {
        let mut filled = 0;
        let mut slices: Vec<IoSliceMut<'_>> = pieces.iter_mut().map(|piece| IoSliceMut::new(piece)).collect();
        let mut left = &mut slices[..];
        while !left.is_empty() {
            Tally::one(&self.tally.reads);
            let at = offset_bytes + filled as u64;
            let count = retry_on_intr(|| rustix::io::preadv(file, left, at)).map_err(errno)?;
            self.tally.bytes.fetch_add(count as u64, Ordering::Relaxed);
            if count == 0 {
                break;
            }
            filled += count;
            IoSliceMut::advance_slices(&mut left, count);
        }
        Ok(filled)
    }

    /// Tells the kernel that these bytes are about to be read, so that it asks for them all at once. Again and again for what is left,
    /// because it takes no more of one hint than the largest read of the file system, or its read-ahead window. Reads that are hinted so
    /// start no read-ahead of its own, so no bytes beyond these are read.
    pub(crate) fn will_read(&self, file: BorrowedFd<'_>, offset_bytes: u64, len_bytes: usize) {
        for at in (0..len_bytes).step_by(PIECE_BYTES) {
            let len = NonZeroU64::new((len_bytes - at) as u64);
            // A hint: a file system that cannot take it is read piece by piece.
            let _ = fs::fadvise(file, offset_bytes + at as u64, len, Advice::WillNeed);
        }
    }

    /// The sizes of the file system that holds `place`.
    pub(crate) fn file_system(&self, place: BorrowedFd<'_>) -> Result<FileSystem, Errno> {
        Tally::one(&self.tally.stats);
        let sizes = retry_on_intr(|| fs::fstatvfs(place)).map_err(errno)?;
        let narrow = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        Ok(FileSystem {
            blocks: sizes.f_blocks,
            blocks_free: sizes.f_bfree,
            blocks_available: sizes.f_bavail,
            files: sizes.f_files,
            files_free: sizes.f_ffree,
            block_bytes: narrow(sizes.f_bsize),
            fragment_bytes: narrow(sizes.f_frsize),
            name_bytes_max: narrow(sizes.f_namemax),
        })
    }

    fn statx(&self, base: BorrowedFd<'_>, name: &[u8], at: AtFlags, fields: StatxFlags) -> Result<Stat, Errno> {
        Tally::one(&self.tally.stats);
        statx(base, name, at, fields)
    }

    fn open(&self, base: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        Tally::one(&self.tally.opens);
        let opened = if self.has_openat2 {
            let path = if path.is_empty() { b"." } else { path };
            retry_on_intr(|| fs::openat2(base, path, flags, Mode::empty(), BENEATH)).map_err(errno)
        } else {
            walk(base, path, flags)
        };
        // A link where there was a directory or file: what the asking node knew is out of date.
        opened.map_err(|error| if error == Errno::ELOOP { Errno::ESTALE } else { error })
    }
}

fn statx(base: BorrowedFd<'_>, name: &[u8], at: AtFlags, fields: StatxFlags) -> Result<Stat, Errno> {
    let statx = retry_on_intr(|| fs::statx(base, name, at, fields)).map_err(errno)?;
    Ok(Stat::from(&statx))
}

/// Opens without updating the access time, where the owner or root asks; others may not ask for that. The kernel
/// refuses before it turns to the file system, so the second attempt is the only one there.
fn quietly(flags: OFlags, open: impl Fn(OFlags) -> Result<OwnedFd, Errno>) -> Result<OwnedFd, Errno> {
    match open(flags | OFlags::NOATIME) {
        Err(Errno::EPERM) => open(flags),
        outcome => outcome,
    }
}

/// `openat2` by single steps: no component can be `..` (paths are checked) and no step follows a link.
fn walk(base: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let step = |base: BorrowedFd<'_>, name: &[u8], flags| {
        retry_on_intr(|| fs::openat(base, name, flags | OFlags::NOFOLLOW, Mode::empty())).map_err(errno)
    };
    let Some(slash) = path.iter().rposition(|byte| *byte == b'/') else {
        return step(base, if path.is_empty() { b"." } else { path }, flags);
    };
    let mut at: Option<OwnedFd> = None;
    for name in path[..slash].split(|byte| *byte == b'/') {
        let from = at.as_ref().map_or(base, |fd| fd.as_fd());
        at = Some(step(from, name, BASE | OFlags::DIRECTORY)?);
    }
    step(at.as_ref().map_or(base, |fd| fd.as_fd()), &path[slash + 1..], flags)
}

pub(crate) fn errno(error: rustix::io::Errno) -> Errno {
    Errno::from(error.raw_os_error())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn both() -> [Calls; 2] {
        let calls = Calls::new(Permissions::new(false));
        assert!(calls.has_openat2, "the kernels this is tested on have it");
        [calls, Calls { has_openat2: false, ..Calls::new(Permissions::new(false)) }]
    }

    #[test]
    fn with_and_without_openat2_no_link_is_followed() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("base/a/b")).unwrap();
        std::fs::write(dir.path().join("base/a/b/file"), "x").unwrap();
        std::fs::write(dir.path().join("secret"), "x").unwrap();
        symlink("..", dir.path().join("base/up")).unwrap();
        symlink("../secret", dir.path().join("base/link")).unwrap();
        let base = fs::open(dir.path().join("base"), OFlags::PATH, Mode::empty()).unwrap();
        for calls in both() {
            let ino = |path: &[u8]| {
                let place = calls.place(base.as_fd(), path)?;
                Ok(calls.stat_open(place.as_fd())?.attributes.ino)
            };
            assert!(ino(b"a/b/file").is_ok() && ino(b"").is_ok());
            assert!(calls.directory(base.as_fd(), b"a/b").is_ok());
            assert_eq!(calls.directory(base.as_fd(), b"a/b/file").err(), Some(Errno::ENOTDIR));
            assert_eq!(calls.directory(base.as_fd(), b"a/c").err(), Some(Errno::ENOENT));
            for refused in [&b"up/secret"[..], b"up/base/a"] {
                assert!(matches!(ino(refused), Err(Errno::ESTALE | Errno::ENOTDIR)));
            }
            assert!(matches!(calls.directory(base.as_fd(), b"up"), Err(Errno::ESTALE | Errno::ENOTDIR)));
            assert_eq!(calls.file(base.as_fd(), b"link").err(), Some(Errno::ESTALE));
        }
    }

    #[test]
    fn a_hundred_directories_deep_is_reached_both_ways() {
        let dir = tempfile::tempdir().unwrap();
        let path = ["d"; 100].join("/");
        std::fs::create_dir_all(dir.path().join(&path)).unwrap();
        let base = fs::open(dir.path(), OFlags::PATH, Mode::empty()).unwrap();
        let inos = both().map(|calls| {
            let place = calls.directory(base.as_fd(), path.as_bytes()).unwrap();
            calls.stat_open(place.as_fd()).unwrap().attributes.ino
        });
        assert_eq!(inos[0], inos[1]);
    }
}
