//! Nodes of a Slurm allocation, started by one `srun` that stays until they end.
//!
//! The step overlaps with the job's own steps (`--overlap`), so that the tier takes no resources from them. Which rank
//! a daemon has is not taken from Slurm's task numbers: each finds its node's name in the list it was given. The job spec,
//! with the job's key, is `srun`'s standard input, which Slurm sends to every task over connections of its own;
//! the caller has sealed the key in it if it could (`Munge`).

use std::collections::BTreeSet;
use std::process::Command;

use super::launcher::{Launcher, LauncherName, NewJob, Surroundings, allocation_of};
use crate::allocation::Scheduler;
use crate::job_end::said_by;
use crate::{LaunchError, Reach, Starter};

/// `srun` in an allocation.
#[derive(Debug)]
pub(super) struct Slurm {
    /// Slurm's number of the job.
    pub(super) job_id: String,
    /// The nodes of the allocation.
    pub(super) hosts: Vec<String>,
    /// The same as Slurm writes them, `n[1-9]`: short, where one argument holds at most 128 KiB of names.
    pub(super) list: String,
}

impl Slurm {
    pub(super) fn of(surroundings: &Surroundings<'_>) -> Result<Self, LaunchError> {
        let allocation = allocation_of(surroundings, Scheduler::Slurm, LauncherName::Slurm)?;
        Ok(Self { job_id: allocation.number.clone(), hosts: allocation.hosts.clone(), list: allocation.list.clone() })
    }
}

impl Slurm {
    /// The list of the job's nodes, which may be a part of the allocation.
    fn list_of(&self, job: &NewJob<'_>) -> String {
        let hosts: BTreeSet<&str> = job.nodes.iter().map(|node| node.host.as_str()).collect();
        if self.hosts.iter().map(String::as_str).collect::<BTreeSet<_>>() == hosts {
            return self.list.clone();
        }
        hosts.into_iter().collect::<Vec<_>>().join(",")
    }
}

impl Launcher for Slurm {
    fn name(&self) -> LauncherName {
        LauncherName::Slurm
    }

    fn passes_input(&self) -> bool {
        true
    }

    fn starters(&self, job: &NewJob<'_>) -> Result<Vec<Starter>, LaunchError> {
        let count = job.nodes.len();
        let mut command = Command::new("srun");
        command
            .arg(format!("--jobid={}", self.job_id))
            .args(["--overlap", "--ntasks-per-node=1", "--mpi=none", "--cpu-bind=none", "--job-name=forebay"])
            .arg(format!("--nodes={count}"))
            .arg(format!("--ntasks={count}"))
            .arg(format!("--nodelist={}", self.list_of(job)))
            // The tier outlives a node: neither the loss of one nor the end of one daemon ends the others.
            .args(["--no-kill", "--kill-on-bad-exit=0", "--wait=0", "--unbuffered"]);
        Ok(vec![job.step("srun", command)?])
    }

    fn reach(&self) -> Reach {
        let job = format!("--jobid={}", self.job_id);
        let srun = ["srun", &job, "--overlap", "--nodes=1", "--ntasks=1", "--mpi=none", "--cpu-bind=none", "--quiet"];
        Reach::by_command(srun.into_iter().chain(["-w", Reach::HOST, "--"]))
    }
}

/// The script of a batch job, as it was submitted; `None` where there is none, or Slurm does not say.
#[must_use]
pub fn batch_script(job_id: &str) -> Option<String> {
    scontrol(&["write", "batch_script", job_id, "-"])
}

/// The output of `scontrol`; `None` when it fails, or takes too long.
pub(crate) fn scontrol(arguments: &[&str]) -> Option<String> {
    said_by("scontrol", arguments)
}
