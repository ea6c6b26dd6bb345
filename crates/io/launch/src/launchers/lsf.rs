//! Nodes of an LSF job, by one `blaunch`, or by `jsrun` where that alone is there.
//!
//! LSF starts a copy on each host, counts what it uses, and ends it with the job. `jsrun` gives each copy a processor, which the job's programs
//! do not have then; so it is used only where it is asked for.

use std::path::PathBuf;
use std::process::Command;

use super::launcher::{Launcher, LauncherName, NewJob, Surroundings, allocation_of, needed};
use crate::allocation::Scheduler;
use crate::{LaunchError, Reach, Starter};

/// LSF.
#[derive(Debug)]
pub(super) struct Lsf {
    command: PathBuf,
    is_jsrun: bool,
    shell: Vec<String>,
}

impl Lsf {
    pub(super) fn of(
        surroundings: &Surroundings<'_>,
        path: &dyn Fn(&str) -> Option<PathBuf>,
    ) -> Result<Self, LaunchError> {
        allocation_of(surroundings, Scheduler::Lsf, LauncherName::Lsf)?;
        let (command, is_jsrun) = match (path("blaunch"), path("jsrun")) {
            (Some(blaunch), _) => (blaunch, false),
            (None, Some(jsrun)) => (jsrun, true),
            (None, None) => (needed("blaunch", LauncherName::Lsf, path)?, false),
        };
        Ok(Self { command, is_jsrun, shell: surroundings.remote_shell.to_vec() })
    }
}

impl Launcher for Lsf {
    fn name(&self) -> LauncherName {
        LauncherName::Lsf
    }

    fn starters(&self, job: &NewJob<'_>) -> Result<Vec<Starter>, LaunchError> {
        let mut command = Command::new(&self.command);
        if self.is_jsrun {
            command.args(["-e", "individual", "--nrs", &job.nodes.len().to_string(), "-r1", "-c1", "-a1"]);
            return Ok(vec![job.step("jsrun", command)?]);
        }
        command.args(["-no-shell", "-n", "-u"]).arg(job.hosts_file(|host| format!("{host}\n"))?);
        Ok(vec![job.step("blaunch", command)?])
    }

    fn reach(&self) -> Reach {
        match self.is_jsrun {
            true => Reach::by_shell(&self.shell),
            false => Reach::by_command([self.command.display().to_string().as_str(), "-no-shell", "-n", Reach::HOST]),
        }
    }
}
