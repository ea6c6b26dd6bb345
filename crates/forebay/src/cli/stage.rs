//! The arguments of `stage`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::ConfigFile;
use crate::settings::GivenForJob;

/// `stage`.
#[derive(Args, Debug)]
#[command(arg_required_else_help = true)]
#[command(after_help = "Examples:\n  forebay stage in /lustre/me/inputs /mnt/bb/me/inputs\n  \
                        forebay stage out /ckpt/best /lustre/me/results/best")]
pub struct StageArguments {
    /// The direction.
    #[command(subcommand)]
    pub command: StageCommand,
}

/// The two ways.
#[derive(Subcommand, Debug)]
pub enum StageCommand {
    /// Copy inputs to every node's own disk, or into the burst tier, before programs read them
    #[command(
        after_help = "DST becomes a copy of SRC, a file or a directory. Run again, it copies what is missing or differs. \
                            With --local, and where nodes share a host, DST of node I is DST/I, unless it is in the burst tier. \
                            Exit status: 0 everything is copied, 3 some is not, with the reason, 1 failed.\n\nExamples:\n  \
                            forebay stage in /lustre/me/inputs /mnt/bb/me/inputs\n  \
                            forebay stage in --scatter /lustre/me/shards /mnt/bb/me/shards\n  \
                            forebay stage in /lustre/me/ckpt/step-100.pt /ckpt/step-100.pt"
    )]
    In(StageInArguments),
    /// Copy files of the burst tier to any place on the backing file system
    #[command(
        after_help = "Files below DIR land in BACKING by themselves; this is for other places. A file is never visible in part, and a file \
                            that it replaces stays until then. Run again, it continues. Exit status: 0 everything is copied, 3 some is \
                            not, with the reason, 1 failed.\n\nExamples:\n  forebay stage out /ckpt/best /lustre/me/results/best\n  \
                            forebay stage out --json /ckpt/log.txt /lustre/me/log.txt"
    )]
    Out(StageOutArguments),
}

impl StageCommand {
    /// The options of both.
    pub fn options(&self) -> &StageOptions {
        match self {
            Self::In(arguments) => &arguments.options,
            Self::Out(arguments) => &arguments.options,
        }
    }
}

/// `stage in`.
#[derive(Args, Debug)]
pub struct StageInArguments {
    /// A file or directory
    #[arg(value_name = "SRC")]
    pub source: PathBuf,
    /// Path of the copy, on each node or in the burst tier
    #[arg(value_name = "DST")]
    pub destination: PathBuf,
    /// Divide the files among the nodes, about equally by bytes, instead of copying all to each
    #[arg(long)]
    pub scatter: bool,
    /// Those of both.
    #[command(flatten)]
    pub options: StageOptions,
}

/// `stage out`.
#[derive(Args, Debug)]
pub struct StageOutArguments {
    /// A file or directory of the burst tier, by its path in DIR or below the burst mount
    #[arg(value_name = "SRC")]
    pub source: PathBuf,
    /// Path of the copy
    #[arg(value_name = "DST")]
    pub destination: PathBuf,
    /// Those of both.
    #[command(flatten)]
    pub options: StageOptions,
}

/// The options of both.
#[derive(Args, Debug)]
pub struct StageOptions {
    /// Print the outcome as a JSON object
    #[arg(long)]
    pub json: bool,
    /// Do the part of this host's nodes only, and tell it in lines of JSON: how many nodes the job has.
    #[arg(long, hide = true, value_name = "N")]
    pub of: Option<usize>,
    /// The nodes of this host.
    #[arg(long, hide = true, requires = "of", value_name = "I,...", value_delimiter = ',')]
    pub ranks: Vec<u32>,
    /// They have directories of their own.
    #[arg(long, hide = true, requires = "of")]
    pub numbered: bool,
    /// The configuration file.
    #[command(flatten)]
    pub file: ConfigFile,
    /// The settings.
    #[command(flatten)]
    pub given: GivenForJob,
}
