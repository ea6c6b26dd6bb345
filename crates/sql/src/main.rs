//! `forebay-sql`: SQL over CSV, JSON and Parquet files by DataFusion, in a binary of its own, which nobody else links.
//!
//! `session` sets the engine up. `tables` makes tables of paths: `listing` finds their files, `dialect` is how these are written, `columns` are what these hold,
//! `missing` are words for NULL, `partitions` are columns in the names of directories, `inflate` reads what is compressed. `functions` are the operators of `forebay query` as aggregates,
//! `output` writes results, `caret` shows where a statement is wrong.
//!
//! Near the data: `residency` finds who holds the files of a plan, and `near` starts a worker on each such node by way of the `daemon`.
//! `datafusion-distributed` divides the plan into stages. `leaves` says which task reads which files and where it runs, `channels` are how
//! the processes of a statement speak with each other. A `worker` carries out tasks over a `store` of its node's files. `checked` is what
//! text has to be on its way to the engine. `spill` is where all of them put what does not fit into memory.

mod caret;
mod channels;
mod checked;
mod cli;
mod columns;
mod daemon;
mod dialect;
mod functions;
mod inflate;
mod leaves;
mod listing;
mod memory;
mod missing;
mod near;
mod opening;
mod output;
mod overflow;
mod parquet;
mod partitions;
mod quotes;
mod records;
mod residency;
mod rows;
mod session;
mod spill;
mod statement;
mod store;
mod tables;
mod worker;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::Arguments;
use crate::rows::RowsArguments;
use crate::worker::WorkerArguments;

/// Threads of operators and connections for each processor, and at least.
const THREADS_PER_PROCESSOR: usize = 4;
const THREADS_MIN: usize = 16;

fn main() -> ExitCode {
    // Operators may compute for seconds before they let go of a thread, and a worker that answers no question meanwhile counts as lost.
    let threads = (session::threads() * THREADS_PER_PROCESSOR).max(THREADS_MIN);
    let threads = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build();
    let done = match threads {
        Ok(threads) => threads.block_on(asked()),
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

/// Daemons and `forebay query` name a part by a word before its options; no statement is one word.
async fn asked() -> anyhow::Result<()> {
    let (first, rest): (Vec<_>, Vec<_>) = std::env::args_os().enumerate().partition(|(index, _)| *index == 1);
    let rest = rest.into_iter().map(|(_, argument)| argument);
    match first.first().and_then(|(_, first)| first.to_str()) {
        Some("worker") => worker::run(WorkerArguments::parse_from(rest)).await,
        Some("rows") => rows::run(RowsArguments::parse_from(rest)).await,
        _ => statement::run(&Arguments::parse()).await,
    }
}

/// Whether the reader has read enough, as with `| head`.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let of = |error: &(dyn std::error::Error + 'static)| {
        error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
    };
    error.chain().any(of)
}
