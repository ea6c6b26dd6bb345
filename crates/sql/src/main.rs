//! `forebay-sql`: SQL over CSV and Parquet files by DataFusion, in a binary of its own, which nobody else links.
//!
//! `session` sets the engine up, `tables` makes tables of paths, `functions` are the operators of `forebay query` as aggregates,
//! `output` writes results, `caret` shows where a statement is wrong.

mod caret;
mod cli;
mod functions;
mod output;
mod session;
mod statement;
mod tables;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::Arguments;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let threads = tokio::runtime::Builder::new_multi_thread().worker_threads(session::threads()).enable_all().build();
    let done = match threads {
        Ok(threads) => threads.block_on(statement::run(&arguments)),
        Err(error) => Err(error.into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("forebay-sql: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whoever reads has read enough, as with `| head`.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let of = |error: &(dyn std::error::Error + 'static)| {
        error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
    };
    error.chain().any(of)
}
