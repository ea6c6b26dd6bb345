//! The commands for the end of a job.

use clap::Args;

use super::ConfigFile;
use crate::settings::GivenForReport;

/// `down`.
#[derive(Args, Debug)]
#[command(
    after_help = "Also cleans up after daemons that died. First, everything written to the burst tier lands; if some of it cannot, \
                  the store stays, and the exit status is 3.\n\nExamples:\n  forebay down\n  forebay down --job train"
)]
pub struct DownArguments {
    /// Print no report; it is kept all the same
    #[arg(long, short)]
    pub quiet: bool,
    /// Print a JSON object instead of text
    #[arg(long)]
    pub json: bool,
    /// Stop what runs on this host and clean up here, without asking other nodes
    #[arg(long)]
    pub local_only: bool,
    /// Exit with status 4 if no job is up here: the command of another host must know that.
    #[arg(long, hide = true)]
    pub must_be_up: bool,
    /// End only what belongs to this start of the job.
    #[arg(long, hide = true, value_name = "ID", requires = "local_only")]
    pub of_start: Option<String>,
    /// Do not wait until the burst tier has landed; the store keeps the rest, and the exit status is 3 if there is any
    #[arg(long)]
    pub no_drain: bool,
    /// The configuration file.
    #[command(flatten)]
    pub file: ConfigFile,
    /// The settings.
    #[command(flatten)]
    pub given: GivenForReport,
}

/// `report`.
#[derive(Args, Debug)]
#[command(
    after_help = "Without a JOB, the report of the last job is shown. The last 10 jobs are kept. Exit status: 0 done, 3 the job ended \
                  without forebay down and has no report, 1 failed.\n\nExamples:\n  forebay report\n  forebay report 4711\n  \
                  forebay report 4711 4712\n  forebay report --html 4711"
)]
pub struct ReportArguments {
    /// The jobs, side by side if there are several
    #[arg(value_name = "JOB")]
    pub jobs: Vec<String>,
    /// Print only the path of the page
    #[arg(long)]
    pub html: bool,
    /// Open the page with xdg-open
    #[arg(long, conflicts_with = "html")]
    pub open: bool,
    /// Print a JSON object instead of text, an array for several jobs
    #[arg(long, conflicts_with_all = ["html", "open"])]
    pub json: bool,
    /// The configuration file.
    #[command(flatten)]
    pub file: ConfigFile,
    /// The settings.
    #[command(flatten)]
    pub given: GivenForReport,
}
