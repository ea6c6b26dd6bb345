//! Nodes by a remote shell: `ssh`, or anything that is called like it: `CMD HOST -- PROGRAM ARGUMENTS`.
//!
//! Each call ends when the job is up and leaves its daemon running. A scheduler knows nothing of what came by a login, so
//! in a job of PBS the daemon is handed to it by `pbs_attach`.

use std::path::PathBuf;

use forebay_types::NodeRank;

use super::launcher::{Launcher, LauncherName, NewJob, Spec, Surroundings};
use super::pbs;
use crate::allocation::Scheduler;
use crate::hosts::RemoteCall;
use crate::local::append_to;
use crate::{LaunchError, NodeAddress, Reach, Starter};

/// A remote shell.
#[derive(Debug)]
pub(super) struct Ssh {
    /// The shell and its options.
    pub(super) shell: Vec<String>,
    /// The job of PBS that daemons are handed to.
    pub(super) pbs_job: Option<String>,
}

impl Ssh {
    pub(super) fn of(surroundings: &Surroundings<'_>, path: &dyn Fn(&str) -> Option<PathBuf>) -> Self {
        let pbs = surroundings.allocation.filter(|allocation| allocation.scheduler == Scheduler::Pbs);
        let pbs = pbs.filter(|_| pbs::attach(path).is_some());
        Self { shell: surroundings.remote_shell.to_vec(), pbs_job: pbs.map(|pbs| pbs.number.clone()) }
    }

    /// The command that starts the daemon of `rank` on its host; it ends when the job is up.
    fn starter(&self, job: &NewJob<'_>, rank: NodeRank, node: &NodeAddress) -> Result<Starter, LaunchError> {
        let Spec::Input(input) = &job.spec else {
            return Err(LaunchError::Allocation("a remote shell passes the job spec by its standard input".to_owned()));
        };
        let stderr = job.directory.launch_log(rank);
        let call = RemoteCall { reach: self.reach(), program: job.program.to_owned() };
        let rank_text = rank.to_string();
        let mut words = vec!["node", "--job-spec", "-", "--background", "--rank", &rank_text];
        words.extend(self.pbs_job.iter().flat_map(|job| ["--pbs-job", job.as_str()]));
        let mut command = call.command(&node.host, &words);
        command.stdin(input.input()?).stderr(append_to(&stderr)?);
        let shell = self.shell.join(" ");
        Ok(Starter {
            name: format!("{shell} to {}", node.host),
            ranks: vec![rank],
            command,
            stderr,
            leaves: true,
            trial: Some(format!("{shell} {} true", node.host)),
        })
    }
}

impl Launcher for Ssh {
    fn name(&self) -> LauncherName {
        LauncherName::Ssh
    }

    fn passes_input(&self) -> bool {
        true
    }

    fn starters(&self, job: &NewJob<'_>) -> Result<Vec<Starter>, LaunchError> {
        job.ranks().into_iter().zip(job.nodes).map(|(rank, node)| self.starter(job, rank, node)).collect()
    }

    fn reach(&self) -> Reach {
        Reach::by_shell(&self.shell)
    }
}
