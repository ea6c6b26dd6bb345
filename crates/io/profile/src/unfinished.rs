//! A file that is being written: under a name of its own until it is whole, so that nobody ever reads half of one and
//! of two writers the last one wins.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, Mode, OFlags, openat, renameat, unlinkat};
use rustix::rand::{GetRandomFlags, getrandom};

use crate::{ProfileError, trusted};

/// How old a file must be that somebody began to write into a directory of profiles and did not finish, before it is
/// removed: whoever still writes it touches it every few seconds.
const PROFILE_UNFINISHED_AGE: Duration = Duration::from_secs(3600);

/// Affixes of the names of unfinished files.
const PREFIX: &str = ".";
const SUFFIX: &str = ".unfinished";

/// A new file that takes its name when it is finished, and is gone when it is dropped before.
pub(crate) struct Unfinished {
    directory: Arc<OwnedFd>,
    name: String,
    final_name: String,
    path: PathBuf,
    file: File,
    is_finished: bool,
}

impl Unfinished {
    /// Begins file `name` of `directory`, which lies at `shown`. It must not be there, or be this user's.
    pub fn begin(directory: &Arc<OwnedFd>, name: &str, shown: &Path) -> Result<Self, ProfileError> {
        let path = shown.join(name);
        trusted::check_replaceable(directory, name, &path)?;
        // Writers on several hosts may share the directory: a process's number would not do.
        let mut random = [0u8; 8];
        getrandom(&mut random, GetRandomFlags::empty()).map_err(|errno| ProfileError::io("create", &path, errno))?;
        let own = format!("{PREFIX}{name}.{:016x}{SUFFIX}", u64::from_ne_bytes(random));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(directory, &*own, flags, Mode::RUSR | Mode::WUSR)
            .map_err(|errno| ProfileError::io("create", &path, errno))?;
        let (directory, final_name) = (Arc::clone(directory), name.to_owned());
        Ok(Self { directory, name: own, final_name, path, file: File::from(file), is_finished: false })
    }

    /// Its path when it is finished.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds bytes at its end.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), ProfileError> {
        self.file.write_all(bytes).map_err(|error| ProfileError::io("write", &self.path, error))
    }

    /// Gives it its name, in the place of what had it. The directory is not synced: a profile that a crash takes with it
    /// is recorded again.
    pub fn finish(mut self) -> Result<(), ProfileError> {
        let finished = self.file.sync_all().and_then(|()| {
            renameat(&self.directory, &*self.name, &self.directory, &*self.final_name).map_err(io::Error::from)
        });
        finished.map_err(|error| ProfileError::io("write", &self.path, error))?;
        self.is_finished = true;
        Ok(())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.is_finished {
            // A file that cannot be removed now is removed when it is old.
            let _ = unlinkat(&self.directory, &*self.name, AtFlags::empty());
        }
    }
}

/// Whether a file of that name was begun, and its writer must have died since.
pub(crate) fn is_left_behind(name: &str, modified: SystemTime, now: SystemTime) -> bool {
    let is_unfinished = name.starts_with(PREFIX) && name.ends_with(SUFFIX);
    is_unfinished && now.duration_since(modified).is_ok_and(|age| age > PROFILE_UNFINISHED_AGE)
}
