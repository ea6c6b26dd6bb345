//! Directories of this user that nobody else may enter: what makes one fit to be trusted where anybody can put things.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD};
use rustix::process::geteuid;

use crate::LaunchError;

pub(crate) fn uid() -> u32 {
    geteuid().as_raw()
}

/// Makes a directory that nobody else may enter, if it is not there.
pub(crate) fn make_private(path: &Path) -> Result<(), LaunchError> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(LaunchError::io("create the directory", path, error))
        }
        _ => Ok(()),
    }
}

/// Whether `path` is a real directory of this user that nobody else may enter.
pub(crate) fn check_private(path: &Path) -> Result<(), LaunchError> {
    let stat = rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)
        .map_err(|errno| LaunchError::io("look at", path, errno))?;
    let problem = if !rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir() {
        "it is not a directory; choose another with --directory".to_owned()
    } else if stat.st_uid != uid() {
        format!("it belongs to user {}, not to you (user {}); choose another with --directory", stat.st_uid, uid())
    } else if stat.st_mode & 0o077 != 0 {
        format!("others may enter it (mode {:04o}); chmod 700 it or remove it", stat.st_mode & 0o7777)
    } else {
        return Ok(());
    };
    Err(LaunchError::Unsafe { path: path.to_owned(), problem })
}
