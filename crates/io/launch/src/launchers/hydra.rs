//! Nodes by Hydra, the process manager of MPICH: one `mpiexec.hydra`, which starts a copy on each host by the remote shell or the scheduler
//! that it finds.

use std::path::PathBuf;
use std::process::Command;

use super::launcher::{Launcher, LauncherName, NewJob, Surroundings, needed};
use crate::{LaunchError, Reach, Starter};

/// Hydra.
#[derive(Debug)]
pub(super) struct Hydra {
    command: PathBuf,
}

impl Hydra {
    pub(super) fn of(_: &Surroundings<'_>, path: &dyn Fn(&str) -> Option<PathBuf>) -> Result<Self, LaunchError> {
        Ok(Self { command: needed("mpiexec.hydra", LauncherName::Hydra, path)? })
    }
}

impl Launcher for Hydra {
    fn name(&self) -> LauncherName {
        LauncherName::Hydra
    }

    fn starters(&self, job: &NewJob<'_>) -> Result<Vec<Starter>, LaunchError> {
        let mut command = Command::new(&self.command);
        command
            .args(["-n", &job.nodes.len().to_string(), "-ppn", "1"])
            // The tier outlives a node: the end of one daemon ends no other.
            .args(["-disable-auto-cleanup", "-f"])
            .arg(job.hosts_file(|host| format!("{host}\n"))?);
        Ok(vec![job.step("mpiexec.hydra", command)?])
    }

    fn reach(&self) -> Reach {
        Reach::by_command([self.command.display().to_string().as_str(), "-n", "1", "-hosts", Reach::HOST])
    }
}
