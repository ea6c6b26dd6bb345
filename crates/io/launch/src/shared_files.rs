//! Files that a start needs on all hosts: the job spec with the key, and the list of hosts.
//!
//! They lie in the user's state directory, which the hosts of a cluster share, and are there for the start alone: the owner of this value
//! removes them. The directory and the files are the user's alone, as `~/.ssh` is; where MUNGE is, the key in them is sealed.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::{LaunchError, MemoryFile, Process, check_job_name};

/// Directories of starts are named by job, host and process: hosts share the place, and several clusters may.
const PREFIX: &str = ".start-";

/// The files; dropping it removes them.
#[derive(Debug)]
pub struct SharedFiles {
    directory: PathBuf,
}

impl SharedFiles {
    /// Below `state`, the user's state directory, for `job`, with the job spec. Files of an earlier start of the job that was killed are removed.
    ///
    /// # Errors
    /// `JobName`; `Io` and `Unsafe` when there is no place that is this user's alone.
    pub fn make(state: &Path, job: &str, spec: &MemoryFile) -> Result<Self, LaunchError> {
        check_job_name(job)?;
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(state)
            .map_err(|error| LaunchError::io("create the directory", state, error))?;
        let host = rustix::system::uname().nodename().to_string_lossy().replace('/', "_");
        remove_stale(state, &host);
        let directory = state.join(format!("{PREFIX}{job}-{host}-{}", std::process::id()));
        DirBuilder::new()
            .mode(0o700)
            .create(&directory)
            .map_err(|error| LaunchError::io("create the directory", &directory, error))?;
        let files = Self { directory };
        crate::private::check_private(&files.directory)?;
        let path = files.spec();
        let mut file = create(&path)?;
        let written = spec.copy_to(&mut file).and_then(|()| file.sync_all());
        written.map_err(|error| LaunchError::io("write", &path, error))?;
        Ok(files)
    }

    /// The job spec.
    #[must_use]
    pub fn spec(&self) -> PathBuf {
        self.directory.join("spec")
    }

    /// Writes the list of hosts and returns its path.
    pub(crate) fn write_hosts(&self, lines: &str) -> Result<PathBuf, LaunchError> {
        let path = self.directory.join("hosts");
        create(&path)?.write_all(lines.as_bytes()).map_err(|error| LaunchError::io("write", &path, error))?;
        Ok(path)
    }
}

impl Drop for SharedFiles {
    fn drop(&mut self) {
        remove(&self.directory);
    }
}

fn create(path: &Path) -> Result<fs::File, LaunchError> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    file.map_err(|error| LaunchError::io("create", path, error))
}

/// Removes what starts of this host have left that were killed.
fn remove_stale(state: &Path, host: &str) {
    let entries = fs::read_dir(state).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        let Some((start, pid)) = name.to_str().and_then(|name| name.rsplit_once('-')) else { continue };
        let is_of_host = start.starts_with(PREFIX) && start.ends_with(&format!("-{host}"));
        let is_over = pid.parse().is_ok_and(|pid| Process::of(pid).is_none());
        if is_of_host && is_over && crate::private::check_private(&entry.path()).is_ok() {
            remove(&entry.path());
        }
    }
}

/// Only what is written here is removed.
fn remove(directory: &Path) {
    for name in ["spec", "hosts"] {
        fs::remove_file(directory.join(name)).ok();
    }
    match fs::remove_dir(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            tracing::warn!(%error, directory = %directory.display(), "files of a start stay");
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn they_are_the_users_alone_and_gone_afterwards() {
        let temporary = tempfile::tempdir().unwrap();
        let state = temporary.path().join("state");
        let spec = MemoryFile::new("spec", &[b"key\n", b"{}"]).unwrap();
        let files = SharedFiles::make(&state, "7", &spec).unwrap();
        let hosts = files.write_hosts("a\nb\n").unwrap();
        for (path, text) in [(files.spec(), "key\n{}"), (hosts, "a\nb\n")] {
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        drop(files);
        assert_eq!(fs::read_dir(&state).unwrap().count(), 0);
    }

    #[test]
    fn files_of_a_start_that_was_killed_are_removed_by_the_next() {
        let temporary = tempfile::tempdir().unwrap();
        let spec = MemoryFile::new("spec", &[b"{}"]).unwrap();
        let files = SharedFiles::make(temporary.path(), "7", &spec).unwrap();
        let own = files.spec().parent().unwrap().to_owned();
        // No process has such a number.
        let named = |pid: &str| own.to_str().unwrap().rsplit_once('-').unwrap().0.to_owned() + "-" + pid;
        let (killed, elsewhere) = (named("4194305"), temporary.path().join(".start-7-another-4194305"));
        for directory in [Path::new(&killed), &elsewhere] {
            DirBuilder::new().mode(0o700).create(directory).unwrap();
            fs::write(directory.join("spec"), "key").unwrap();
        }
        drop(files);
        drop(SharedFiles::make(temporary.path(), "8", &spec).unwrap());
        assert!(!Path::new(&killed).exists() && elsewhere.join("spec").exists(), "of another host nothing is known");
    }

    #[test]
    fn a_place_that_was_prepared_is_refused() {
        let temporary = tempfile::tempdir().unwrap();
        let spec = MemoryFile::new("spec", &[b"{}"]).unwrap();
        let own = SharedFiles::make(temporary.path(), "7", &spec).unwrap().spec();
        let (planted, aim) = (own.parent().unwrap(), tempfile::tempdir().unwrap());
        fs::write(aim.path().join("spec"), "of others").unwrap();
        std::os::unix::fs::symlink(aim.path(), planted).unwrap();
        assert!(SharedFiles::make(temporary.path(), "7", &spec).is_err());
        assert!(planted.is_symlink() && aim.path().join("spec").exists());
    }
}
