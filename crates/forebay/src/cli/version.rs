//! `version`.

use clap::Args;

/// `version`.
#[derive(Args, Debug)]
#[command(
    after_help = "Nodes of one job need builds of the same version and protocol; docs/install.md has the JSON object.\n\n\
                        Examples:\n  forebay version\n  srun --ntasks-per-node=1 forebay version --json | sort -u"
)]
pub struct VersionArguments {
    /// Print a JSON object instead of text
    #[arg(long)]
    pub json: bool,
}
