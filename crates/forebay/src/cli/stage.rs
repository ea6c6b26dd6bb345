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
    /// What to do.
    #[command(subcommand)]
    pub command: StageCommand,
}

/// The two ways.
#[derive(Subcommand, Debug)]
pub enum StageCommand {
    /// Copy inputs to every node's own disk, or into the burst tier, before programs read them
    #[command(
        after_help = "DST is a copy of SRC: a file of a file, a directory of a directory. Run again, it copies what is not there or not right. \
                            With --local, and where nodes share a host, DST of node I is DST/I, unless it lies in the burst tier. \
                            Exit status: 0 all is there, 3 some is not, with the reason, 1 failed.\n\nExamples:\n  \
                            forebay stage in /lustre/me/inputs /mnt/bb/me/inputs\n  \
                            forebay stage in --scatter /lustre/me/shards /mnt/bb/me/shards\n  \
                            forebay stage in /lustre/me/ckpt/step-100.pt /ckpt/step-100.pt"
    )]
    In(StageInArguments),
    /// Copy files of the burst tier to any place on the backing file system
    #[command(
        after_help = "What is written below DIR lands in BACKING by itself; this is for other places. A file is not there in part, and \
                            one that is replaced is there until then. Run again, it goes on. Exit status: 0 all is there, 3 some is not, \
                            with the reason, 1 failed.\n\nExamples:\n  forebay stage out /ckpt/best /lustre/me/results/best\n  \
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
    /// Where its copy goes on each node, or in the burst tier
    #[arg(value_name = "DST")]
    pub destination: PathBuf,
    /// Give each node a part of the files, about as many bytes as the others, instead of all of them
    #[arg(long)]
    pub scatter: bool,
    /// Those of both.
    #[command(flatten)]
    pub options: StageOptions,
}

/// `stage out`.
#[derive(Args, Debug)]
pub struct StageOutArguments {
    /// A file or directory of the burst tier, as programs see it or below the burst mount
    #[arg(value_name = "SRC")]
    pub source: PathBuf,
    /// Where its copy goes
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
