//! The command `forebay`: settings, commands and what they print. Daemons and keepers are crates of their own, in the
//! same binary.
//!
//! A command reads its settings, does one thing and says on standard output what came of it; what went wrong goes to
//! standard error, as a whole chain: what failed, on what, why, what to do. Exit status: 0 done, 1 failed, 2 wrong
//! usage, 3 done in part.

mod burst_mount;
mod carried_key;
mod cli;
mod columns;
mod commands;
mod control;
mod directives;
mod elf;
mod exit;
mod job_spec;
mod jobs;
mod leftovers;
mod log;
mod machine;
mod meeting;
mod mpiio_libraries;
mod network;
mod node_local;
mod output;
mod patience;
mod profiles;
mod search_path;
mod settings;
mod signals;
mod view_directory;

use std::process::ExitCode;

use clap::Parser;

use crate::exit::WRONG_USAGE;
use crate::settings::UsageError;

fn main() -> ExitCode {
    match commands::run(cli::Cli::parse().command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("forebay: {}", output::causes(&error).join("\n  because: "));
            ExitCode::from(if error.is::<UsageError>() { WRONG_USAGE } else { 1 })
        }
    }
}
