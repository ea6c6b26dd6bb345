//! Where copies go: names below descriptors of directories.
//!
//! Others may write in these directories, too. A link that they put on the way leads nowhere: every directory below the
//! first is opened from the one above it and is never a link. A link, a pipe or a file of theirs at the place of a
//! draft or a journal is refused before it is read or written.

use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, File};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, fstat, mkdirat, openat, statat, unlinkat};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::error::{StageError, What};

/// Bits of a mode that let others write. With an ACL those of the group bound what it grants.
const OTHERS_WRITE: u32 = 0o022;

/// Bits of a mode that let others in.
const OTHERS: u32 = 0o077;

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A pipe must not make us wait.
const FILE: OFlags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// Users who may write to directories that are made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Writers {
    /// The user alone.
    Owner,
    /// Whom the umask lets.
    ByUmask,
}

/// The copy of a file or of a tree, as a place.
#[derive(Debug)]
pub struct Target {
    /// The directory that the copy is in.
    above: OwnedFd,
    path: PathBuf,
    mode: u32,
}

impl Target {
    /// The copy at `path`. The directory that it is in is made where it is missing, with those above it.
    ///
    /// # Errors
    /// Why that cannot be made or opened.
    pub fn open(path: &Path, writers: Writers) -> Result<Self, StageError> {
        let mode = if writers == Writers::Owner { 0o755 } else { 0o777 };
        let above = path.parent().unwrap_or(path);
        let made = DirBuilder::new().recursive(true).mode(mode).create(above);
        made.map_err(|error| match above.metadata() {
            Ok(there) if !there.is_dir() => in_the_way(above, "directory"),
            _ => StageError::io(What::Write, above, error),
        })?;
        let above = openat(CWD, above, DIRECTORY, Mode::empty()).map_err(|errno| opened(above, errno))?;
        Ok(Self { above, path: path.to_owned(), mode })
    }

    /// Makes the directory `below` the copy's path, if it is not there; the one above it is.
    ///
    /// # Errors
    /// Why not.
    pub fn make_directory(&self, below: &Path) -> Result<(), StageError> {
        let place = self.place(below)?;
        match mkdirat(&place.directory, &*place.name, Mode::from_raw_mode(self.mode)) {
            Ok(()) => Ok(()),
            Err(Errno::EXIST) => {
                let there = openat(&place.directory, &*place.name, DIRECTORY, Mode::empty());
                there.map(drop).map_err(|errno| opened(&place.path, errno))
            }
            Err(errno) => Err(StageError::io(What::Write, &place.path, errno)),
        }
    }

    /// The place `below` the copy's path; of the copy itself where that is empty.
    ///
    /// # Errors
    /// When a directory on the way cannot be opened, or is none.
    pub fn place(&self, below: &Path) -> Result<Place, StageError> {
        let mut names = self.path.file_name().into_iter().chain(below.iter()).peekable();
        let mut path = self.path.parent().unwrap_or(&self.path).to_owned();
        let mut directory =
            openat(&self.above, c".", DIRECTORY, Mode::empty()).map_err(|errno| opened(&path, errno))?;
        while let Some(name) = names.next() {
            path.push(name);
            if names.peek().is_none() {
                return Ok(Place { directory, name: name.to_owned(), path });
            }
            directory = openat(&directory, name, DIRECTORY, Mode::empty()).map_err(|errno| opened(&path, errno))?;
        }
        Ok(Place { directory, name: OsString::from("."), path })
    }
}

/// Where one entry's copy goes.
#[derive(Debug)]
pub struct Place {
    pub(crate) directory: OwnedFd,
    pub(crate) name: OsString,
    /// For messages.
    pub(crate) path: PathBuf,
}

impl Place {
    /// The entry of that name; `None` where there is none.
    pub(crate) fn found(&self) -> Result<Option<Stat>, StageError> {
        match statat(&self.directory, &*self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => Ok(Some(found)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(StageError::io(What::Look, &self.path, errno)),
        }
    }

    /// The file that has the name, to be read, if it is this user's; whether others may write to it.
    pub(crate) fn own_file(&self) -> Option<(File, bool)> {
        let file = openat(&self.directory, &*self.name, OFlags::RDONLY | FILE, Mode::empty()).ok()?;
        let found = fstat(&file).ok().filter(is_own_file)?;
        Some((file.into(), found.st_mode & OTHERS_WRITE != 0))
    }

    /// The file `name` beside the copy, to be written on, which nobody else can have open: this user's from before, else a new one.
    pub(crate) fn open_beside(&self, name: &OsStr) -> Result<File, StageError> {
        let path = self.path.with_file_name(name);
        let failed = |errno| StageError::io(What::Write, &path, errno);
        let create = || {
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | FILE;
            openat(&self.directory, name, flags, Mode::RUSR | Mode::WUSR).map(File::from)
        };
        match create() {
            Err(Errno::EXIST) => {}
            created => return created.map_err(failed),
        }
        let there = openat(&self.directory, name, OFlags::RDWR | FILE, Mode::empty());
        let found = match &there {
            Ok(there) => fstat(there),
            Err(_) => statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW),
        };
        let found = found.map_err(failed)?;
        if !is_own_file(&found) {
            return Err(StageError::Foreign { path, uid: found.st_uid });
        }
        if found.st_mode & OTHERS == 0 {
            return Ok(there.map_err(failed)?.into());
        }
        // A draft lets others in only when it is about to get its name. Some may have opened it.
        unlinkat(&self.directory, name, AtFlags::empty()).map_err(failed)?;
        create().map_err(failed)
    }
}

/// Whether it is a file of this user under one name. Another user cannot have made that.
pub(crate) fn is_own_file(found: &Stat) -> bool {
    let is_file = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
    is_file && found.st_uid == geteuid().as_raw() && found.st_nlink == 1
}

pub(crate) fn in_the_way(path: &Path, expected: &'static str) -> StageError {
    StageError::InTheWay { path: path.to_owned(), expected }
}

/// Why a directory could not be opened.
fn opened(path: &Path, errno: Errno) -> StageError {
    match errno {
        Errno::NOTDIR | Errno::LOOP => in_the_way(path, "directory"),
        errno => StageError::io(What::Look, path, errno),
    }
}
