//! The arguments of `profile` and its own commands.

use clap::{Args, Subcommand};

use super::config_file::ConfigFile;
use crate::settings::{GivenForJob, GivenForProfile};

/// `profile`.
#[derive(Args, Debug)]
#[command(arg_required_else_help = true)]
#[command(after_help = "Examples:\n  forebay profile list\n  forebay profile show 'train gpt'\n  \
                        forebay profile drop 22b70823bb9dd7e6")]
pub struct ProfileArguments {
    /// The command.
    #[command(subcommand)]
    pub command: ProfileCommand,
}

/// Commands on profiles.
#[derive(Subcommand, Debug)]
pub enum ProfileCommand {
    /// List the profiles, the most recently used first
    #[command(after_help = "Examples:\n  forebay profile list\n  forebay profile list --json | jq '.profiles[].key'")]
    List(ProfileListArguments),
    /// Show the files that a profile lists, in the order of first use
    #[command(after_help = "Examples:\n  forebay profile show 22b7\n  forebay profile show --json 'train gpt'")]
    Show(ProfileShowArguments),
    /// Record now what the programs of a running job have used so far, and pack it
    #[command(
        after_help = "A job does so by itself when its start-up is over, and at its end. Run this on the host of node \
                            0.\n\nExamples:\n  forebay profile record\n  forebay profile record --job train"
    )]
    Record(ProfileRecordArguments),
    /// Remove profiles and their packs; their commands are recorded again at their next start
    #[command(after_help = "Examples:\n  forebay profile drop 22b7\n  forebay profile drop --all")]
    Drop(ProfileDropArguments),
}

/// `profile list`.
#[derive(Args, Debug)]
pub struct ProfileListArguments {
    /// Print a JSON object instead of text
    #[arg(long)]
    pub json: bool,
    /// Where they are.
    #[command(flatten)]
    pub place: ProfilePlace,
}

/// `profile show`.
#[derive(Args, Debug)]
pub struct ProfileShowArguments {
    /// The profile: its key, a prefix of it, or its command
    #[arg(value_name = "KEY|COMMAND")]
    pub which: String,
    /// Print a JSON object instead of text
    #[arg(long)]
    pub json: bool,
    /// Where it is.
    #[command(flatten)]
    pub place: ProfilePlace,
}

/// `profile record`.
#[derive(Args, Debug)]
pub struct ProfileRecordArguments {
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

/// `profile drop`.
#[derive(Args, Debug)]
pub struct ProfileDropArguments {
    /// The profiles: their keys, prefixes of them, or their commands
    #[arg(value_name = "KEY|COMMAND", required_unless_present = "all")]
    pub which: Vec<String>,
    /// Remove all of them
    #[arg(long, conflicts_with = "which")]
    pub all: bool,
    /// Print a JSON object instead of text
    #[arg(long)]
    pub json: bool,
    /// Where they are.
    #[command(flatten)]
    pub place: ProfilePlace,
}

/// Where profiles are.
#[derive(Args, Debug)]
pub struct ProfilePlace {
    /// The configuration file.
    #[command(flatten)]
    pub file: ConfigFile,
    /// The settings.
    #[command(flatten)]
    pub given: GivenForProfile,
}
