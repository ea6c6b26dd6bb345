//! The record of a job that did not come up and was to cost no more than its speed (`up --on-failure direct`): programs of it use the
//! file system itself.
//!
//! It lies beside the directories of jobs, under a name that no job can have. That of an allocation lies in the user's state
//! directory as well, which the allocation's other hosts share, because `up` wrote nothing there.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::records::{read, write};
use crate::{LaunchError, base, check_job_name};

/// Why a job did not come up.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DirectRecord {
    /// The job's name.
    pub job: String,
    /// When its start failed, milliseconds since 1970.
    pub since_unix_ms: u64,
    /// The reason, in one line.
    pub why: String,
}

impl DirectRecord {
    /// Writes it into `base`, the directory that holds a user's jobs.
    ///
    /// # Errors
    /// `JobName`, and `Io`.
    pub fn write(&self, base: &Path) -> Result<(), LaunchError> {
        check_job_name(&self.job)?;
        match base::make(base) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(LaunchError::io("create the directory", base, error));
            }
            _ => {}
        }
        crate::private::check_private(base)?;
        write(self, &path(base, &self.job))
    }

    /// That of `job` in the first of `bases` which has one that can be read.
    #[must_use]
    pub fn find(bases: &[PathBuf], job: &str) -> Option<Self> {
        check_job_name(job).ok()?;
        let is_own = |base: &&PathBuf| crate::private::check_private(base).is_ok();
        bases.iter().filter(is_own).find_map(|base| read(&path(base, job)).ok().flatten())
    }

    /// Removes it from all of `bases`; whether there was one.
    pub fn remove(bases: &[PathBuf], job: &str) -> bool {
        let mut was_there = false;
        for base in bases.iter().filter(|_| check_job_name(job).is_ok()) {
            if fs::remove_file(path(base, job)).is_ok() {
                was_there = true;
                base::remove_with_last_job(base);
            }
        }
        was_there
    }
}

fn path(base: &Path, job: &str) -> PathBuf {
    base.join(format!(".direct-{job}.json"))
}

/// Where this user's programs keep what outlives them: `$XDG_STATE_HOME/forebay`, else `~/.local/state/forebay`. `None` without a
/// home.
#[must_use]
pub fn state_directory(variable: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(state.join("forebay"))
}

/// The directory that the user has for that: the home directory, or the one above `$XDG_STATE_HOME`. Where it is not there, as on a host that has
/// no home directories, nothing is made in its place.
#[must_use]
pub fn state_home(variable: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let above = absolute("XDG_STATE_HOME").and_then(|state| state.parent().map(Path::to_owned));
    above.or_else(|| absolute("HOME"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::JobDirectory;

    #[test]
    fn a_record_is_no_job_and_leaves_nothing() {
        let temporary = tempfile::tempdir().unwrap();
        let base = temporary.path().join("base");
        let record = DirectRecord { job: "7".into(), since_unix_ms: 5, why: "no route".into() };
        record.write(&base).unwrap();
        let bases = [base.clone()];
        assert_eq!(DirectRecord::find(&bases, "7"), Some(record));
        assert_eq!(DirectRecord::find(&bases, "8"), None);
        assert_eq!(JobDirectory::jobs(&bases), Vec::<String>::new());
        assert!(DirectRecord::remove(&bases, "7") && !DirectRecord::remove(&bases, "7"));
        assert!(!base.exists());
    }

    #[test]
    fn the_state_directory_is_absolute_or_none() {
        let of = |set: &[(&str, &str)]| {
            let find = |name: &str| set.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
            state_directory(&find)
        };
        assert_eq!(of(&[("HOME", "/h")]), Some("/h/.local/state/forebay".into()));
        assert_eq!(of(&[("HOME", "/h"), ("XDG_STATE_HOME", "/s")]), Some("/s/forebay".into()));
        assert_eq!(of(&[("HOME", "/h"), ("XDG_STATE_HOME", "s")]), Some("/h/.local/state/forebay".into()));
        assert_eq!(of(&[]), None);
    }
}
