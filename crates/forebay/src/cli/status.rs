//! The commands that show how a job is.

use std::time::Duration;

use clap::Args;

use super::OfJob;
use crate::settings::values;

/// `status`.
#[derive(Args, Debug)]
#[command(
    after_help = "If several jobs are up and none is named, they are listed. Exit status: 0 the job is well, 3 something is \
                  blocked or a node does not answer, 1 failed.\n\nExamples:\n  forebay status\n  forebay status --watch 5s\n  \
                  forebay status --job train --json | jq .verdict"
)]
pub struct StatusArguments {
    /// Show it again after each INTERVAL, until the job ends or Ctrl-C
    #[arg(long, value_name = "INTERVAL", num_args = 0..=1, default_missing_value = "2s", value_parser = values::duration)]
    pub watch: Option<Duration>,
    /// Print a JSON object instead of text
    #[arg(long)]
    pub json: bool,
    /// List the jobs of all users on this host, for root
    #[arg(long, conflicts_with = "watch")]
    pub all_users: bool,
    /// Ask no other host.
    #[arg(long, hide = true)]
    pub local_only: bool,
    /// The job.
    #[command(flatten)]
    pub of_job: OfJob,
}

/// `top`.
#[derive(Args, Debug)]
#[command(
    after_help = "Keys: q quit, n nodes, f files to land, s slow operations, l log, ? help, Esc back; arrows, PgUp, PgDn, Home and \
                  End scroll. NO_COLOR=1 switches colours off. Exit status: 0 after q and when the job ends, 1 failed, 129 or 143 \
                  after SIGHUP or SIGTERM.\n\nExamples:\n  forebay top\n  forebay top --job 4711\n  ssh -t n17 forebay top"
)]
pub struct TopArguments {
    /// The job.
    #[command(flatten)]
    pub of_job: OfJob,
}
