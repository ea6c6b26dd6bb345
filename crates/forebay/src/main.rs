//! The command `forebay`: settings, commands and what they print. Daemons and keepers are crates of their own, in the
//! same binary.
//!
//! A command reads its settings, does one thing and says on standard output what came of it; what went wrong goes to
//! standard error, as a whole chain: what failed, on what, why, what to do. Exit status: 0 done, 1 failed, 2 wrong
//! usage, 3 done in part; that of `run` is its command's, or one of `env(1)`.

mod burst_mount;
mod cache_store;
mod carried_key;
mod cli;
mod columns;
mod commands;
mod contradictions;
mod directives;
mod elf;
mod ending;
mod exit;
mod health;
mod job_spec;
mod jobs;
mod kept_files;
mod kept_logs;
mod left;
mod leftovers;
mod log;
mod log_lines;
mod log_repeats;
mod machine;
mod meeting;
mod mpiio_libraries;
mod network;
mod node_local;
mod output;
mod patience;
mod profiles;
mod progress;
mod recorded;
mod report;
mod run_environment;
mod search_path;
mod settings;
mod signals;
mod top;
mod unlanded;
mod view_directory;

use std::process::ExitCode;

use crate::exit::{RUN_FAILED, WRONG_USAGE};
use crate::settings::UsageError;

/// musl's own takes more time of the daemons' threads (docs/measurements.md).
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    forebay_daemon::end_the_process();
    let command = match cli::Cli::read() {
        Ok(Some(cli)) => cli.command,
        Ok(None) => return ExitCode::SUCCESS,
        Err(error) if error.use_stderr() && is_run() => {
            error.print().ok();
            return ExitCode::from(RUN_FAILED);
        }
        Err(error) => error.exit(),
    };
    let is_run = matches!(command, cli::Command::Run(_));
    match commands::run(command) {
        Ok(code) => code,
        Err(error) => {
            let causes = output::causes(&error).join("\n  because: ");
            output::tell!("forebay: {causes}");
            ExitCode::from(match error.is::<UsageError>() {
                _ if is_run => RUN_FAILED,
                true => WRONG_USAGE,
                false => 1,
            })
        }
    }
}

/// Whether `run` was called, perhaps wrongly. Options before the name of a command need none.
fn is_run() -> bool {
    std::env::args_os().nth(1).is_some_and(|name| name == "run")
}
