//! Nodes by PRRTE, the run-time environment of Open MPI 5: one `prterun`, which starts a copy on each host by the remote shell or the
//! scheduler that it was built for.
//!
//! If `prterun` is killed, what it started on its own host lives on; a daemon whose starter is gone ends by itself (`node --step`).

use std::path::PathBuf;
use std::process::Command;

use super::launcher::{Launcher, LauncherName, NewJob, needed};
use crate::{LaunchError, Reach, Starter};

/// PRRTE.
#[derive(Debug)]
pub(super) struct Prrte {
    command: PathBuf,
}

impl Prrte {
    pub(super) fn of(path: &dyn Fn(&str) -> Option<PathBuf>) -> Result<Self, LaunchError> {
        Ok(Self { command: needed("prterun", LauncherName::Prrte, path)? })
    }

    /// Root has to say that it means it.
    fn as_user() -> Option<&'static str> {
        rustix::process::geteuid().is_root().then_some("--allow-run-as-root")
    }
}

impl Launcher for Prrte {
    fn name(&self) -> LauncherName {
        LauncherName::Prrte
    }

    fn starters(&self, job: &NewJob<'_>) -> Result<Vec<Starter>, LaunchError> {
        let mut command = Command::new(&self.command);
        command
            .args(Self::as_user())
            .args(["--map-by", "ppr:1:node", "--bind-to", "none"])
            // The tier outlives a node: the end of one daemon ends no other.
            .args(["--runtime-options", "error-nonzero-status=0,recoverable=1", "--hostfile"])
            .arg(job.hosts_file(|host| format!("{host} slots=1\n"))?);
        Ok(vec![job.step("prterun", command)?])
    }

    fn reach(&self) -> Reach {
        let command = self.command.display().to_string();
        let words = [command.as_str()].into_iter().chain(Self::as_user());
        Reach::by_command(words.chain(["--bind-to", "none", "-n", "1", "--host", Reach::HOST]))
    }
}
