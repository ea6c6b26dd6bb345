//! The options of the commands that ask or show a job.

use clap::Args;

use super::ConfigFile;
use crate::settings::{Effective, GivenForJob};

/// The options that say which job is meant.
#[derive(Args, Debug)]
pub struct OfJob {
    /// The configuration file.
    #[command(flatten)]
    file: ConfigFile,
    /// The settings.
    #[command(flatten)]
    given: GivenForJob,
}

impl OfJob {
    /// The settings in force.
    ///
    /// # Errors
    /// When the configuration file cannot be used.
    pub fn effective(self) -> anyhow::Result<Effective> {
        Effective::merge(self.given.0, self.file.config)
    }
}
