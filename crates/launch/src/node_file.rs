//! Schedulers that write a job's hosts into a file and name it in the environment: PBS, and LSF.
//!
//! The file has a line for each slot, so a host comes as often as it has slots. Nodes are started there by the remote
//! shell; the scheduler knows nothing of them, so only `down` ends them.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::{LaunchError, check_host};

/// A scheduler: its name, the variable with the job's number, that with the file.
const SCHEDULERS: [(&str, &str, &str); 2] =
    [("PBS", "PBS_JOBID", "PBS_NODEFILE"), ("LSF", "LSB_JOBID", "LSB_DJOB_HOSTFILE")];

/// The largest file that is read, bytes: a slot a core of the largest machines.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// A job of such a scheduler.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeFile {
    /// The scheduler's name.
    pub scheduler: &'static str,
    /// The job's number as a name that a job of ours may have.
    pub job: String,
    /// Its hosts, each once, in their order.
    pub hosts: Vec<String>,
}

impl NodeFile {
    /// The job that `variable`, the environment, tells of; `None` outside one.
    ///
    /// # Errors
    /// `Io` when the file cannot be read, `HostFile` and `NoHosts` when it does not list hosts.
    pub fn from_environment(variable: &dyn Fn(&str) -> Option<String>) -> Result<Option<Self>, LaunchError> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        for (scheduler, job, file) in SCHEDULERS {
            if let (Some(job), Some(file)) = (set(job), set(file)) {
                let hosts = read(&PathBuf::from(file))?;
                return Ok(Some(Self { scheduler, job: job_name(&job), hosts }));
            }
        }
        Ok(None)
    }

    /// The name of the job that the environment tells of, without a look at its hosts.
    #[must_use]
    pub fn job_of(variable: &dyn Fn(&str) -> Option<String>) -> Option<String> {
        let job = SCHEDULERS.iter().find_map(|(_, job, _)| variable(job).filter(|job| !job.is_empty()));
        job.map(|job| job_name(&job))
    }
}

/// `123[4].server` is no name of a directory that needs no quoting.
fn job_name(number: &str) -> String {
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '_');
    number.chars().map(|letter| if allowed(letter) { letter } else { '-' }).collect()
}

fn read(path: &Path) -> Result<Vec<String>, LaunchError> {
    use std::io::Read;
    let mut text = String::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(FILE_BYTES_MAX).read_to_string(&mut text))
        .map_err(|error| LaunchError::io("read", path, error))?;
    let file = path.display().to_string();
    let mut seen = HashSet::new();
    let mut hosts = Vec::new();
    for (index, host) in text.lines().map(str::trim).enumerate().filter(|(_, host)| !host.is_empty()) {
        check_host(host).map_err(|error| LaunchError::HostFile {
            file: file.clone(),
            line: index + 1,
            problem: error.to_string(),
        })?;
        if seen.insert(host.to_ascii_lowercase()) {
            hosts.push(host.to_owned());
        }
    }
    if hosts.is_empty() { Err(LaunchError::NoHosts(format!("the host file {file}"))) } else { Ok(hosts) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(job: &str, text: &str) -> Result<Option<NodeFile>, LaunchError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        NodeFile::from_environment(&|name| match name {
            "PBS_JOBID" => Some(job.to_owned()),
            "PBS_NODEFILE" => Some(file.path().display().to_string()),
            _ => None,
        })
    }

    #[test]
    fn a_host_is_taken_once_however_many_slots_it_has() {
        let job = found("12[3].pbs01", "n2\nn2\nn1\n\nN2\nn1.cluster\n").unwrap().unwrap();
        assert_eq!((job.scheduler, job.job.as_str()), ("PBS", "12-3-.pbs01"));
        assert_eq!(job.hosts, ["n2", "n1", "n1.cluster"]);
        assert!(crate::check_job_name(&job.job).is_ok());
    }

    #[test]
    fn outside_a_job_there_is_none_and_a_bad_file_is_named() {
        assert_eq!(found("", "n1\n").unwrap(), None);
        assert!(found("7", "n1\n-x\n").unwrap_err().to_string().contains("line 2: '-x' is not a host name"));
        assert!(found("7", "\n").unwrap_err().to_string().contains("names no hosts"));
        let gone = NodeFile::from_environment(&|_| Some("/nonexistent/nodes".to_owned()));
        assert!(gone.unwrap_err().to_string().contains("cannot read /nonexistent/nodes"));
    }
}
