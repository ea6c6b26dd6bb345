//! The option by which a configuration file is named.

use std::path::PathBuf;

use clap::Args;

/// The option of every command that deals with a job.
#[derive(Args, Debug)]
pub struct ConfigFile {
    /// Read settings from this TOML file
    #[arg(long, value_name = "FILE", help_heading = "Job")]
    pub config: Option<PathBuf>,
}
