//! `query OP FILE...`: statistics over files, in one pass, on this host or where a job holds the bytes (`near`).
//!
//! The core parses and sums (`forebay_query`), `forebay_offload` reads and has nodes read; here is decided which files make one table,
//! what bad rows mean, and what is shown.

mod answer;
mod bad_rows;
mod canvas;
mod near;
mod normalise;
mod notes;
mod plot;
mod plot_file;
mod png;
mod shown;
mod sql;
mod svg;
mod table;

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::{Context, anyhow};
use forebay_offload::files::{Contents, FileSource, PassOptions};
use forebay_offload::{Answered, Collector, Makings};
use forebay_query::{Collected, Operator, State};

use crate::cli::{OnError, QueryArguments};
use crate::commands::query::answer::{Answer, FirstRecord};
use crate::commands::query::bad_rows::named;
use crate::commands::query::near::{Near, note_lost};
use crate::commands::query::normalise::{normalise, outputs};
use crate::commands::query::plot_file::PlotFile;
use crate::commands::query::shown::{in_json, print};
use crate::commands::query::sql::{become_sql, is_sql};
use crate::commands::query::table::Table;
use crate::output::say;
use crate::progress::Progress;
use crate::settings::{Effective, UsageError};

/// Answers a query.
pub fn run(mut arguments: QueryArguments) -> anyhow::Result<ExitCode> {
    let effective = Effective::merge(std::mem::take(&mut arguments.given.0), arguments.file.config.take())?;
    let arguments = &arguments;
    if is_sql(&arguments.operators) {
        return become_sql(arguments, &effective);
    }
    let operators = parse(arguments)?;
    let collected = Collected::of(&operators);
    let began = Instant::now();
    let sources = arguments.files.iter().map(|file| FileSource::open(file)).collect::<anyhow::Result<Vec<_>>>()?;
    let mut table = collected.columns.then(|| Table::of(&sources, arguments, &operators)).transpose()?;
    let outputs = match operators.contains(&Operator::Normalise) {
        true => outputs(arguments)?,
        false => vec![],
    };
    let plotted = arguments.plot.as_ref().map(|path| PlotFile::begin(path, &sources, &outputs)).transpose()?;
    let passes = if outputs.is_empty() { 1 } else { 2 };
    let all_bytes: u64 = sources.iter().map(FileSource::bytes).sum::<u64>() * passes;
    let progress = Progress::begin(all_bytes);
    let threads = thread::available_parallelism().map_or(1, usize::from);
    // A user who gives it up ends the process.
    let is_given_up = &AtomicBool::new(false);
    let options = PassOptions { collected, threads, done_bytes: progress.done_bytes(), is_given_up };
    let rereads = !outputs.is_empty();
    let (answered, makings, state, notes) = loop {
        let (answered, makings) = states(&sources, table.as_ref(), options, rereads, (arguments, &effective))?;
        let mut state = merged(&sources, &answered, table.as_ref(), arguments.on_error)?;
        let (Some(table), Some(rows)) = (&mut table, &mut state.rows) else { break (answered, makings, state, vec![]) };
        let notes = notes::of(&sources, &answered, table);
        match table.narrow(rows, &notes).with_context(|| sources[0].path().display().to_string())? {
            // A Gramian is of the rows in which no column has a missing field: now there are others.
            Some(_) if collected.gramian => progress.done_bytes().store(0, Ordering::Relaxed),
            Some(places) => {
                *rows = std::mem::take(rows).of_columns(&places);
                break (answered, makings, state, notes);
            }
            None => break (answered, makings, state, notes),
        }
    };
    let written = match &table {
        Some(table) if !outputs.is_empty() => normalise(&sources, table, (&state, &answered), &outputs, options)?,
        _ => vec![],
    };
    drop(progress);
    let bad_extent = table.as_ref().map_or((0, 0), |table| table.bad_extent(&answered));
    let left_out = table.as_ref().and_then(|table| table.left_out(arguments, &operators));
    let first_records = table.iter().flat_map(|table| &table.schemas).map(FirstRecord::of).collect();
    let names = table.map_or_else(Vec::new, |table| table.names());
    let answer = Answer {
        operators,
        files: sources.len(),
        state,
        bad_extent,
        first_records,
        left_out,
        notes,
        names,
        normalised: outputs.into_iter().zip(written).collect(),
        makings,
        explains: arguments.explain,
        took: began.elapsed(),
    };
    if arguments.json {
        say!("{}", in_json(&answer));
    } else {
        print(&answer);
    }
    if let Some(file) = plotted {
        file.finish(&answer)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn parse(arguments: &QueryArguments) -> anyhow::Result<Vec<Operator>> {
    let usage = |message: String| anyhow::Error::from(UsageError(message));
    if arguments.files.is_empty() {
        return Err(usage(format!("{:?} needs at least one FILE", arguments.operators)));
    }
    if arguments.format.is_some() || !arguments.tables.is_empty() || arguments.no_newlines {
        return Err(usage("--format, --table and --no-newlines are for SQL only".to_owned()));
    }
    let operators: Vec<Operator> = arguments
        .operators
        .split(',')
        .map(|name| name.parse().map_err(|unknown: forebay_query::UnknownOperator| usage(unknown.to_string())))
        .collect::<anyhow::Result<_>>()?;
    if arguments.output.is_some() && !operators.contains(&Operator::Normalise) {
        return Err(usage("--output is for normalise, which is not among the operators".to_owned()));
    }
    let plotted = [Operator::Gramian, Operator::Digits, Operator::Entropy];
    if arguments.plot.is_some() && !operators.iter().any(|operator| plotted.contains(operator)) {
        return Err(usage("--plot needs one of the operators gramian, digits and entropy".to_owned()));
    }
    Ok(operators)
}

/// The state of each file, and who read.
fn states(
    sources: &[FileSource],
    table: Option<&Table>,
    options: PassOptions<'_>,
    rereads: bool,
    (arguments, effective): (&QueryArguments, &Effective),
) -> anyhow::Result<(Vec<Answered>, Makings)> {
    let near = Near::find(arguments.place, arguments.explain, options.collected, effective)?;
    let makers_of = near.as_ref().map(|near| |source: &FileSource| near.makers(source));
    let mut collector = Collector {
        options,
        asked: arguments.place.into(),
        explains: arguments.explain,
        rereads,
        makers_of: makers_of.as_ref().map(|makers_of| makers_of as _),
        note: &note_lost,
        makings: Makings::default(),
    };
    let of = |(index, source)| {
        let table = table.map(|table| table.rows(index));
        collector.state(source, table)
    };
    let states = sources.iter().enumerate().map(of).collect::<anyhow::Result<_>>()?;
    Ok((states, collector.makings))
}

/// One state of all files, in their order; an error if there are bad rows that count.
fn merged(
    sources: &[FileSource],
    answered: &[Answered],
    table: Option<&Table>,
    on_error: OnError,
) -> anyhow::Result<State> {
    let states: Vec<&State> = answered.iter().map(|answered| &answered.state).collect();
    if let (Some(table), OnError::Fail) = (table, on_error)
        && let Some(message) = named(sources, &states, &table.schemas[0].names)
    {
        return Err(anyhow!(message));
    }
    let mut states = states.into_iter();
    let first = states.next().cloned().unwrap_or_default();
    Ok(states.fold(first, State::merge))
}
