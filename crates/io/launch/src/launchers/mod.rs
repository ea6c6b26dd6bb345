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
mod lsf;
mod pals;
mod pbs;
mod prrte;
mod slurm;
mod ssh;

use std::collections::BTreeSet;
use std::fmt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use forebay_types::NodeRank;
use serde::{Deserialize, Serialize};

use crate::allocation::{Allocation, Scheduler};
use crate::local::append_to;
use crate::{JobDirectory, LaunchError, MemoryFile, NodeAddress, Reach, SharedFiles, Starter};

pub use pbs::attach_to_pbs;
pub use slurm::batch_script;
pub(crate) use slurm::scontrol;

/// Options of `node` for a daemon whose starter stays: it ends with it.
const STAYING: [&str; 2] = ["node", "--step"];

/// The names of launchers, as `--launcher` has them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LauncherName {
    /// `srun`.
    Slurm,
    /// `flux exec`.
    Flux,
    /// `mpiexec` or `aprun` of HPE's PALS.
    Pals,
    /// `pbsdsh`.
    Pbs,
    /// `blaunch`, or `jsrun`.
    Lsf,
    /// `prterun`.
    Prrte,
    /// `mpiexec.hydra`.
    Hydra,
    /// The remote shell.
    Ssh,
}

impl LauncherName {
    /// All of them.
    pub const ALL: [Self; 8] =
        [Self::Slurm, Self::Flux, Self::Pals, Self::Pbs, Self::Lsf, Self::Prrte, Self::Hydra, Self::Ssh];

    /// The name on the command line.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Slurm => "slurm",
            Self::Flux => "flux",
            Self::Pals => "pals",
            Self::Pbs => "pbs",
            Self::Lsf => "lsf",
            Self::Prrte => "prrte",
            Self::Hydra => "hydra",
            Self::Ssh => "ssh",
        }
    }

    /// That of a name on the command line.
    #[must_use]
    pub fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|name| name.word() == word)
    }

    /// The one that a job of this scheduler uses, where nobody says which. `path` finds a program.
    #[must_use]
    pub fn usual(scheduler: Option<Scheduler>, path: &dyn Fn(&str) -> Option<PathBuf>) -> Self {
        match scheduler {
            Some(Scheduler::Slurm) => Self::Slurm,
            Some(Scheduler::Flux) => Self::Flux,
            Some(Scheduler::Pbs) if pals::command(path).is_some() => Self::Pals,
            // What a remote shell starts is heard while it starts; PBS counts and ends it by `pbs_attach`.
            Some(Scheduler::Pbs) if pbs::attach(path).is_none() && pbs::command(path).is_some() => Self::Pbs,
            // `jsrun` would take processors from the programs of the job.
            Some(Scheduler::Lsf) if path("blaunch").is_some() && path("jsrun").is_none() => Self::Lsf,
            Some(Scheduler::Pbs | Scheduler::Lsf) | None => Self::Ssh,
        }
    }
}

impl fmt::Display for LauncherName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.word())
    }
}

/// A launcher's way to start all daemons of a job.
pub trait Launcher: fmt::Debug {
    /// Its name.
    fn name(&self) -> LauncherName;

    /// Whether the job spec reaches every daemon as standard input of the commands; else it is in a file that all hosts see.
    fn passes_input(&self) -> bool {
        false
    }

    /// The commands that start the daemons.
    ///
    /// # Errors
    /// `Allocation` when the launcher cannot start these nodes; `Io` when a file of the job cannot be read or written.
    fn starters(&self, job: &NewJob<'_>) -> Result<Vec<Starter>, LaunchError>;

    /// The way to run one program on one host.
    fn reach(&self) -> Reach;

    /// The place that a list of nodes begins with, if there is one that must be first.
    fn first_host(&self) -> Option<&str> {
        None
    }
}

/// What a launcher is told of the job.
#[derive(Debug)]
pub struct NewJob<'a> {
    /// The program, at the same path on every host.
    pub program: &'a Path,
    /// The nodes in the order of their ranks.
    pub nodes: &'a [NodeAddress],
    /// The job's directory on this host.
    pub directory: &'a JobDirectory,
    /// The job spec with the key.
    pub spec: Spec<'a>,
}

/// How the job spec gets to the daemons.
#[derive(Debug)]
pub enum Spec<'a> {
    /// By standard input.
    Input(&'a MemoryFile),
    /// By files that all hosts see.
    Files(&'a SharedFiles),
}

impl NewJob<'_> {
    fn ranks(&self) -> Vec<NodeRank> {
        (0..u32::try_from(self.nodes.len()).unwrap_or(u32::MAX)).map(NodeRank).collect()
    }

    fn files(&self) -> Result<&SharedFiles, LaunchError> {
        match &self.spec {
            Spec::Files(files) => Ok(files),
            Spec::Input(_) => Err(LaunchError::Allocation("the job spec is in no file".to_owned())),
        }
    }

    /// The file with the hosts, one a line, for commands that are given such a file.
    fn hosts_file(&self, line: impl Fn(&str) -> String) -> Result<PathBuf, LaunchError> {
        let lines: String = self.nodes.iter().map(|node| line(&node.host)).collect();
        self.files()?.write_hosts(&lines)
    }

    /// The words after the launcher's own: the daemon, one a host, which finds its rank itself.
    fn daemon(&self) -> Result<Vec<std::ffi::OsString>, LaunchError> {
        let mut words = vec![self.program.into()];
        words.extend(STAYING.map(Into::into));
        words.push("--job-spec".into());
        match &self.spec {
            Spec::Input(_) => words.push("-".into()),
            Spec::Files(files) => words.extend([files.spec().into(), "--keyed".into()]),
        }
        Ok(words)
    }

    /// One command for all nodes, which stays until they end.
    fn step(&self, name: &str, mut command: Command) -> Result<Starter, LaunchError> {
        self.check_one_a_host(name)?;
        let stderr = self.directory.launch_log(NodeRank(0));
        let stdin = match &self.spec {
            Spec::Input(input) => input.input()?,
            Spec::Files(_) => Stdio::null(),
        };
        command
            .args(self.daemon()?)
            .stdin(stdin)
            .stderr(append_to(&stderr)?)
            // A daemon must not keep the user's directory in use.
            .current_dir("/")
            // Its own process group: Ctrl-C in the terminal of `up`, or later of the job's script, is not for it.
            .process_group(0);
        Ok(Starter { name: name.to_owned(), ranks: self.ranks(), command, stderr, leaves: false, trial: None })
    }

    fn check_one_a_host(&self, name: &str) -> Result<(), LaunchError> {
        let mut seen = BTreeSet::new();
        match self.nodes.iter().find(|node| !seen.insert(node.host.to_ascii_lowercase())) {
            None => Ok(()),
            Some(twice) => Err(LaunchError::Allocation(format!(
                "{name} starts one node on a host, and {} has several; start them by the remote shell: --launcher ssh",
                twice.host
            ))),
        }
    }
}

/// The circumstances in which a launcher is made.
#[derive(Debug)]
pub struct Surroundings<'a> {
    /// The allocation, if there is one.
    pub allocation: Option<&'a Allocation>,
    /// The remote shell and its options.
    pub remote_shell: &'a [String],
    /// Names of this host.
    pub own_names: &'a [String],
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

/// The allocation that a launcher needs.
fn allocation_of<'a>(
    surroundings: &Surroundings<'a>,
    scheduler: Scheduler,
    name: LauncherName,
) -> Result<&'a Allocation, LaunchError> {
    surroundings.allocation.filter(|allocation| allocation.scheduler == scheduler).ok_or_else(|| {
        LaunchError::Allocation(format!(
            "--launcher {name} needs a job of {scheduler}, and this is none; start the nodes by ssh: --launcher ssh"
        ))
    })
}

/// The program `name`, which the launcher needs.
fn needed(name: &str, launcher: LauncherName, path: &dyn Fn(&str) -> Option<PathBuf>) -> Result<PathBuf, LaunchError> {
    path(name).ok_or_else(|| {
        LaunchError::Allocation(format!(
            "--launcher {launcher} needs the program {name}, which is not in PATH; load its module, or start the nodes by ssh: \
             --launcher ssh"
        ))
    })
}

#[cfg(test)]
mod tests;
