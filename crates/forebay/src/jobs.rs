//! Which job a command is about, and where its directory is.

use std::path::{Path, PathBuf};

use anyhow::{anyhow, bail};
use forebay_launch::{Allocation, JobDirectory, NodeFile, bases};

use crate::settings::{Effective, Settings};

/// The name of a job that nobody named, outside an allocation.
const DEFAULT_JOB: &str = "default";

/// What a command says, on whatever host, when the job has nothing there.
pub const NOT_UP: &str = "is up on this host";

/// What a scheduler has given this job.
#[derive(Debug)]
pub enum Allocated {
    /// Slurm, by whose `srun` nodes are started.
    Slurm(Allocation),
    /// Another that lists hosts.
    Hosts(NodeFile),
}

impl Allocated {
    /// What the environment tells of.
    ///
    /// # Errors
    /// When it tells of a job but not of its hosts.
    pub fn from_environment() -> anyhow::Result<Option<Self>> {
        if let Some(allocation) = Allocation::from_environment(&variable)? {
            return Ok(Some(Self::Slurm(allocation)));
        }
        Ok(NodeFile::from_environment(&variable)?.map(Self::Hosts))
    }

    /// The job's name.
    fn job(&self) -> &str {
        match self {
            Self::Slurm(allocation) => &allocation.job_id,
            Self::Hosts(file) => &file.job,
        }
    }
}

/// The places where jobs of this user lie on this host, the preferred one first.
pub fn job_bases(given: Option<&Path>) -> Vec<PathBuf> {
    match given {
        Some(given) => vec![given.to_owned()],
        None => bases(std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).as_deref()),
    }
}

/// A variable of the environment, as text.
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The name of a job to be started.
pub fn name_to_start(settings: &Settings, allocated: Option<&Allocated>) -> String {
    let allocated = || allocated.map_or_else(|| DEFAULT_JOB.to_owned(), |allocated| allocated.job().to_owned());
    settings.job.clone().unwrap_or_else(allocated)
}

/// The directory of the job that is meant: the one named, else the allocation's, else the only one.
///
/// # Errors
/// When there is none, or several.
pub fn find(effective: &Effective) -> anyhow::Result<JobDirectory> {
    let bases = job_bases(effective.directory()?.as_deref());
    if let Some(job) = effective.job()? {
        let Some(directory) = JobDirectory::find(&bases, &job)? else {
            bail!("no job {job} {NOT_UP}{}", others(&JobDirectory::jobs(&bases)));
        };
        return Ok(directory);
    }
    let jobs = JobDirectory::jobs(&bases);
    let allocated = variable("SLURM_JOB_ID").or_else(|| NodeFile::job_of(&variable)).filter(|id| jobs.contains(id));
    let job = match (allocated, jobs.as_slice()) {
        (Some(job), _) => job,
        (None, [job]) => job.clone(),
        (None, []) => bail!("no job {NOT_UP}; forebay up starts one"),
        (None, jobs) => bail!("several jobs are up on this host: {}; choose one with --job NAME", jobs.join(", ")),
    };
    JobDirectory::find(&bases, &job)?.ok_or_else(|| anyhow!("the job {job} has just ended"))
}

fn others(jobs: &[String]) -> String {
    match jobs {
        [] => "; forebay up starts one".to_owned(),
        jobs => format!("; these are: {}", jobs.join(", ")),
    }
}
