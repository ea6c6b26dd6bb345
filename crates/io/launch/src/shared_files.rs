//! Files that a start needs on all hosts: the job spec with the key, and the list of hosts.
//!
//! They lie in the user's state directory, which the hosts of a cluster share, and are there for the start alone: the owner of this value
//! removes them. The directory and the files are the user's alone, as `~/.ssh` is; where MUNGE is, the key in them is sealed.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

use crate::{LaunchError, MemoryFile, check_job_name};

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
        let directory = state.join(format!(".start-{job}-{}", geteuid().as_raw()));
        remove(&directory);
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
        // As after an `up` that was killed.
        std::mem::forget(files);
        drop(SharedFiles::make(&state, "7", &spec).unwrap());
        assert_eq!(fs::read_dir(&state).unwrap().count(), 0);
    }

    #[test]
    fn a_place_that_was_prepared_is_refused() {
        let temporary = tempfile::tempdir().unwrap();
        let spec = MemoryFile::new("spec", &[b"{}"]).unwrap();
        let planted = temporary.path().join(format!(".start-7-{}", geteuid().as_raw()));
        std::os::unix::fs::symlink("/tmp", &planted).unwrap();
        assert!(SharedFiles::make(temporary.path(), "7", &spec).is_err());
        assert!(planted.is_symlink());
    }
}
