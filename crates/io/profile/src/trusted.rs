//! Files and directories that nobody else could have prepared: only such are used.
//!
//! A profile makes every node of a job read, and a pack stands for the contents of programs, so both must be this user's
//! own. Each is a regular file of his, not a symbolic link, that nobody else may write to. The checks are of the open
//! descriptor, never the name.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, openat, statat};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::ProfileError;

/// Bits of a mode that let others write.
const OTHERS_WRITE: u32 = 0o022;

/// Opens file `name` of `directory`; `None` when there is none. `shown` is its path, for messages.
pub(crate) fn open_file(directory: impl AsFd, name: &str, shown: &Path) -> Result<Option<(File, Stat)>, ProfileError> {
    // A FIFO must not make us wait; its kind is looked at before anything is read.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = match openat(&directory, name, flags, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::NOENT) => return Ok(None),
        // It may say more to tell whose it is.
        Err(errno) => {
            let found = statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW).ok();
            let problem = found.and_then(|stat| problem_of(&stat, FileType::RegularFile));
            return Err(refusal(shown, problem, errno));
        }
    };
    let stat = fstat(&file).map_err(|errno| ProfileError::io("look at", shown, errno))?;
    match problem_of(&stat, FileType::RegularFile) {
        Some(problem) => Err(ProfileError::Untrusted { path: shown.to_owned(), problem }),
        None => Ok(Some((File::from(file), stat))),
    }
}

/// Opens the directory at `path`.
pub(crate) fn open_directory(path: &Path) -> Result<OwnedFd, ProfileError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = openat(rustix::fs::CWD, path, flags, Mode::empty()).map_err(|errno| {
        let found = statat(rustix::fs::CWD, path, AtFlags::SYMLINK_NOFOLLOW).ok();
        refusal(path, found.and_then(|stat| problem_of(&stat, FileType::Directory)), errno)
    })?;
    let stat = fstat(&directory).map_err(|errno| ProfileError::io("look at", path, errno))?;
    match problem_of(&stat, FileType::Directory) {
        Some(problem) => Err(ProfileError::Untrusted { path: path.to_owned(), problem }),
        None => Ok(directory),
    }
}

/// Whether file `name` of `directory` is not there, or this user's own, so that it may be replaced. In a directory of
/// several users a profile of somebody else is his, whatever the directory's mode allows.
pub(crate) fn check_replaceable(directory: impl AsFd, name: &str, shown: &Path) -> Result<(), ProfileError> {
    let mut stat = match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Ok(()),
        Err(errno) => return Err(ProfileError::io("look at", shown, errno)),
    };
    // Its mode will be that of the new one.
    stat.st_mode &= !OTHERS_WRITE;
    match problem_of(&stat, FileType::RegularFile) {
        Some(problem) => Err(ProfileError::Untrusted { path: shown.to_owned(), problem }),
        None => Ok(()),
    }
}

fn refusal(path: &Path, problem: Option<String>, errno: Errno) -> ProfileError {
    match problem {
        Some(problem) => ProfileError::Untrusted { path: path.to_owned(), problem },
        None => ProfileError::io("open", path, io::Error::from(errno)),
    }
}

/// The reason why a file or directory is not used, and what to do about it.
fn problem_of(stat: &Stat, wanted: FileType) -> Option<String> {
    let (found, own) = (FileType::from_raw_mode(stat.st_mode), geteuid().as_raw());
    if found == FileType::Symlink {
        Some("it is a symbolic link; remove it, or give --profile-dir the place that it leads to".to_owned())
    } else if found != wanted {
        let word = if wanted == FileType::Directory { "directory" } else { "regular file" };
        Some(format!("it is not a {word}; give --profile-dir another place, or remove it"))
    } else if stat.st_uid != own {
        Some(format!(
            "it belongs to user {}, not to you (user {own}); use a place of your own (--profile-dir)",
            stat.st_uid
        ))
    } else if stat.st_mode & OTHERS_WRITE != 0 {
        let mode = stat.st_mode & 0o7777;
        Some(format!("others may write to it (mode {mode:04o}); look at who did, then chmod go-w it or remove it"))
    } else {
        None
    }
}
