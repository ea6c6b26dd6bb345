//! The commands of the burst tier.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};

use super::OfJob;
use crate::settings::made_absolute;
use crate::settings::values::{self, BurstPair};

/// `drain`.
#[derive(Args, Debug)]
#[command(
    after_help = "Files that are still open land as last committed. Changes land in their order, those of other paths too; with PATH, \
                  the command waits for these paths and tells of them alone. Exit status: 0 everything has landed (with --wait), 3 some has \
                  not, or a kernel may have more, with the reason, 1 failed.\n\nExamples:\n  forebay drain --wait\n  forebay drain --wait --timeout 10min\n  \
                  forebay drain --wait /ckpt/step-100"
)]
pub struct DrainArguments {
    /// Files, links and directories of the burst tier [default: all of it]
    #[arg(value_name = "PATH", value_parser = path())]
    pub paths: Vec<PathBuf>,
    /// Wait until everything has landed
    #[arg(long)]
    pub wait: bool,
    /// Wait no longer than this
    #[arg(long, value_name = "TIME", requires = "wait", value_parser = values::duration)]
    pub timeout: Option<Duration>,
    /// Print the outcome as a JSON object
    #[arg(long)]
    pub json: bool,
    /// The job.
    #[command(flatten)]
    pub of_job: OfJob,
}

/// `landed`.
#[derive(Args, Debug)]
#[command(
    after_help = "If the burst tier does not answer for 30 s, the command fails. Exit status: 0 all of them have landed, 3 some have \
                  not, 1 failed.\n\nExamples:\n  \
                  forebay landed\n  forebay landed /ckpt/step-100.pt\n  forebay landed --json /ckpt/step-100"
)]
pub struct LandedArguments {
    /// Files, links and directories, by their path in DIR or below the burst mount [default: all of the tier, in one line]
    #[arg(value_name = "PATH", value_parser = path())]
    pub paths: Vec<PathBuf>,
    /// Print a JSON object instead of text
    #[arg(long)]
    pub json: bool,
    /// The job.
    #[command(flatten)]
    pub of_job: OfJob,
}

/// A path of the tier. An empty one may come of a variable of a script that is not set.
fn path() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().try_map(|text| match text.is_empty() {
        true => Err("this path is empty; an empty variable of the script?"),
        false => Ok(PathBuf::from(text)),
    })
}

/// `salvage`.
#[derive(Args, Debug)]
#[command(
    after_help = "A store records where it lands; --burst must match it. Files land whole or not at all: files that need the \
                  stores of other nodes are named and stay for a salvage with those stores. Stores are removed when everything \
                  in them has landed. Exit status: 0 everything has landed, 3 some has not, 1 failed.\n\nExamples:\n  \
                  forebay salvage --burst-store /mnt/nvme/me/forebay\n  \
                  srun --ntasks-per-node=1 forebay salvage --burst-store /mnt/nvme/me/forebay --meet 2min\n  \
                  forebay salvage --burst-store /mnt/nvme/me/forebay --burst /ckpt=/lustre/me/ckpt --timeout 10min"
)]
pub struct SalvageArguments {
    /// The store, or a directory with the stores of several nodes (`up --local`); repeatable
    #[arg(long, value_name = "DIR", required = true, env = "FOREBAY_BURST_STORE")]
    pub burst_store: Vec<PathBuf>,
    /// Copy the stores of the job's nodes to where they land, and wait this long for the others
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    pub meet: Option<Duration>,
    /// Where the store is to land
    #[arg(long, value_name = "DIR=BACKING", value_parser = burst)]
    pub burst: Option<BurstPair>,
    /// Wait no longer than this
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    pub timeout: Option<Duration>,
    /// Print the outcome as a JSON object
    #[arg(long)]
    pub json: bool,
}

fn burst(text: &str) -> Result<BurstPair, String> {
    values::burst(&made_absolute("burst", text)?)
}
