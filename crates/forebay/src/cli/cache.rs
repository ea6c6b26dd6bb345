//! The arguments of `cache`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `cache`.
#[derive(Args, Debug)]
#[command(arg_required_else_help = true)]
#[command(after_help = "Examples:\n  forebay cache list\n  forebay cache drop --cache-store /mnt/nvme/me/cache")]
pub struct CacheArguments {
    /// The command.
    #[command(subcommand)]
    pub command: CacheCommand,
}

/// Commands on cache stores.
#[derive(Subcommand, Debug)]
pub enum CacheCommand {
    /// List your cache stores on this host: room, chunks, last use
    #[command(after_help = "Examples:\n  forebay cache list\n  forebay cache list --json | jq '.stores[].used_bytes'")]
    List(CachePlaces),
    /// Remove cache stores, of any version; jobs that use them go on without
    #[command(after_help = "The directory stays, with whatever else is in it.\n\nExamples:\n  forebay cache drop\n  \
                            srun --ntasks-per-node=1 forebay cache drop --cache-store /mnt/nvme/me/cache")]
    Drop(CachePlaces),
}

/// Where they are looked for.
#[derive(Args, Debug)]
pub struct CachePlaces {
    /// Look in DIR, and in DIR/I of nodes that shared a host; repeatable [default: FOREBAY_CACHE_STORE, and where
    /// --cache-store auto may have put them]
    #[arg(long, value_name = "DIR")]
    pub cache_store: Vec<PathBuf>,
    /// Print a JSON object instead of text
    #[arg(long)]
    pub json: bool,
}
