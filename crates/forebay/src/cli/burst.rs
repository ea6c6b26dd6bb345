//! The commands of the burst tier.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::ConfigFile;
use crate::settings::{GivenForJob, values};

/// `drain`.
#[derive(Args, Debug)]
#[command(
    after_help = "Files that are still open land with their last commit. Exit status: 0 all has landed (with --wait), 3 some has \
                  not, with the reason, 1 failed.\n\nExamples:\n  forebay drain --wait\n  forebay drain --wait --timeout 10min"
)]
pub struct DrainArguments {
    /// Wait until all has landed
    #[arg(long)]
    pub wait: bool,
    /// Wait no longer than this
    #[arg(long, value_name = "TIME", requires = "wait", value_parser = values::duration)]
    pub timeout: Option<Duration>,
    /// Print the outcome as a JSON object
    #[arg(long)]
    pub json: bool,
    /// The configuration file.
    #[command(flatten)]
    pub file: ConfigFile,
    /// The settings.
    #[command(flatten)]
    pub given: GivenForJob,
}

/// `landed`.
#[derive(Args, Debug)]
#[command(after_help = "Exit status: 0 all of them have landed, 3 some have not, 1 failed.\n\nExamples:\n  \
                  forebay landed /ckpt/step-100.pt\n  forebay landed --json /ckpt/*")]
pub struct LandedArguments {
    /// Files, as programs see them or below the burst mount
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Print a JSON object instead of text
    #[arg(long)]
    pub json: bool,
    /// The configuration file.
    #[command(flatten)]
    pub file: ConfigFile,
    /// The settings.
    #[command(flatten)]
    pub given: GivenForJob,
}
