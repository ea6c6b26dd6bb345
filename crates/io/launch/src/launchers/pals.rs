//! Nodes by HPE's PALS: one `mpiexec` of its, or `aprun`, which starts a copy on each host.
//!
//! Only the first copy of such a command has its standard input, so the job spec is in a file. The copies are children of PALS' daemons,
//! which end them with the job.

use std::path::PathBuf;
use std::process::Command;

use super::launcher::{Launcher, LauncherName, NewJob, Surroundings, needed};
use crate::{LaunchError, Reach, Starter};

/// PALS.
#[derive(Debug)]
pub(super) struct Pals {
    command: PathBuf,
    /// Of the remote shell, by which one host is reached: a step on a named host has no option that all versions share.
    shell: Vec<String>,
}

/// `mpiexec` if it is that of PALS, else `aprun`.
pub(super) fn command(path: &dyn Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let is_pals = |found: &PathBuf| {
        let found = found.canonicalize().unwrap_or_else(|_| found.clone());
        found.components().any(|part| part.as_os_str() == "pals")
    };
    path("mpiexec").filter(is_pals).or_else(|| path("aprun"))
}

impl Pals {
    pub(super) fn of(
        surroundings: &Surroundings<'_>,
        path: &dyn Fn(&str) -> Option<PathBuf>,
    ) -> Result<Self, LaunchError> {
        let found = command(path).map_or_else(|| needed("mpiexec of PALS", LauncherName::Pals, &|_| None), Ok)?;
        Ok(Self { command: found, shell: surroundings.remote_shell.to_vec() })
    }
}

impl Launcher for Pals {
    fn name(&self) -> LauncherName {
        LauncherName::Pals
    }

    fn starters(&self, job: &NewJob<'_>) -> Result<Vec<Starter>, LaunchError> {
        let count = job.nodes.len().to_string();
        let mut command = Command::new(&self.command);
        if self.command.ends_with("aprun") {
            command.args(["-n", &count, "-N", "1", "--cc", "none"]);
        } else {
            command.args(["-n", &count, "-ppn", "1", "--cpu-bind", "none", "--hostfile"]);
            command.arg(job.hosts_file(|host| format!("{host}\n"))?);
        }
        Ok(vec![job.step(&self.command.display().to_string(), command)?])
    }

    fn reach(&self) -> Reach {
        Reach::by_shell(&self.shell)
    }
}
