//! Which job a command is about, and where its directory is.

use std::path::{Path, PathBuf};
use std::sync::Once;

use anyhow::{Context, bail};
use forebay_daemon::JobLabels;
use forebay_launch::{Allocation, DirectRecord, JobDirectory, SharedPlace, session_base, state_directory};

use crate::machine;
use crate::output::tell;
use crate::settings::{Effective, Settings};

/// The name of a job that nobody named, outside an allocation.
pub const DEFAULT_JOB: &str = "default";

/// The job that a command is about is not up on this host.
#[derive(Debug)]
pub struct NotUp(String);

impl std::fmt::Display for NotUp {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for NotUp {}

/// The places where jobs of this user lie on this host, the preferred one first.
pub fn job_bases(given: Option<&Path>) -> Vec<PathBuf> {
    let shared = SharedPlace::of_this_user();
    match given {
        Some(given) => shared.instead_of(given),
        None => of_session().into_iter().chain(shared.instead_of(&shared.usual())).collect(),
    }
}

/// The place for a new job. That of a job of several hosts is the same on every host, but for hosts where another user has
/// taken its name.
pub fn base_for_new(given: Option<&Path>, is_local: bool) -> anyhow::Result<PathBuf> {
    let shared = SharedPlace::of_this_user();
    let wanted = given.map(Path::to_owned).or_else(|| of_session().filter(|_| is_local));
    let wanted = wanted.unwrap_or_else(|| shared.usual());
    let base =
        shared.free(&wanted).context("there is no directory for the job's files; choose one with --directory")?;
    if base != wanted {
        tell!("forebay: note: another user owns {}; the job's files are below {}", wanted.display(), base.display());
    }
    Ok(base)
}

fn of_session() -> Option<PathBuf> {
    session_base(std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).as_deref())
}

/// A variable of the environment, as text.
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The name of a job to be started.
pub fn name_to_start(settings: &Settings, allocated: Option<&Allocation>) -> String {
    let allocated = || allocated.map_or_else(|| DEFAULT_JOB.to_owned(), |allocated| allocated.job.clone());
    settings.job.clone().unwrap_or_else(allocated)
}

/// The directory of the job that is meant: the one named, else the allocation's, else the only one.
///
/// # Errors
/// When there is none, or several, or jobs would lie where others could have prepared them.
pub fn find(effective: &Effective) -> anyhow::Result<JobDirectory> {
    match find_or_several(effective)? {
        Found::Job(directory) => Ok(directory),
        Found::Several(several) => {
            let names: Vec<String> = several.iter().map(JobDirectory::job).collect();
            bail!("several jobs are up on this host: {}; choose one with --job NAME", names.join(", "))
        }
    }
}

/// The result of `find_or_several`.
#[derive(Debug)]
pub enum Found {
    /// The job that is meant.
    Job(JobDirectory),
    /// None is named, and it could be any of these.
    Several(Vec<JobDirectory>),
}

/// The name of the job that is meant where none is up: the one given, else the allocation's.
///
/// # Errors
/// `UsageError` when the name given cannot be one.
pub fn name_meant(effective: &Effective) -> anyhow::Result<String> {
    Ok(effective.job()?.or_else(of_scheduler).unwrap_or_else(|| DEFAULT_JOB.to_owned()))
}

/// The name that a scheduler gave the job of this process.
pub fn of_scheduler() -> Option<String> {
    Allocation::job_of(&variable)
}

/// Where the record of a job that did not come up lies for the other hosts of its allocation.
pub fn shared_record_base(job: &str) -> Option<PathBuf> {
    of_scheduler().filter(|id| id == job).and_then(|_| state_directory(&variable))
}

/// The record of the job that is meant, if its `up` failed and its programs are to use the file system itself.
///
/// # Errors
/// As `name_meant`.
pub fn direct(effective: &Effective) -> anyhow::Result<Option<DirectRecord>> {
    let job = name_meant(effective)?;
    Ok(DirectRecord::find(&record_bases(effective, &job)?, &job))
}

/// Removes that record; whether there was one.
///
/// # Errors
/// As `name_meant`.
pub fn remove_direct(effective: &Effective) -> anyhow::Result<bool> {
    let job = name_meant(effective)?;
    Ok(DirectRecord::remove(&record_bases(effective, &job)?, &job))
}

fn record_bases(effective: &Effective, job: &str) -> anyhow::Result<Vec<PathBuf>> {
    let bases = job_bases(effective.directory()?.as_deref());
    Ok(bases.into_iter().chain(shared_record_base(job)).collect())
}

/// As `find`, for a command that can do something with several.
///
/// # Errors
/// When there is none, or jobs would lie where others could have prepared them.
pub fn find_or_several(effective: &Effective) -> anyhow::Result<Found> {
    let found = look_for(effective);
    match found {
        Err(error) if error.is::<NotUp>() => Err(match direct(effective)? {
            Some(_) => NotUp(format!("{error}; its start failed, and forebay run uses the file system itself")).into(),
            None => error,
        }),
        found => found,
    }
}

fn look_for(effective: &Effective) -> anyhow::Result<Found> {
    let bases = job_bases(effective.directory()?.as_deref());
    if let Some(job) = effective.job()? {
        let Some(directory) = JobDirectory::find(&bases, &job)? else {
            JobDirectory::check_bases(&bases)?;
            let why = format!("no job {job} is up on this host{}", others(&JobDirectory::jobs(&bases)));
            bail!(NotUp(format!("{why} ({})", looked(&bases))));
        };
        return Ok(Found::Job(directory));
    }
    let jobs = JobDirectory::jobs(&bases);
    if jobs.is_empty() {
        JobDirectory::check_bases(&bases)?;
        tell_of_no_jobs(&bases);
    }
    let chosen = choose(of_scheduler(), &jobs);
    let Some(job) = chosen.map_err(|why| NotUp(format!("{why} ({})", looked(&bases))))? else {
        let directories = jobs.iter().filter_map(|job| JobDirectory::find(&bases, job).transpose());
        return Ok(Found::Several(directories.collect::<Result<_, _>>()?));
    };
    let found = JobDirectory::find(&bases, &job)?.ok_or_else(|| NotUp(format!("the job {job} has just ended")))?;
    Ok(Found::Job(found))
}

/// Names what is taken for no job, once in a command, which may look for its job again.
fn tell_of_no_jobs(bases: &[PathBuf]) {
    static TOLD: Once = Once::new();
    TOLD.call_once(|| {
        JobDirectory::no_jobs(bases).iter().for_each(|why| tell!("forebay: note: passed over: {why}"));
    });
}

/// Which of the jobs of this host is meant within the allocation of that name. The job of another allocation, which may
/// share the host, is not: it ends when it likes. `None` when it could be any of several.
fn choose(allocated: Option<String>, jobs: &[String]) -> Result<Option<String>, String> {
    let is_other = |job: &&String| allocated.is_none() || !is_of_allocation(job);
    match (&allocated, jobs) {
        (Some(job), jobs) if jobs.contains(job) => return Ok(Some(job.clone())),
        (None, []) => return Err("no job is up on this host; forebay up starts one".to_owned()),
        _ => {}
    }
    let own: Vec<&String> = jobs.iter().filter(is_other).collect();
    match (own.as_slice(), &allocated) {
        ([job], _) => Ok(Some((*job).clone())),
        ([], Some(allocated)) => Err(format!("no job {allocated} is up on this host{}", others(jobs))),
        _ => Ok(None),
    }
}

/// The user whose jobs were looked for, and the places: `user me; looked in /tmp/forebay-1003; XDG_RUNTIME_DIR is not set`.
fn looked(bases: &[PathBuf]) -> String {
    let bases: Vec<String> = bases.iter().map(|base| base.display().to_string()).collect();
    let unset = if std::env::var_os("XDG_RUNTIME_DIR").is_none() { "; XDG_RUNTIME_DIR is not set" } else { "" };
    let user = machine::user_name(rustix::process::geteuid().as_raw());
    let looked = if bases.is_empty() { String::new() } else { format!("; looked in {}", bases.join(", ")) };
    format!("user {user}{looked}{unset}")
}

/// The labels of a job's metrics, by this command's environment.
pub fn labels(job: &str) -> JobLabels {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty());
    let user = set("USER").or_else(|| set("LOGNAME"));
    JobLabels {
        job: job.to_owned(),
        user: user.unwrap_or_else(|| rustix::process::geteuid().as_raw().to_string()),
        allocation: Allocation::job_of(&variable).unwrap_or_default(),
    }
}

/// Whether a scheduler gave the name: `17`, `17-2` of an array.
fn is_of_allocation(job: &str) -> bool {
    job.split('-').next().is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

fn others(jobs: &[String]) -> String {
    match jobs {
        [] => "; forebay up starts one".to_owned(),
        jobs => format!("; these are: {}; choose with --job NAME", jobs.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(allocated: Option<&str>, jobs: &[&str]) -> Result<String, String> {
        let jobs: Vec<String> = jobs.iter().map(|job| (*job).to_owned()).collect();
        let chosen = choose(allocated.map(str::to_owned), &jobs)?;
        Ok(chosen.unwrap_or_else(|| "any".to_owned()))
    }

    #[test]
    fn the_allocations_job_else_the_only_one() {
        assert_eq!(chosen(Some("77"), &["77", "78", "train"]).unwrap(), "77");
        assert_eq!(chosen(Some("77"), &["78", "train"]).unwrap(), "train", "started with --job in the allocation");
        assert_eq!(chosen(None, &["78"]).unwrap(), "78");
        assert_eq!(chosen(None, &["78", "a"]).unwrap(), "any");
        assert_eq!(chosen(Some("77"), &["a", "b"]).unwrap(), "any");
        assert_eq!(chosen(None, &[]).unwrap_err(), "no job is up on this host; forebay up starts one");
    }

    #[test]
    fn another_allocations_job_is_not_taken_for_ones_own() {
        for other in ["78", "78-2", "78-2-"] {
            let message = chosen(Some("77"), &[other]).unwrap_err();
            assert!(message.starts_with("no job 77 is up on this host; these are: 78"), "{message}");
        }
        assert_eq!(chosen(Some("77"), &[]).unwrap_err(), "no job 77 is up on this host; forebay up starts one");
    }
}
