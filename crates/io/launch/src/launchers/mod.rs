//! Ways to start a job's daemons on other hosts: a file for each, behind one trait.
//!
//! Most of them run one command for the whole job, which starts a copy of a program on every host and stays until the last
//! copy ends. Each copy finds its rank by its host's name. The job spec is such a command's standard input where the
//! launcher gives that to all copies; else it lies in a file that all hosts see (`SharedFiles`). A remote shell is called once for each
//! node instead, and leaves the daemon running.
//!
//! A launcher also says how one program is run on one host (`Reach`): for `down`, when the daemon there answers no more.

mod flux;
mod hydra;
mod launcher;
mod lsf;
mod pals;
mod pbs;
mod prrte;
mod slurm;
mod ssh;

use std::path::PathBuf;

use crate::LaunchError;
use crate::allocation::Scheduler;

pub use launcher::{Launcher, LauncherName, NewJob, Spec, Surroundings};
pub use pbs::attach_to_pbs;
pub use slurm::batch_script;
pub(crate) use slurm::scontrol;

/// The one that a job of this scheduler uses, where nobody says which. `path` finds a program.
#[must_use]
pub fn usual_launcher(scheduler: Option<Scheduler>, path: &dyn Fn(&str) -> Option<PathBuf>) -> LauncherName {
    match scheduler {
        Some(Scheduler::Slurm) => LauncherName::Slurm,
        Some(Scheduler::Flux) => LauncherName::Flux,
        Some(Scheduler::Pbs) if pals::command(path).is_some() => LauncherName::Pals,
        // A daemon by a remote shell is heard while it starts; PBS counts and ends it by `pbs_attach`.
        Some(Scheduler::Pbs) if pbs::attach(path).is_none() && pbs::command(path).is_some() => LauncherName::Pbs,
        // `jsrun` would take processors from the programs of the job.
        Some(Scheduler::Lsf) if path("blaunch").is_some() && path("jsrun").is_none() => LauncherName::Lsf,
        Some(Scheduler::Pbs | Scheduler::Lsf) | None => LauncherName::Ssh,
    }
}

/// The launcher of that name. `path` finds a program.
///
/// # Errors
/// `Allocation` when it cannot be used here, and why.
pub fn launcher(
    name: LauncherName,
    surroundings: &Surroundings<'_>,
    path: &dyn Fn(&str) -> Option<PathBuf>,
) -> Result<Box<dyn Launcher>, LaunchError> {
    Ok(match name {
        LauncherName::Slurm => Box::new(slurm::Slurm::of(surroundings)?),
        LauncherName::Flux => Box::new(flux::Flux::of(surroundings)?),
        LauncherName::Pals => Box::new(pals::Pals::of(surroundings, path)?),
        LauncherName::Pbs => Box::new(pbs::Pbs::of(surroundings, path)?),
        LauncherName::Lsf => Box::new(lsf::Lsf::of(surroundings, path)?),
        LauncherName::Prrte => Box::new(prrte::Prrte::of(path)?),
        LauncherName::Hydra => Box::new(hydra::Hydra::of(surroundings, path)?),
        LauncherName::Ssh => Box::new(ssh::Ssh::of(surroundings, path)),
    })
}

#[cfg(test)]
mod tests;
