//! Nodes of a PBS job, by `pbsdsh`: PBS itself starts them, counts what they use and ends them with the job.
//!
//! `pbsdsh` starts a copy for each line of the node file, several on a host, so each host is named by the index of its first line. Neither
//! standard input nor output goes through PBS. So the job spec is in a file, and the node of this host, which is the first, is started here:
//! from it `up` hears how far the job is. A daemon elsewhere that cannot start ends, and its `pbsdsh` with it.

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use forebay_types::NodeRank;

use super::launcher::{Launcher, LauncherName, NewJob, STAYING, Surroundings, allocation_of, needed};
use crate::allocation::Scheduler;
use crate::job_end::said_by;
use crate::local::append_to;
use crate::{LaunchError, NodeAddress, Reach, Starter};

/// The directory of PBS' commands where PATH does not name it, as a login by a remote shell has it.
const USUAL: &str = "/opt/pbs/bin";

/// The program `name` of PBS.
fn of_pbs(name: &str, path: &dyn Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    path(name).or_else(|| Some(PathBuf::from(USUAL).join(name)).filter(|usual| usual.is_file()))
}

/// `pbsdsh`.
pub(super) fn command(path: &dyn Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    of_pbs("pbsdsh", path)
}

/// `pbs_attach`, which puts a process under PBS' control.
pub(super) fn attach(path: &dyn Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    of_pbs("pbs_attach", path)
}

/// Puts a process under PBS' control: what it uses is counted, and it ends with the job `number`. `path` finds a program.
///
/// # Errors
/// Why not.
pub fn attach_to_pbs(number: &str, pid: u32, path: &dyn Fn(&str) -> Option<PathBuf>) -> Result<(), String> {
    let attach = attach(path).ok_or("this host has no pbs_attach in PATH or /opt/pbs/bin")?;
    let words = ["-j", number, "-p", &pid.to_string()];
    match said_by(&attach.display().to_string(), &words) {
        Some(_) => Ok(()),
        None => Err(format!("{} {} fails", attach.display(), words.join(" "))),
    }
}

/// `pbsdsh` in a job.
#[derive(Debug)]
pub(super) struct Pbs {
    command: PathBuf,
    /// Runs one program on a host, through PBS.
    on_host: PathBuf,
    /// The index of each host's first line in the node file.
    lines: BTreeMap<String, usize>,
    own_host: String,
}

impl Pbs {
    pub(super) fn of(
        surroundings: &Surroundings<'_>,
        path: &dyn Fn(&str) -> Option<PathBuf>,
    ) -> Result<Self, LaunchError> {
        let allocation = allocation_of(surroundings, Scheduler::Pbs, LauncherName::Pbs)?;
        let found = |name: &str| of_pbs(name, path).map_or_else(|| needed(name, LauncherName::Pbs, path), Ok);
        let is_own = |host: &&String| surroundings.own_names.iter().any(|name| name.eq_ignore_ascii_case(host));
        let own_host = allocation.hosts.iter().find(is_own).cloned().ok_or_else(|| {
            LaunchError::Allocation(format!(
                "pbsdsh starts nodes from a host of the job, and this host ({}) is none; run forebay up on one, or --launcher ssh",
                surroundings.own_names.join(", ")
            ))
        })?;
        let lines = allocation.hosts.iter().cloned().zip(allocation.first_lines.iter().copied()).collect();
        Ok(Self { command: found("pbsdsh")?, on_host: found("pbs_tmrsh")?, lines, own_host })
    }

    fn starter(&self, job: &NewJob<'_>, rank: NodeRank, node: &NodeAddress) -> Result<Starter, LaunchError> {
        let stderr = job.directory.launch_log(rank);
        let is_own = node.host == self.own_host;
        let mut command = if is_own {
            Command::new(job.program)
        } else {
            let line = self
                .lines
                .get(&node.host)
                .ok_or_else(|| LaunchError::Allocation(format!("{} is not in the node file of this job", node.host)))?;
            let mut command = Command::new(&self.command);
            command.args(["-n", &line.to_string(), "--"]).arg(job.program);
            command
        };
        // The own one is no child of PBS, which ends it with the job's script.
        let words: &[&str] = if is_own { &["node", "--session"] } else { &STAYING };
        command.args(words).args(["--keyed", "--rank", &rank.to_string(), "--job-spec"]).arg(job.files()?.spec());
        command.stdin(Stdio::null()).stderr(append_to(&stderr)?).current_dir("/");
        if !is_own {
            // Ctrl-C in the terminal of `up`, or later of the job's script, is not for it. The own one begins a session.
            command.process_group(0);
        }
        let name = if is_own { "its daemon".to_owned() } else { format!("pbsdsh to {}", node.host) };
        Ok(Starter { name, ranks: vec![rank], command, stderr, leaves: false, trial: None })
    }
}

impl Launcher for Pbs {
    fn name(&self) -> LauncherName {
        LauncherName::Pbs
    }

    fn starters(&self, job: &NewJob<'_>) -> Result<Vec<Starter>, LaunchError> {
        job.check_one_a_host("pbsdsh")?;
        job.ranks().into_iter().zip(job.nodes).map(|(rank, node)| self.starter(job, rank, node)).collect()
    }

    fn reach(&self) -> Reach {
        Reach { passes_output: false, ..Reach::by_command([self.on_host.display().to_string().as_str(), Reach::HOST]) }
    }

    fn first_host(&self) -> Option<&str> {
        Some(&self.own_host)
    }
}
