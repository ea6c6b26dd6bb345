//! `init`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::settings::values::{self, BurstPair};

/// The command's arguments.
#[derive(Args, Debug)]
#[command(
    after_help = "The script ends the program, lands files and ends Forebay at every end of the job; its exit status is the \
                  program's. Lines marked CHANGE are yours to change. Paths come from this machine: the command's own, exports \
                  from $VIRTUAL_ENV and $CONDA_PREFIX.\n\nExamples:\n  forebay init slurm > job.sh\n  \
                  forebay init pbs --nodes 16 --time 2h -- ./solver input.nml\n  \
                  forebay init flux --export /soft/env --burst /ckpt=/lustre/me/ckpt --output job.sh"
)]
pub struct InitArguments {
    /// The scheduler [default: the one on this machine]
    pub scheduler: Option<SchedulerName>,
    /// Number of nodes
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    pub nodes: u32,
    /// Time limit of the job
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = values::duration)]
    pub time: Duration,
    /// Export this directory, as forebay up does; repeatable [default: $VIRTUAL_ENV, $CONDA_PREFIX, and the prefix of COMMAND]
    #[arg(long, value_name = "PATH", value_parser = values::absolute_path)]
    pub export: Vec<PathBuf>,
    /// Give the program the directory DIR to write to, whose files land in BACKING; repeatable
    #[arg(long, value_name = "DIR[=BACKING]", value_parser = values::burst)]
    pub burst: Vec<BurstPair>,
    /// Write the script to this new file
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The program and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// A scheduler whose scripts `init` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SchedulerName {
    /// Slurm
    Slurm,
    /// PBS
    Pbs,
    /// LSF
    Lsf,
    /// Flux
    Flux,
    /// PBS with HPE's PALS
    Pals,
}
