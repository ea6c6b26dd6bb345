//! The allocation that this process runs in, as its scheduler tells it: Slurm and Flux by lists of nodes, PBS and LSF by a file with
//! a line for each slot, in which a host comes as often as it has slots.

use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::{LaunchError, check_host, expand_hostlist};

/// A scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scheduler {
    /// Slurm.
    Slurm,
    /// Flux.
    Flux,
    /// PBS.
    Pbs,
    /// LSF.
    Lsf,
}

impl fmt::Display for Scheduler {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Slurm => "Slurm",
            Self::Flux => "Flux",
            Self::Pbs => "PBS",
            Self::Lsf => "LSF",
        })
    }
}

/// An allocation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Allocation {
    /// Whose it is.
    pub scheduler: Scheduler,
    /// The scheduler's number of it.
    pub number: String,
    /// The same as a name that a job of ours may have.
    pub job: String,
    /// Its nodes, each once, in their order.
    pub hosts: Vec<String>,
    /// The same as the scheduler writes it, `n[1-9]`; empty where it wrote a file.
    pub list: String,
    /// Where each host is named first in a file with a line for each slot, from 0; empty where there is none.
    pub first_lines: Vec<usize>,
}

/// A variable of the environment, as text.
type Variable<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The output of a program of the scheduler; `None` when it fails.
type Ask<'a> = &'a dyn Fn(&str, &[&str]) -> Option<String>;

/// The variables of a scheduler that writes a file.
struct FileVariables {
    scheduler: Scheduler,
    /// The job's number.
    job: &'static str,
    /// Where the jobs of an array share a number: which of them it is, 0 for a job of its own.
    index: Option<&'static str>,
    /// The file.
    hosts: &'static str,
}

const WITH_FILES: [FileVariables; 2] = [
    FileVariables { scheduler: Scheduler::Pbs, job: "PBS_JOBID", index: None, hosts: "PBS_NODEFILE" },
    FileVariables {
        scheduler: Scheduler::Lsf,
        job: "LSB_JOBID",
        index: Some("LSB_JOBINDEX"),
        hosts: "LSB_DJOB_HOSTFILE",
    },
];

impl FileVariables {
    /// The number of the job that the environment tells of, and its name.
    fn job(&self, variable: Variable<'_>) -> Option<(String, String)> {
        let set = |name| variable(name).filter(|value| !value.is_empty());
        let index = self.index.and_then(set).filter(|index| index != "0");
        set(self.job).map(|number| {
            let name = job_name(&number, index.as_deref());
            (number, name)
        })
    }
}

/// The instance of Flux that a batch job is; in its script the variables of jobs are not set.
const FLUX_INSTANCE: &str = "FLUX_ENCLOSING_ID";

/// The job of Flux that a program belongs to, and how many nodes it has.
const FLUX_JOB: &str = "FLUX_JOB_ID";
const FLUX_NODES: &str = "FLUX_JOB_NNODES";

/// The largest file that is read, bytes: a slot a core of the largest machines.
const FILE_BYTES_MAX: u64 = 256 << 20;

impl Allocation {
    /// The allocation that the environment tells of; `None` outside one.
    ///
    /// # Errors
    /// `Allocation`, `HostList`, `HostFile` and `NoHosts` when it tells of a job but not of its nodes; `Io` when a file cannot be read.
    pub fn from_environment(variable: Variable<'_>) -> Result<Option<Self>, LaunchError> {
        Self::by(variable, &crate::job_end::said_by)
    }

    fn by(variable: Variable<'_>, ask: Ask<'_>) -> Result<Option<Self>, LaunchError> {
        match Self::of_slurm(variable)? {
            None => {}
            found => return Ok(found),
        }
        match Self::of_flux(variable, ask)? {
            None => Self::of_file(variable),
            found => Ok(found),
        }
    }

    /// The name of the job that the environment tells of, without a look at its hosts.
    #[must_use]
    pub fn job_of(variable: Variable<'_>) -> Option<String> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let flux = || set(FLUX_INSTANCE).map(|id| job_name(&id, None));
        let file = || WITH_FILES.iter().find_map(|variables| variables.job(variable)).map(|(_, name)| name);
        set("SLURM_JOB_ID").or_else(flux).or_else(file)
    }

    fn of_slurm(variable: Variable<'_>) -> Result<Option<Self>, LaunchError> {
        let Some(number) = variable("SLURM_JOB_ID").filter(|id| !id.is_empty()) else {
            return Ok(None);
        };
        let list = variable("SLURM_JOB_NODELIST").filter(|list| !list.is_empty());
        let list = list.ok_or_else(|| {
            LaunchError::Allocation(format!(
                "the Slurm allocation cannot be read: SLURM_JOB_ID is {number}, but SLURM_JOB_NODELIST is not set"
            ))
        })?;
        let hosts = expand_hostlist(&list)?;
        Ok(Some(Self { scheduler: Scheduler::Slurm, job: number.clone(), number, hosts, list, first_lines: vec![] }))
    }

    /// Flux sets no variable with hosts: the instance is asked.
    fn of_flux(variable: Variable<'_>, ask: Ask<'_>) -> Result<Option<Self>, LaunchError> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let Some(number) = set(FLUX_INSTANCE) else {
            return match (set(FLUX_JOB), set(FLUX_NODES)) {
                (None, _) => Ok(None),
                (Some(_), Some(one)) if one == "1" => Ok(None),
                (Some(job), count) => {
                    let nodes = count.map_or_else(String::new, |count| format!(" with {count} nodes"));
                    Err(LaunchError::Allocation(format!(
                        "this runs in job {job} of Flux{nodes}, which is no instance of its own, so forebay cannot start nodes there; \
                         begin the job by flux batch or flux alloc, name its nodes with --nodes HOSTLIST, or start one here with --local 1"
                    )))
                }
            };
        };
        let list = ask("flux", &["getattr", "hostlist"]).ok_or_else(|| {
            LaunchError::Allocation(format!(
                "{FLUX_INSTANCE} is {number}, but flux getattr hostlist does not tell the hosts; is flux in PATH?"
            ))
        })?;
        let list = list.trim().to_owned();
        let hosts = expand_hostlist(&list)?;
        if let Some(twice) = twice(&hosts) {
            return Err(LaunchError::Allocation(format!(
                "this instance of Flux has several brokers on {twice}; name its nodes with --nodes HOSTLIST"
            )));
        }
        let job = job_name(&number, None);
        Ok(Some(Self { scheduler: Scheduler::Flux, number, job, hosts, list, first_lines: vec![] }))
    }

    fn of_file(variable: Variable<'_>) -> Result<Option<Self>, LaunchError> {
        for variables in &WITH_FILES {
            let file = variable(variables.hosts).filter(|file| !file.is_empty());
            if let (Some((number, job)), Some(file)) = (variables.job(variable), file) {
                let (hosts, first_lines) = read(variables.hosts, &PathBuf::from(file))?.into_iter().unzip();
                let scheduler = variables.scheduler;
                return Ok(Some(Self { scheduler, number, job, hosts, list: String::new(), first_lines }));
            }
        }
        Ok(None)
    }
}

fn twice(hosts: &[String]) -> Option<&String> {
    let mut seen = HashSet::new();
    hosts.iter().find(|host| !seen.insert(*host))
}

/// `123-4-` of `123[4].server.site.org`, `f2Wz` of `ƒ2Wz`: a directory's name that needs no quoting. The server is left out,
/// because its name may be longer than a job's.
fn job_name(number: &str, index: Option<&str>) -> String {
    let number = number.split('.').next().unwrap_or(number).replace('ƒ', "f");
    let name = index.map_or_else(|| number.clone(), |index| format!("{number}-{index}"));
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
    name.chars().map(|letter| if allowed(letter) { letter } else { '-' }).collect()
}

/// The hosts in the file, each once, with the line that names it first.
fn read(variable: &str, path: &Path) -> Result<Vec<(String, usize)>, LaunchError> {
    use std::io::Read;
    let mut text = String::new();
    std::fs::File::open(path).and_then(|file| file.take(FILE_BYTES_MAX).read_to_string(&mut text)).map_err(
        |error| LaunchError::Io { doing: "read", object: format!("${variable} ({})", path.display()), source: error },
    )?;
    let file = path.display().to_string();
    let mut seen = HashSet::new();
    let mut hosts = Vec::new();
    let named = text.lines().enumerate().map(|(index, line)| (index, line.trim())).filter(|(_, host)| !host.is_empty());
    for (slot, (index, host)) in named.enumerate() {
        check_host(host).map_err(|error| LaunchError::HostFile {
            file: file.clone(),
            line: index + 1,
            problem: error.to_string(),
        })?;
        if seen.insert(host.to_ascii_lowercase()) {
            hosts.push((host.to_owned(), slot));
        }
    }
    if hosts.is_empty() { Err(LaunchError::NoHosts(format!("${variable} ({file})"))) } else { Ok(hosts) }
}

#[cfg(test)]
#[path = "allocation_tests.rs"]
mod tests;
