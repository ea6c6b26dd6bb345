//! The trait of launchers, and what they share: the facts about a new job, and the one command that starts all of it.

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

/// Options of `node` for a daemon whose starter stays: it ends with it.
pub(super) const STAYING: [&str; 2] = ["node", "--step"];

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

/// The facts about a new job that a launcher needs.
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
    pub(super) fn ranks(&self) -> Vec<NodeRank> {
        (0..u32::try_from(self.nodes.len()).unwrap_or(u32::MAX)).map(NodeRank).collect()
    }

    pub(super) fn files(&self) -> Result<&SharedFiles, LaunchError> {
        match &self.spec {
            Spec::Files(files) => Ok(files),
            Spec::Input(_) => Err(LaunchError::Allocation("the job spec is in no file".to_owned())),
        }
    }

    /// The file with the hosts, one a line, for commands that are given such a file.
    pub(super) fn hosts_file(&self, line: impl Fn(&str) -> String) -> Result<PathBuf, LaunchError> {
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
    pub(super) fn step(&self, name: &str, mut command: Command) -> Result<Starter, LaunchError> {
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

    pub(super) fn check_one_a_host(&self, name: &str) -> Result<(), LaunchError> {
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

/// The allocation that a launcher needs.
pub(super) fn allocation_of<'a>(
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
pub(super) fn needed(
    name: &str,
    launcher: LauncherName,
    path: &dyn Fn(&str) -> Option<PathBuf>,
) -> Result<PathBuf, LaunchError> {
    path(name).ok_or_else(|| {
        LaunchError::Allocation(format!(
            "--launcher {launcher} needs the program {name}, which is not in PATH; load its module, or start the nodes by ssh: \
             --launcher ssh"
        ))
    })
}
