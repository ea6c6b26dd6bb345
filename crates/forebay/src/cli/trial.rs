//! `try`.

use std::path::PathBuf;

use clap::Args;

use crate::settings::values;

/// The command's arguments.
#[derive(Args, Debug)]
#[command(
    after_help = "COMMAND runs on every node, directly on a MODEL of a slow network file system and through Forebay, by turns, each \
                  time with cold caches; its output is thrown away. Only reads of the tree are modelled, and nothing can be written \
                  there. Nothing stays behind. Exit status: 0 compared, that of COMMAND if it fails, 1 failed, 126 COMMAND cannot be \
                  run, 127 it was not found, 130 after Ctrl-C.\n\nExamples:\n  forebay try\n  forebay try -- python3 -c 'import numpy'\n  \
                  forebay try --nodes 8 --tree /soft/app -- /soft/app/bin/solver --version\n  forebay try --json -- ./env/bin/pytest --version"
)]
pub struct TryArguments {
    /// Number of nodes on this machine [default: two per processor, at most 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    pub nodes: Option<u8>,
    /// Processes that run COMMAND on each node
    #[arg(long, value_name = "P", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=64))]
    pub processes: u8,
    /// Directory that lies on the modelled file system, at its own path [default: the Python environment or the prefix of COMMAND, or
    /// a path among its arguments]
    #[arg(long, value_name = "DIR", value_parser = values::absolute_path)]
    pub tree: Option<PathBuf>,
    /// Print a JSON object instead of text
    #[arg(long)]
    pub json: bool,
    /// Show this directory at the tree's path, wait for a line, and become the command.
    #[arg(long, hide = true, value_name = "SOURCE", requires = "tree")]
    pub enter: Option<PathBuf>,
    /// Read files of this directory.
    #[arg(long, hide = true, value_name = "DIR")]
    pub read: Option<PathBuf>,
    /// The command and its arguments [default: python3 imports its standard library; without python3, files of /usr are read]
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<std::ffi::OsString>,
}
