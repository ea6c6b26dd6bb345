//! The commands and their own options; what they share comes from the table of settings.

mod burst;
mod cache;
mod config_file;
mod end;
mod image;
mod init;
mod logs;
mod mpiio;
mod of_job;
mod profile;
mod query;
mod stage;
mod status;
mod trial;
mod version;
mod warmup;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;

pub use burst::{DrainArguments, LandedArguments, SalvageArguments};
pub use cache::{CacheArguments, CacheCommand, CachePlaces};
pub use config_file::ConfigFile;
pub use end::{DownArguments, ReportArguments};
pub use image::{ImageArguments, SetEnv};
pub use init::{InitArguments, SchedulerName};
pub use logs::{DebugArguments, KeepLogsArguments, LogsArguments};
pub use mpiio::{MpiChoice, MpiioArguments};
pub use of_job::OfJob;
pub use profile::{ProfileArguments, ProfileCommand, ProfileDropArguments, ProfilePlace, ProfileRecordArguments};
pub use query::{Delimiter, HeaderChoice, OnError, QueryArguments, WherePlace};
pub use stage::{StageArguments, StageCommand, StageOptions};
pub use status::{StatusArguments, TopArguments};
pub use trial::TryArguments;
pub use version::VersionArguments;
pub use warmup::WarmupArguments;

use crate::settings::{GivenForJob, GivenForNode, GivenForUp};

/// How settings are found; shown below the help of the commands that have many.
const SOURCES: &str = "Every option can also be set in the environment (FOREBAY_FANOUT=8, FOREBAY_PREFETCH=false) and in a \
                       configuration file (fanout = 8, prefetch = false; --config or FOREBAY_CONFIG); options override the environment, \
                       which overrides the file. \
                       `forebay config` shows the values in force. Sizes: 64MiB or 64M (by 1024), 1GB (by 1000). Durations: 500ms, 2s, \
                       1min.";

/// The I/O tier of a job: every node reads programs, libraries and input through one shared cache.
#[derive(Parser, Debug)]
#[command(name = "forebay", version, propagate_version = true, arg_required_else_help = true, max_term_width = 110)]
#[command(
    after_help = "Examples:\n  forebay doctor\n  forebay try\n  forebay init slurm > job.sh\n  forebay up --local 4 --export /opt\n  forebay status\n  \
                        forebay down\n\nExit status: 0 done, 1 failed, 2 wrong usage, 3 done in part."
)]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The options of `up` that most jobs need; its help shows the others with `--help=all`.
const FIRST_OF_UP: [&str; 12] = [
    "local",
    "nodes",
    "hostfile",
    "export",
    "view",
    "job",
    "burst",
    "burst-store",
    "time-limit",
    "budget",
    "on-failure",
    "json",
];

/// The word that asks for the help with all options.
const ALL: &str = "--help=all";

impl Cli {
    /// Reads the command line; `None` where the help with all options was asked for and has been printed.
    ///
    /// # Errors
    /// As clap has it, help and version among them.
    pub fn read() -> Result<Option<Self>, clap::Error> {
        let words: Vec<OsString> = std::env::args_os().collect();
        let mut all = Self::command();
        let named = match words.as_slice() {
            [_, name, word] if word == ALL => name.to_str(),
            [_, help, name, word] if help == "help" && word == "--all" => name.to_str(),
            _ => None,
        };
        if let Some(name) = named {
            all.build();
            if let Some(command) = all.find_subcommand_mut(name) {
                command.print_long_help()?;
                return Ok(None);
            }
        }
        let is_first = |argument: &clap::Arg| FIRST_OF_UP.contains(&argument.get_id().as_str());
        let shown = |argument: clap::Arg| if is_first(&argument) { argument } else { argument.hide(true) };
        let short = Self::command().mut_subcommand("up", |up| up.mut_args(shown));
        short.try_get_matches_from(words).and_then(|matches| Self::from_arg_matches(&matches)).map(Some)
    }
}

/// The commands.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Start Forebay on every node of the job; returns when all nodes are ready
    Up(Box<UpArguments>),
    /// Run the daemon of one node, as `up` starts it
    Node(Box<NodeArguments>),
    /// Run a command that sees the exports at their own paths
    Run(RunArguments),
    /// Show whether the job is well: what is blocked and what to do, reads, writes, nodes
    Status(StatusArguments),
    /// Watch the job on a terminal: rates, nodes, files to land, slow operations, logs
    Top(TopArguments),
    /// Print metrics in the text format of Prometheus, once
    Metrics(MetricsArguments),
    /// Stop everything on all nodes and leave nothing behind
    Down(DownArguments),
    /// Show the reports of jobs that have ended
    Report(ReportArguments),
    /// Show where an answer for a path comes from, node by node up to the root
    Explain(ExplainArguments),
    /// Show the logs of the nodes, also of a job that has ended
    Logs(LogsArguments),
    /// Write an archive for a bug report: logs, status, settings, waiting threads
    Debug(DebugArguments),
    /// Drop everything that the job has cached of paths that have changed
    Refresh(RefreshArguments),
    /// Bring data to the nodes before programs read them
    Warmup(WarmupArguments),
    /// Copy inputs to the nodes' own disks, or files of the burst tier to other places
    Stage(StageArguments),
    /// Land files of the burst tier on the backing file system now
    Drain(DrainArguments),
    /// Show which files of the burst tier have landed on the backing file system
    Landed(LandedArguments),
    /// Land what an ended job has left in its burst stores
    Salvage(SalvageArguments),
    /// Show, record and remove profiles of the start-ups of commands
    Profile(ProfileArguments),
    /// Show and remove your cache stores on this host
    Cache(CacheArguments),
    /// Print the path of the MPI-IO library, or what it did with a file
    Mpiio(MpiioArguments),
    /// Compute statistics of files where the data lie: sums, deviations, entropy, Gramian
    Query(Box<QueryArguments>),
    /// Try a command on this machine, directly on a modelled file system and through Forebay
    Try(TryArguments),
    /// Print a job script for a scheduler, which ends well whatever ends the job
    Init(InitArguments),
    /// Check this machine: what it offers, what is missing, and the consequences
    Doctor(DoctorArguments),
    /// Simulate the start of a job on any number of nodes, with Forebay and without
    Simulate(SimulateArguments),
    /// Plan where to aggregate a job's writes, with the predicted time of every strategy
    Plan(PlanArguments),
    /// Show the settings in force, and where each comes from
    Config(ConfigArguments),
    /// Print the completions of a shell
    Completions(CompletionsArguments),
    /// Write the manual pages into a directory
    Man(ManArguments),
    /// Show which build this is: version, commit, target, protocol
    Version(VersionArguments),
    /// Look up names of a view; started by its daemon
    #[command(hide = true)]
    Walk(WalkArguments),
    /// Look at paths; started by a command that does not wait for them for ever
    #[command(hide = true)]
    #[command(after_help = "Examples:\n  printf '{}\\n/tmp/f\\0' | forebay look")]
    Look,
    /// Keep logs of a job in its user's state directory; started by what ends the job
    #[command(hide = true)]
    KeepLogs(KeepLogsArguments),
}

/// `up`.
#[derive(Args, Debug)]
#[command(after_help = format!(
    "forebay up --help=all shows all options.\n\nWithout --local, --nodes and --hostfile the nodes are those of the allocation (Slurm, Flux, PBS, PALS, \
     LSF), or this machine alone outside one.\n\nExamples:\n  forebay up\n  forebay up --local 8 --export /soft --export /data --view /tmp/view\n  \
     forebay up --nodes 'n[1-16]' --fanout 2 --budget 1GiB\n  forebay up --hostfile hosts --remote-shell 'ssh -p 2222'\
     \n  forebay up --replace --job train\n\n{SOURCES}"))]
pub struct UpArguments {
    /// Print a JSON object instead of text
    #[arg(long)]
    pub json: bool,
    /// Say also where the start is recorded
    #[arg(long, short)]
    pub verbose: bool,
    /// Replace the daemons of the running job by the current version of forebay; programs on the views only wait
    #[arg(long)]
    pub replace: bool,
    /// Replace on this host only.
    #[arg(long, hide = true, requires = "replace")]
    pub local_only: bool,
    /// The configuration file.
    #[command(flatten)]
    pub file: ConfigFile,
    /// The settings.
    #[command(flatten)]
    pub given: GivenForUp,
}

/// `node`.
#[derive(Args, Debug)]
#[command(after_help = format!(
    "Prints one line on standard output when its view is ready, and ends on SIGTERM, SIGINT and `forebay down`.\n\n\
     Examples:\n  (umask 077; head -c 32 /dev/urandom > key)\n  \
     forebay node --hostfile hosts --key key --rank 0 --job test --view /tmp/view0\n  \
     srun --ntasks-per-node=1 forebay node --hostfile hosts --key key\n\n{SOURCES}"))]
pub struct NodeArguments {
    /// Index of this node in the list of nodes, from 0 [default: by this host's name]
    #[arg(long, value_name = "I")]
    pub rank: Option<u32>,
    /// Write the log to this file [default: standard error]
    #[arg(long, value_name = "FILE", help_heading = "Logs and metrics")]
    pub log_file: Option<PathBuf>,
    /// The job's key: the same 32 random bytes for all nodes, in a file that only you may read
    #[arg(long, value_name = "FILE", help_heading = "Nodes")]
    pub key: Option<PathBuf>,
    /// The job spec of `up`, as a file or - for standard input.
    #[arg(long, value_name = "FILE", hide = true)]
    pub job_spec: Option<PathBuf>,
    /// The job spec is a file that begins with the job's key, as on standard input.
    #[arg(long, hide = true, requires = "job_spec")]
    pub keyed: bool,
    /// Started by a launcher that stays: the node ends when the process that started it does.
    #[arg(long, hide = true, requires = "job_spec")]
    pub step: bool,
    /// The job of PBS whose the daemon shall be.
    #[arg(long, hide = true, value_name = "ID", requires = "background")]
    pub pbs_job: Option<String>,
    /// Standard input hands over the socket to listen on, and the job's key.
    #[arg(long, hide = true)]
    pub listen_stdin: bool,
    /// Run in a session of its own, so that no terminal ends the daemon.
    #[arg(long, hide = true)]
    pub session: bool,
    /// Be the daemon of a keeper, whose link is the standard input; its value is for who looks at the processes.
    #[arg(long, hide = true, value_name = "JOB/RANK")]
    pub kept: Option<String>,
    /// Write what a daemon tells the kernel to forget; its socket is the standard input, and the value is for who looks at the processes.
    #[arg(long, hide = true, value_name = "JOB/RANK")]
    pub invalidates: Option<String>,
    /// Say when this node is ready, though the whole job is waited for.
    #[arg(long, hide = true, requires = "job_spec")]
    pub relayed: bool,
    /// Return when the daemon is ready and leave it running.
    #[arg(long, hide = true, requires = "job_spec")]
    pub background: bool,
    /// Hand a copy of this node's view to whoever is behind standard input, and end.
    #[arg(long, hide = true, value_name = "NODE")]
    pub lend: Option<String>,
    /// Become this program, which serves a mounted image; standard input and output are the mount and the image.
    #[arg(long, hide = true, value_name = "PROGRAM", requires = "kept_by")]
    pub serve_image: Option<PathBuf>,
    /// The keeper's process.
    #[arg(long, hide = true, value_name = "PID")]
    pub kept_by: Option<u32>,
    /// The configuration file.
    #[command(flatten)]
    pub file: ConfigFile,
    /// The settings.
    #[command(flatten)]
    pub given: GivenForNode,
}

/// `run`.
#[derive(Args, Debug)]
#[command(
    after_help = "The command replaces forebay: the exit status is the command's. It sees the exports read-only; everything else, \
                  and what other programs see, stays as it is. With --image, the command is a program of the image; \
                  docs/containers.md says what it sees of the host. If the current directory lies in the burst tier, and the tier does \
                  not answer for 30 s, the status is 125. Exit status if the command does not run, as with env(1): 125 \
                  forebay failed (wrong usage, no job, exports or image cannot be shown), 126 the command was found but cannot \
                  be run, 127 the command was not found.\n\nExamples:\n  \
                  forebay run -- python3 train.py\n  srun --ntasks-per-node=12 forebay run -- python3 train.py\n  \
                  mpiexec -n 12 forebay run -- ./solver\n  forebay run --or-direct -- ./solver\n  forebay run --view -- python3 train.py\n  \
                  srun forebay run --image /soft/images/pytorch.sqfs --set-env --bind /data -- python3 train.py"
)]
pub struct RunArguments {
    /// Run the command from the view instead, if it is in an export; FOREBAY_PREFIX in its environment is the view's path
    #[arg(long)]
    pub view: bool,
    /// Where the job is not up, or its node here is lost, run the command on the file system itself, and say so (not with a burst
    /// tier)
    #[arg(long)]
    pub or_direct: bool,
    /// Use the view of this node [default: this host's, the first of several]
    #[arg(long, value_name = "I")]
    pub rank: Option<u32>,
    /// Do not have MPI libraries lock what they access in the burst tier of a job of several nodes: less is seen on other nodes
    #[arg(long)]
    pub no_mpi_locks: bool,
    /// Run it in an image.
    #[command(flatten)]
    pub image: ImageArguments,
    /// The configuration file.
    #[command(flatten)]
    pub file: ConfigFile,
    /// The settings.
    #[command(flatten)]
    pub given: GivenForJob,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// `metrics`.
#[derive(Args, Debug)]
#[command(after_help = "Exit status: 0 done, 3 a node does not answer (forebay_up is 0), 1 failed.\n\nExamples:\n  \
                        forebay metrics --job train > forebay.prom.new && mv forebay.prom.new forebay.prom\n  forebay metrics --all")]
pub struct MetricsArguments {
    /// Print the metrics of all nodes of the job, not only of those on this host
    #[arg(long)]
    pub all: bool,
    /// Print OpenMetrics 1.0 instead
    #[arg(long)]
    pub openmetrics: bool,
    /// The job.
    #[command(flatten)]
    pub of_job: OfJob,
}

/// `explain`.
#[derive(Args, Debug)]
#[command(
    after_help = "If the burst tier does not answer about PATH for 30 s, the exit status is 1.\n\nExamples:\n  forebay explain /soft/python/bin/python3\n  forebay explain --rank 5 /tmp/view/5/soft"
)]
pub struct ExplainArguments {
    /// The path, as it is in the view or on the backing file system
    pub path: PathBuf,
    /// Ask this node [default: the one whose view the path is in, else the first on this host]
    #[arg(long, value_name = "I")]
    pub rank: Option<u32>,
    /// Print a JSON array instead of text
    #[arg(long)]
    pub json: bool,
    /// The job.
    #[command(flatten)]
    pub of_job: OfJob,
}

/// `refresh`.
#[derive(Args, Debug)]
#[command(after_help = "After it returns, no node shows the old state. Exit status: 0 done, 3 done except on the \
                        nodes named, 1 failed.\n\nExamples:\n  forebay refresh /soft/env\n  forebay refresh /data/input.h5 /data/index")]
pub struct RefreshArguments {
    /// Files or directories, as they are in a view or on the backing file system
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Print the outcome as a JSON object
    #[arg(long)]
    pub json: bool,
    /// The job.
    #[command(flatten)]
    pub of_job: OfJob,
}

/// `doctor`.
#[derive(Args, Debug)]
#[command(
    after_help = "Exit status: 0 everything works, 3 something is limited, 1 no view can be mounted.\n\nExamples:\n  \
                        forebay doctor\n  srun -N4 --ntasks-per-node=1 forebay doctor --json"
)]
pub struct DoctorArguments {
    /// Print a JSON object instead of text
    #[arg(long)]
    pub json: bool,
    /// Try one thing that can only be tried in a process of its own.
    #[arg(long, hide = true, value_name = "WHAT")]
    pub probe: Option<String>,
}

/// `simulate`.
#[derive(Args, Debug)]
#[command(
    after_help = "Without NAME, the scenarios are listed. Nothing is measured: docs/scale.md describes the models and how \
                        they were checked. 100,000 nodes take minutes and some 6 GiB.\n\nExamples:\n  \
                        forebay simulate\n  forebay simulate cold --nodes 32,512,2048 --plot cold.svg\n  \
                        forebay simulate start --json | jq .bars"
)]
pub struct SimulateArguments {
    /// The scenario
    pub name: Option<String>,
    /// Numbers of nodes [default: the scenario's own]
    #[arg(long, value_name = "N,...", value_delimiter = ',', requires = "name")]
    pub nodes: Vec<usize>,
    /// Seed of the random numbers: the same seed gives the same result
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Write the plot to this file, as SVG
    #[arg(long, value_name = "FILE", requires = "name")]
    pub plot: Option<PathBuf>,
    /// Print a JSON object instead of text
    #[arg(long, requires = "name")]
    pub json: bool,
    /// Print only whether each bar is met; exit status 3 if one is not
    #[arg(long, conflicts_with_all = ["nodes", "plot", "json"])]
    pub check: bool,
}

/// `plan`.
#[derive(Args, Debug)]
#[command(
    after_help = "CASE is JSON; docs/aggregation.md has its format. Times are predicted by a model of flows that share links \
                  fairly; nothing is measured.\n\nExamples:\n  forebay plan --example --plot placement.svg\n  forebay plan --example > case.json\n  forebay plan case.json\n  \
                  forebay plan case.json --strategy joint --json\n  \
                  forebay plan - --plot placement.svg < case.json"
)]
pub struct PlanArguments {
    /// The case, as JSON; - is standard input
    #[arg(required_unless_present = "example")]
    pub case: Option<PathBuf>,
    /// Print a case to begin with; with --strategy, --json or --plot, plan it
    #[arg(long, conflicts_with = "case")]
    pub example: bool,
    /// A strategy by name, all, or best [default: all]
    #[arg(long, value_name = "NAME")]
    pub strategy: Option<String>,
    /// Print a JSON object instead of text
    #[arg(long)]
    pub json: bool,
    /// Draw the best plan in its network, with the load of the links, to this file: PNG if its name ends in .png, else SVG
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
}

/// `config`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  forebay config\n  FOREBAY_FANOUT=2 forebay config --config job.toml --json")]
pub struct ConfigArguments {
    /// Print a JSON object instead of text
    #[arg(long)]
    pub json: bool,
    /// The configuration file.
    #[command(flatten)]
    pub file: ConfigFile,
    /// The settings.
    #[command(flatten)]
    pub given: GivenForUp,
}

/// `completions`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  forebay completions bash > ~/.local/share/bash-completion/completions/forebay")]
pub struct CompletionsArguments {
    /// The shell
    pub shell: Shell,
}

/// `man`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  forebay man ~/.local/share/man/man1")]
pub struct ManArguments {
    /// An existing directory
    pub directory: PathBuf,
}

/// `walk`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  printf 'lsoft/python\\0d\\0' | forebay walk /tmp/view")]
pub struct WalkArguments {
    /// The view
    pub view: PathBuf,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent_and_every_command_has_examples() {
        let command = Cli::command();
        command.clone().debug_assert();
        for sub in command.get_subcommands() {
            let help = sub.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("\n\nExamples:\n  ") || help.starts_with("Examples:\n  "), "{}", sub.get_name());
            assert!(!help.contains("   "), "{}: blanks of the source", sub.get_name());
        }
    }
}
