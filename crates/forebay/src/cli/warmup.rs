//! The arguments of `warmup`.

use std::path::PathBuf;

use clap::Args;

use super::OfJob;

/// `warmup`.
#[derive(Args, Debug)]
#[command(
    after_help = "Run again after an interruption, it goes on: what is there already costs a question. Links in directories are followed to \
                        files. Exit status: 0 done, 3 some files could not be brought, with the reason, 1 failed.\n\nExamples:\n  \
                        forebay warmup /lustre/me/train\n  forebay warmup --each /lustre/me/model"
)]
pub struct WarmupArguments {
    /// Files or directories, as they are in a view or on the backing file system
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Bring all to the memory of every node, as programs want that read weights
    #[arg(long, conflicts_with = "spread")]
    pub each: bool,
    /// Bring each part to the node that the others ask for it, which is the default
    #[arg(long)]
    pub spread: bool,
    /// Print lines of JSON that tell how far it is; the last one has "done": true
    #[arg(long)]
    pub json: bool,
    /// The job.
    #[command(flatten)]
    pub of_job: OfJob,
}
