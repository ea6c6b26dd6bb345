//! `mpiio`: the library to preload into MPI-IO programs, and what it did with a file.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, bail};
use forebay_mpiio::mark;
use forebay_mpiio::record::{self, Record, State};

use crate::cli::{MpiChoice, MpiioArguments};
use crate::mpiio_libraries::{MPIS, find, found, name, why_not_preloadable};
use crate::output::say;
use crate::settings::UsageError;
use crate::settings::values::show_size;

/// Prints a library's path, or a record.
pub fn run(arguments: &MpiioArguments) -> anyhow::Result<ExitCode> {
    if let Some(file) = &arguments.explain {
        return explain(file, arguments.json);
    }
    let mpi = match arguments.mpi {
        MpiChoice::Openmpi => "openmpi",
        MpiChoice::Mpich => "mpich",
        MpiChoice::Auto => automatic()?,
    };
    let path = find(mpi).with_context(|| missing(mpi))?;
    if let Some(why) = why_not_preloadable(&path) {
        bail!(why);
    }
    say!("{}", path.display());
    Ok(ExitCode::SUCCESS)
}

fn missing(mpi: &str) -> String {
    format!(
        "{} was found neither beside this command nor in the lib directory beside it; `make build` on a machine with \
         {mpi}'s mpicc builds it (the static binary cannot contain it)",
        name(mpi)
    )
}

/// The MPI that `mpirun` is of, else the only one that there is a library for.
fn automatic() -> anyhow::Result<&'static str> {
    let there: Vec<&str> = found().map(|(mpi, _)| mpi).collect();
    match (launcher(), &there[..]) {
        (Some(mpi), _) => Ok(mpi),
        (None, [mpi]) => Ok(mpi),
        (None, []) => bail!("{}", missing(MPIS[0])),
        (None, _) => Err(UsageError(
            "there are libraries for several MPIs, and no mpirun in PATH shows which one is used: give --mpi"
                .to_owned(),
        )
        .into()),
    }
}

fn launcher() -> Option<&'static str> {
    let output = Command::new("mpirun").arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let says = |words: &[&str]| words.iter().any(|word| text.contains(word));
    if says(&["Open MPI"]) {
        return Some("openmpi");
    }
    says(&["HYDRA", "MPICH", "Intel(R) MPI"]).then_some("mpich")
}

fn explain(file: &Path, in_json: bool) -> anyhow::Result<ExitCode> {
    let file = std::path::absolute(file).context("the path cannot be made absolute")?;
    let directory =
        record::directory(&|name| std::env::var_os(name)).context("neither HOME nor XDG_STATE_HOME is set")?;
    let mut record = Record::read(&directory, &file).with_context(|| {
        format!(
            "there is no record of a run of yours that wrote {} with the library (records are in {})",
            file.display(),
            directory.display()
        )
    })?;
    // The mark of any run counts, whatever the last one says of itself.
    let mark = [mark::path_of(&file), mark::path_of(&record.file)].into_iter().find(|mark| mark.exists());
    if mark.is_some() {
        record.state = State::Incomplete;
    }
    if in_json {
        say!("{:#}", serde_json::to_value(&record)?);
    } else {
        print(&record);
        if let Some(mark) = mark {
            say!(
                "some bytes of this run, unless it still runs, or of an earlier one may be missing: {} lists them",
                mark.display()
            );
        }
    }
    Ok(if record.state == State::Incomplete { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn print(record: &Record) {
    let state = match record.state {
        State::Writing => "being written, or its writers died: some bytes may be missing",
        State::Complete => "complete",
        State::Incomplete => "incomplete",
    };
    say!("{}: {state}", record.file.display());
    say!("ranks: {} on {} hosts; network: {}", record.ranks, record.hosts, record.network);
    let list: Vec<String> = record.aggregators.iter().map(|each| format!("{} ({})", each.rank, each.host)).collect();
    say!("aggregators ({}): {}", record.strategy, if list.is_empty() { "none".to_owned() } else { list.join(", ") });
    let (buffer, stripe) = (show_size(record.buffer_bytes), show_size(record.stripe_bytes));
    say!("rounds: {}, buffers of {buffer}, stripes of {stripe}", record.rounds);
    say!(
        "write calls held: {}, exchanges: {}, written by each rank alone: {}",
        record.held_calls,
        record.exchanges,
        record.own_writes
    );
    let (writes, striped, bytes) = (record.write_requests, record.striped_write_requests, record.bytes_written);
    say!("write requests: {writes} ({striped} cut at stripes) of {bytes} bytes");
    say!("read calls: {}, read requests: {} of {} bytes", record.reads, record.read_requests, record.bytes_read);
    if record.unplanned > 0 {
        say!("exchanges without a plan: {} ({})", record.unplanned, record.unplanned_why);
    }
    for (why, count) in &record.passed_through {
        say!("left to MPI: {count} calls ({why})");
    }
    for failure in &record.failures {
        let end = failure.offset + failure.length;
        say!(
            "missing: within bytes {} to {end}: rank {}, round {}: {}",
            failure.offset,
            failure.rank,
            failure.round,
            failure.error
        );
    }
}
