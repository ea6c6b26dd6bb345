//! `query OP FILE...`: statistics over files, in one pass, on this host or where a job holds the bytes (`near`).
//!
//! The core parses and sums (`forebay_query`), `forebay_offload` reads and has nodes read; here is decided which files make one table,
//! what bad rows mean, and what is shown.

mod answer;
mod bad_rows;
mod merged;
mod near;
mod normalise;
mod notes;
mod patterns;
mod plot_file;
mod plots;
mod shown;
mod sql;
mod table;

use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::{Context, anyhow};
use forebay_offload::files::{FileSource, PassOptions, STANDARD_INPUT, each_of_many};
use forebay_offload::{Collector, Makings};
use forebay_query::limits::GROUP_BYTES_MAX;
use forebay_query::{Collected, Groups, Operator, Reading, Refused, Schema, groups_max};

use crate::cli::{OnError, QueryArguments};
use crate::columns::count;
use crate::commands::query::answer::{Answer, Details, FirstRecord};
use crate::commands::query::merged::Merged;
use crate::commands::query::near::{Near, note_lost};
use crate::commands::query::normalise::{normalise, outputs};
use crate::commands::query::patterns::expanded;
use crate::commands::query::plot_file::PlotFile;
use crate::commands::query::plots::PLOTTED;
use crate::commands::query::shown::{Format, show};
use crate::commands::query::sql::{become_sql, is_sql};
use crate::commands::query::table::{Table, reading};
use crate::output::shown_path;
use crate::progress::Progress;
use crate::settings::{Effective, UsageError};

/// Open at once: more files than these are closed whenever they are not being read.
const OPEN_MAX: usize = 64;

/// Answers a query.
pub fn run(mut arguments: QueryArguments) -> anyhow::Result<ExitCode> {
    let effective = Effective::merge(std::mem::take(&mut arguments.given.0), arguments.file.config.take())?;
    if is_sql(&arguments.operators) {
        return become_sql(&arguments, &effective);
    }
    let (operators, format) = parse(&arguments)?;
    let details = details(&arguments)?;
    arguments.files = expanded(&arguments.files)?;
    let arguments = &arguments;
    let collected = Collected::of(&operators);
    let began = Instant::now();
    let (sources, schemas) = opened(arguments, &operators)?;
    let mut table = schemas.map(|schemas| Table::of(schemas, arguments, &operators)).transpose()?;
    let outputs = match operators.contains(&Operator::Normalise) {
        true => outputs(arguments, &sources)?,
        false => vec![],
    };
    let plotted = arguments.plot.as_ref().map(|path| PlotFile::begin(path, &sources, &outputs)).transpose()?;
    let progress = Progress::begin(bytes_to_read(&sources, if outputs.is_empty() { 1 } else { 2 }));
    let threads = thread::available_parallelism().map_or(1, usize::from);
    // A user who gives it up ends the process.
    let is_given_up = &AtomicBool::new(false);
    let options = PassOptions { collected, threads, done_bytes: progress.done_bytes(), is_given_up };
    let rereads = !outputs.is_empty();
    let (merged, makings) = numeric(&sources, &mut table, options, rereads, (arguments, &effective))?;
    let state = merged.state.unwrap_or_default();
    let written = match &table {
        Some(table) if !outputs.is_empty() => normalise(&sources, table, (&state, &merged.seconds), &outputs, options)?,
        _ => vec![],
    };
    drop(progress);
    let left_out = table.as_ref().and_then(|table| table.left_out(arguments, &operators));
    let notes = merged.notes.into_iter().chain(notes::of_bytes(&sources, &operators)).collect();
    let answer = Answer {
        operators,
        named: named(arguments),
        files: sources.len(),
        state,
        bad_extent: merged.bad_extent,
        first_records: table.iter().flat_map(|table| &table.schemas).map(FirstRecord::of).collect(),
        left_out,
        notes,
        names: table.as_ref().map_or_else(Vec::new, Table::names),
        is_filtered: arguments.where_row.is_some(),
        by: table.as_ref().and_then(Table::by),
        described: table.as_ref().map_or_else(Vec::new, Table::described),
        details,
        normalised: outputs.into_iter().zip(written).collect(),
        makings,
        explains: arguments.explain,
        took: began.elapsed(),
    };
    show(&answer, format);
    if let Some(file) = plotted {
        file.finish(&answer)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Refuses what is said of bytes, for a directory of Zarr arrays.
fn ensure_has_bytes(source: &FileSource, operators: &[Operator]) -> anyhow::Result<()> {
    match operators.iter().find(|operator| !operator.reads_rows()) {
        Some(operator) if source.is_store() => {
            let (path, name) = (shown_path(source.path()), operator.name());
            let message = format!("{path} is a directory of Zarr arrays, and {name} counts the bytes of a file");
            Err(UsageError(message).into())
        }
        _ => Ok(()),
    }
}

/// Refuses operators over text alone, for a file that is none.
fn ensure_of_rows(source: &FileSource, operators: &[Operator]) -> anyhow::Result<()> {
    let is_of_text = |operator: &&Operator| !operator.reads_rows() || **operator == Operator::Normalise;
    let Some(operator) = operators.iter().find(is_of_text) else { return Ok(()) };
    let (path, name) = (shown_path(source.path()), operator.name());
    let has = if source.has_data_sets() { "has data sets" } else { "is Parquet" };
    Err(UsageError(match operator {
        Operator::Normalise => format!("{path} {has}, and {name} writes columns of text alone"),
        _ => format!("{path} {has}: {name} counts the bytes of a file, so ask for it by itself"),
    })
    .into())
}

/// Bytes that so many passes read; None if that is not known.
fn bytes_to_read(sources: &[FileSource], passes: u64) -> Option<u64> {
    let is_known = !sources.iter().any(FileSource::is_pipe);
    is_known.then(|| sources.iter().map(FileSource::table_bytes).sum::<u64>() * passes)
}

/// The files in a caption.
fn named(arguments: &QueryArguments) -> String {
    match &arguments.files[..] {
        [file] if file == Path::new(STANDARD_INPUT) => "standard input".to_owned(),
        [file] => file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned(),
        files => format!("{} files", count(files.len() as u64)),
    }
}

/// The files, and their schemas if rows are collected.
fn opened(
    arguments: &QueryArguments,
    operators: &[Operator],
) -> anyhow::Result<(Vec<FileSource>, Option<Vec<Schema>>)> {
    let collected = Collected::of(operators);
    let files = &arguments.files;
    let open = |number: usize, reading: &Reading| {
        let source = FileSource::open(&files[number])?;
        ensure_has_bytes(&source, operators)?;
        let schema = collected.columns.then(|| source.schema(reading)).transpose()?;
        if files.len() > OPEN_MAX {
            source.release();
        }
        anyhow::Ok((source, schema))
    };
    let mut reading = reading(arguments)?;
    let of_text = reading.option_of_text();
    let first = open(0, &reading)?;
    if let (source, Some(schema)) = &first
        && !source.is_no_text()
    {
        // One table of text is written in one way.
        (reading.separator, reading.point) = (Some(schema.dialect.separator), Some(schema.dialect.point));
    }
    let others = each_of_many(files.len() - 1, |number| open(number + 1, &reading))?;
    let (sources, schemas): (Vec<_>, Vec<_>) = std::iter::once(first).chain(others).unzip();
    if let Some(source) = sources.iter().find(|source| source.is_no_text()) {
        ensure_of_rows(source, operators)?;
    }
    if let Some(option) = of_text.filter(|_| sources.iter().all(FileSource::is_no_text)) {
        let path = shown_path(sources[0].path());
        return Err(UsageError(format!("{path} is no text, which --{option} is about: leave it out")).into());
    }
    Ok((sources, schemas.into_iter().collect()))
}

fn parse(arguments: &QueryArguments) -> anyhow::Result<(Vec<Operator>, Format)> {
    let usage = |message: String| anyhow::Error::from(UsageError(message));
    if arguments.files.is_empty() {
        return Err(usage(format!("{:?} needs at least one FILE", arguments.operators)));
    }
    let has_quotes = arguments.quote.is_some() || arguments.escape.is_some();
    let has_types = arguments.types.is_some() || arguments.sample.is_some();
    if !arguments.tables.is_empty() || arguments.no_newlines || has_quotes || has_types {
        let options = "--table, --types, --sample, --quote, --escape and --no-newlines";
        return Err(usage(format!("{options} are for SQL only")));
    }
    let operators: Vec<Operator> = arguments
        .operators
        .split(',')
        .map(|name| name.parse().map_err(|unknown: forebay_query::UnknownOperator| usage(unknown.to_string())))
        .collect::<anyhow::Result<_>>()?;
    if arguments.output.is_some() && !operators.contains(&Operator::Normalise) {
        return Err(usage("--output is for normalise, which is not among the operators".to_owned()));
    }
    if arguments.plot.is_some() && !operators.iter().any(|operator| PLOTTED.contains(operator)) {
        return Err(usage(
            "--plot needs one of the operators stats, covariance, correlation, gramian, histogram, digits and entropy"
                .to_owned(),
        ));
    }
    if arguments.by.is_some() && operators != [Operator::Stats] {
        return Err(usage("--by gives stats by groups of rows: ask for stats alone, or use SQL (GROUP BY)".to_owned()));
    }
    let is_of_rows = |operator: &Operator| operator.reads_rows() && *operator != Operator::Normalise;
    if arguments.where_row.is_some() && !operators.iter().all(is_of_rows) {
        let message =
            "--where-row leaves out rows, but count-lines, digits, entropy and normalise are about whole files";
        return Err(usage(message.to_owned()));
    }
    let format = Format::of(arguments.format.as_deref(), arguments.json, &operators).map_err(usage)?;
    Ok((operators, format))
}

/// Why there are no groups, and the way out.
fn refused_groups(refused: Refused, columns: usize) -> String {
    match refused {
        Refused::TooMany => format!(
            "the column has more than {} different values; --where-row or --columns narrow them, SQL (GROUP BY) has no limit",
            groups_max(columns)
        ),
        Refused::TooLong => {
            format!("a value of the column has more than {GROUP_BYTES_MAX} bytes, which makes no group")
        }
    }
}

/// How much is told of a column that is described.
fn details(arguments: &QueryArguments) -> anyhow::Result<Details> {
    let shares = arguments.quantiles.clone().unwrap_or_else(|| vec![0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99]);
    if let Some(wrong) = shares.iter().find(|share| !(0.0..=1.0).contains(*share)) {
        let message = format!("--quantiles {wrong}: a quantile is of a share from 0 to 1, as 0.5 for the median");
        return Err(UsageError(message).into());
    }
    Ok(Details { quantiles: shares, top: arguments.top.into(), bins: arguments.bins.into() })
}

/// The merged states of all files with columns of numbers alone: those that turn out to be others are left out, with a note.
fn numeric(
    sources: &[FileSource],
    table: &mut Option<Table>,
    options: PassOptions<'_>,
    rereads: bool,
    asked: (&QueryArguments, &Effective),
) -> anyhow::Result<(Merged, Makings)> {
    let (mut merged_once, mut makings) = merged(sources, table.as_ref(), options, rereads, asked)?;
    let rows = merged_once.state.as_ref().and_then(|state| state.rows.as_ref());
    let mut tables = table.as_mut().zip(rows).filter(|_| !sources.iter().any(FileSource::is_pipe));
    if tables.as_mut().is_some_and(|(table, rows)| table.describe_texts(rows)) {
        options.done_bytes.store(0, Ordering::Relaxed);
        (merged_once, makings) = merged(sources, table.as_ref(), options, rereads, asked)?;
    }
    let Some((table, rows)) = table.as_mut().zip(merged_once.state.as_mut().and_then(|state| state.rows.as_mut()))
    else {
        return Ok((merged_once, makings));
    };
    let notes = notes::of(sources, &merged_once.first_texts, rows, table);
    let narrowed = table.narrow(rows, &notes).with_context(|| sources[0].path().display().to_string())?;
    match narrowed {
        // A Gramian is of the rows in which no column has a missing field: now there are others.
        Some(_) if options.collected.gramian || options.collected.covariance => {
            options.done_bytes.store(0, Ordering::Relaxed);
            let (merged, makings) = merged(sources, Some(table), options, rereads, asked)?;
            return Ok((merged.with(notes), makings));
        }
        Some(places) => *rows = std::mem::take(rows).of_columns(&places),
        None => {}
    }
    Ok((merged_once.with(notes), makings))
}

/// The states of all files, merged in their order, and who read; an error if there are bad rows that count.
fn merged(
    sources: &[FileSource],
    table: Option<&Table>,
    options: PassOptions<'_>,
    rereads: bool,
    (arguments, effective): (&QueryArguments, &Effective),
) -> anyhow::Result<(Merged, Makings)> {
    let near = Near::find(arguments.place, arguments.explain, options.collected, effective)?;
    let makers_of = near.as_ref().map(|near| |sources: &[&FileSource]| near.makers(sources));
    let mut collector = Collector {
        options,
        asked: arguments.place.into(),
        explains: arguments.explain,
        rereads,
        makers_of: makers_of.as_ref().map(|makers_of| makers_of as _),
        note: &note_lost,
        makings: Makings::default(),
    };
    let file = |index: usize| (&sources[index], table.map(|table| table.rows(index)));
    let mut merged = Merged::default();
    collector.states(sources.len(), &file, &mut |index, answered| {
        let (source, table) = file(index);
        merged.add(source, table.map(|rows| rows.schema), answered, rereads);
    })?;
    let groups = merged.state.as_ref().and_then(|state| state.rows.as_ref()?.groups.as_ref());
    if let Some(Err(refused)) = groups.map(Groups::groups) {
        let columns = table.map_or(0, |table| table.columns.len());
        let by = arguments.by.as_deref().unwrap_or_default();
        return Err(anyhow!("--by {by}: {}", refused_groups(refused, columns)));
    }
    match merged.bad_rows.message() {
        Some(message) if arguments.on_error == OnError::Fail => Err(anyhow!(message)),
        _ => Ok((merged, collector.makings)),
    }
}
