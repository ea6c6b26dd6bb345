//! `forebay-sql`: SQL over CSV and Parquet files by DataFusion, in a binary of its own, which nobody else links.
//!
//! `session` sets the engine up, `tables` makes tables of paths, `functions` are the operators of `forebay query` as aggregates,
//! `output` writes results, `caret` shows where a statement is wrong.
//!
//! Near the data: `cut` finds what of a plan can be carried out in pieces, `pieces` asks the `daemon` who holds which files, `gathered`
//! has the nodes make them. There `worker` carries out a piece, over a `store` of its files.

mod caret;
mod cli;
mod cut;
mod daemon;
mod functions;
mod gathered;
mod near;
mod output;
mod pieces;
mod session;
mod statement;
mod store;
mod tables;
mod worker;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::Arguments;

fn main() -> ExitCode {
    // As daemons start it; no statement is one word.
    let is_worker = std::env::args_os().nth(1).is_some_and(|first| first == "worker");
    let threads = tokio::runtime::Builder::new_multi_thread().worker_threads(session::threads()).enable_all().build();
    let done = match threads {
        Ok(threads) if is_worker => threads.block_on(worker::run()),
        Ok(threads) => threads.block_on(statement::run(&Arguments::parse())),
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

/// Whether the reader has read enough, as with `| head`.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let of = |error: &(dyn std::error::Error + 'static)| {
        error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
    };
    error.chain().any(of)
}
