//! Schedulers that write a job's hosts into a file and name it in the environment: PBS, and LSF.
//!
//! The file has a line for each slot, so a host comes as often as it has slots. Nodes are started there by the remote
//! shell; the scheduler knows nothing of them, so only `down` ends them.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::{LaunchError, check_host};

/// A scheduler, by the variables that it sets.
struct Scheduler {
    name: &'static str,
    /// The job's number.
    job: &'static str,
    /// Where the jobs of an array share a number: which of them it is, 0 for a job of its own.
    index: Option<&'static str>,
    /// The file.
    hosts: &'static str,
}

const SCHEDULERS: [Scheduler; 2] = [
    Scheduler { name: "PBS", job: "PBS_JOBID", index: None, hosts: "PBS_NODEFILE" },
    Scheduler { name: "LSF", job: "LSB_JOBID", index: Some("LSB_JOBINDEX"), hosts: "LSB_DJOB_HOSTFILE" },
];

impl Scheduler {
    /// The name of the job that `variable`, the environment, tells of.
    fn job(&self, variable: &dyn Fn(&str) -> Option<String>) -> Option<String> {
        let set = |name| variable(name).filter(|value| !value.is_empty());
        let index = self.index.and_then(set).filter(|index| index != "0");
        set(self.job).map(|number| job_name(&number, index.as_deref()))
    }
}

/// Variables in the environment of a job of Flux: of its processes, and the script of a batch job, which is an instance of Flux.
const FLUX_JOBS: [&str; 2] = ["FLUX_JOB_ID", "FLUX_ENCLOSING_ID"];

/// How many nodes it has. Scripts of batch jobs are not told.
const FLUX_NODES: &str = "FLUX_JOB_NNODES";

/// Refuses a job of Flux that may have several nodes: nobody here knows them, and one node would serve a part of the job.
///
/// # Errors
/// `Allocation`.
pub fn check_no_flux_job(variable: &dyn Fn(&str) -> Option<String>) -> Result<(), LaunchError> {
    let set = |name: &&str| variable(name).filter(|value| !value.is_empty());
    let Some(job) = FLUX_JOBS.iter().find_map(set) else { return Ok(()) };
    let nodes = match set(&FLUX_NODES) {
        Some(one) if one == "1" => return Ok(()),
        Some(count) => format!(" with {count} nodes"),
        None => String::new(),
    };
    Err(LaunchError::Allocation(format!(
        "this runs in job {job} of Flux{nodes}, and forebay cannot learn its nodes from Flux; name them with --nodes HOSTLIST \
         (flux resource list -s allocated -no {{nodelist}}), or start a node on this host alone with --local 1"
    )))
}

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
        for scheduler in &SCHEDULERS {
            let file = variable(scheduler.hosts).filter(|file| !file.is_empty());
            if let (Some(job), Some(file)) = (scheduler.job(variable), file) {
                return Ok(Some(Self {
                    scheduler: scheduler.name,
                    job,
                    hosts: read(scheduler.hosts, &PathBuf::from(file))?,
                }));
            }
        }
        Ok(None)
    }

    /// The name of the job that the environment tells of, without a look at its hosts.
    #[must_use]
    pub fn job_of(variable: &dyn Fn(&str) -> Option<String>) -> Option<String> {
        SCHEDULERS.iter().find_map(|scheduler| scheduler.job(variable))
    }
}

/// `123-4-` of `123[4].server.site.org`: a directory's name that needs no quoting. The server is left out, because its
/// name may be longer than a job's.
fn job_name(number: &str, index: Option<&str>) -> String {
    let number = number.split('.').next().unwrap_or(number);
    let name = index.map_or_else(|| number.to_owned(), |index| format!("{number}-{index}"));
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
    name.chars().map(|letter| if allowed(letter) { letter } else { '-' }).collect()
}

fn read(variable: &str, path: &Path) -> Result<Vec<String>, LaunchError> {
    use std::io::Read;
    let mut text = String::new();
    std::fs::File::open(path).and_then(|file| file.take(FILE_BYTES_MAX).read_to_string(&mut text)).map_err(
        |error| LaunchError::Io { doing: "read", object: format!("${variable} ({})", path.display()), source: error },
    )?;
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
    if hosts.is_empty() { Err(LaunchError::NoHosts(format!("${variable} ({file})"))) } else { Ok(hosts) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(job: &str, text: &str) -> Result<Option<NodeFile>, LaunchError> {
        found_in(&[("PBS_JOBID", job)], "PBS_NODEFILE", text)
    }

    fn found_in(environment: &[(&str, &str)], hosts: &str, text: &str) -> Result<Option<NodeFile>, LaunchError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let variable = |name: &str| match environment.iter().find(|(key, _)| *key == name) {
            Some((_, value)) => Some((*value).to_owned()),
            None => (name == hosts).then(|| file.path().display().to_string()),
        };
        let found = NodeFile::from_environment(&variable);
        if let Ok(Some(found)) = &found {
            assert_eq!(NodeFile::job_of(&variable).as_ref(), Some(&found.job), "other commands find it");
            assert!(crate::check_job_name(&found.job).is_ok());
        }
        found
    }

    #[test]
    fn a_host_is_taken_once_however_many_slots_it_has() {
        let job = found("12[3].pbs01", "n2\nn2\nn1\n\nN2\nn1.cluster\n").unwrap().unwrap();
        assert_eq!((job.scheduler, job.job.as_str()), ("PBS", "12-3-"));
        assert_eq!(job.hosts, ["n2", "n1", "n1.cluster"]);
    }

    #[test]
    fn the_server_of_a_job_may_have_a_long_name() {
        let job = found("2011234.polaris-pbs-01.hsn.cm.polaris.alcf.anl.gov", "n1\n").unwrap().unwrap();
        assert_eq!(job.job, "2011234");
    }

    #[test]
    fn a_job_of_lsf_and_one_of_an_array() {
        let found = |index| found_in(&[("LSB_JOBID", "88"), ("LSB_JOBINDEX", index)], "LSB_DJOB_HOSTFILE", "a\na\nb\n");
        let job = found("0").unwrap().unwrap();
        assert_eq!((job.scheduler, job.job.as_str(), job.hosts.len()), ("LSF", "88", 2));
        assert_eq!(found("7").unwrap().unwrap().job, "88-7", "the jobs of an array share their number");
    }

    #[test]
    fn a_job_of_flux_is_refused_unless_it_has_one_node() {
        let check = |environment: &[(&str, &str)]| {
            let variable =
                |name: &str| environment.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
            check_no_flux_job(&variable).map_err(|error| error.to_string())
        };
        let refused = check(&[("FLUX_JOB_ID", "f2Wz"), ("FLUX_JOB_NNODES", "4")]).unwrap_err();
        assert!(refused.contains("job f2Wz of Flux with 4 nodes") && refused.contains("--nodes HOSTLIST"), "{refused}");
        assert!(check(&[("FLUX_ENCLOSING_ID", "f2Wz")]).unwrap_err().contains("job f2Wz of Flux, and forebay"));
        assert_eq!(check(&[("FLUX_JOB_ID", "f2Wz"), ("FLUX_JOB_NNODES", "1")]), Ok(()));
        assert_eq!(check(&[("FLUX_URI", "local:///run/flux/local")]), Ok(()), "of a login node");
    }

    #[test]
    fn outside_a_job_there_is_none_and_a_bad_file_is_named() {
        assert_eq!(found("", "n1\n").unwrap(), None);
        assert!(found("7", "n1\n-x\n").unwrap_err().to_string().contains("line 2: '-x' is not a host name"));
        assert!(found("7", "\n").unwrap_err().to_string().contains("names no hosts"));
        let gone = NodeFile::from_environment(&|_| Some("/nonexistent/nodes".to_owned()));
        assert!(gone.unwrap_err().to_string().contains("cannot read $PBS_NODEFILE (/nonexistent/nodes)"));
    }
}
