//! `query OP FILE...`: statistics over files, in one pass, on this host or where a job holds the bytes (`query_near`).
//!
//! The core parses and sums (`forebay_query`), `forebay_daemon::query` reads; here is decided which files make one table,
//! what bad rows mean, and what is shown.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Instant;

use anyhow::{Context, anyhow, bail};
use forebay_daemon::query::{Contents, FileSource, NormalisedColumn, PassOptions, write_normalised};
use forebay_query::{Collected, ColumnSummary, Operator, QueryError, Schema, State, columns_of, same_columns};

use crate::cli::{OnError, QueryArguments};
use crate::commands::query_answer::Answer;
use crate::commands::query_bad_rows::named;
use crate::commands::query_progress::Progress;
use crate::commands::query_shown::{in_json, print};
use crate::commands::query_sql::{become_sql, is_sql};
use crate::commands::query_svg::svg;
use crate::commands::query_where::{Collector, Makings};
use crate::output::say;
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
    let table = collected.columns.then(|| Table::of(&sources, arguments, collected)).transpose()?;
    let outputs = match operators.contains(&Operator::Normalise) {
        true => outputs(arguments)?,
        false => vec![],
    };
    let plot = arguments.plot.as_ref().map(|path| (path, fs::File::create(path)));
    let plot = plot.map(|(path, file)| Ok::<_, anyhow::Error>((path, file.with_context(|| not_plotted(path))?)));
    let plot = plot.transpose()?;
    let passes = if outputs.is_empty() { 1 } else { 2 };
    let all_bytes: u64 = sources.iter().map(FileSource::bytes).sum::<u64>() * passes;
    let progress = Progress::begin(all_bytes);
    let threads = thread::available_parallelism().map_or(1, usize::from);
    // Whoever gives it up ends the process.
    let is_given_up = &AtomicBool::new(false);
    let options = PassOptions { collected, threads, done_bytes: progress.done_bytes(), is_given_up };
    let collector = Collector::new(options, arguments.place, arguments.explain, &effective)?;
    let (states, makings) = states(&sources, table.as_ref(), collector)?;
    let state = merged(&sources, &states, table.as_ref(), arguments.on_error)?;
    if let (Some(table), false) = (&table, outputs.is_empty()) {
        normalise(&sources, table, &state, &outputs, options)?;
    }
    drop(progress);
    let names = table.map_or_else(Vec::new, |table| table.names());
    let answer = Answer {
        operators,
        files: sources.len(),
        state,
        names,
        normalised: outputs,
        makings,
        explains: arguments.explain,
        took: began.elapsed(),
    };
    if arguments.json {
        say!("{}", in_json(&answer));
    } else {
        print(&answer);
    }
    if let Some((path, mut file)) = plot {
        std::io::Write::write_all(&mut file, svg(&answer).as_bytes()).with_context(|| not_plotted(path))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn not_plotted(path: &Path) -> String {
    format!("the plot cannot be written to {}", path.display())
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

/// The columns of all files.
struct Table {
    /// Of each file.
    schemas: Vec<Schema>,
    columns: Vec<usize>,
}

impl Table {
    fn of(sources: &[FileSource], arguments: &QueryArguments, collected: Collected) -> anyhow::Result<Self> {
        let schema = |source: &FileSource| source.schema(arguments.delimiter, arguments.header.into());
        let mut schemas = sources.iter().map(schema).collect::<anyhow::Result<Vec<_>>>()?;
        let name = |index: usize| arguments.files[index].display().to_string();
        for (index, here) in schemas.iter().enumerate() {
            same_columns(&schemas[0], here).with_context(|| name(index))?;
        }
        // A column is what it first is in any of the files.
        let kind = |column: usize| schemas.iter().find_map(|schema| schema.numeric[column]);
        let numeric: Vec<Option<bool>> = (0..schemas[0].numeric.len()).map(kind).collect();
        schemas.iter_mut().for_each(|schema| schema.numeric.clone_from(&numeric));
        let columns = columns_of(&schemas[0], &arguments.columns, collected).with_context(|| name(0))?;
        Ok(Self { schemas, columns })
    }

    fn names(&self) -> Vec<String> {
        self.columns.iter().map(|column| self.schemas[0].names[*column].clone()).collect()
    }
}

/// The state of each file, and who read.
fn states(
    sources: &[FileSource],
    table: Option<&Table>,
    mut collector: Collector<'_>,
) -> anyhow::Result<(Vec<State>, Makings)> {
    let of = |(index, source)| {
        let table = table.map(|table| (&table.schemas[index], &table.columns[..]));
        collector.state(source, table)
    };
    let states = sources.iter().enumerate().map(of).collect::<anyhow::Result<_>>()?;
    Ok((states, collector.makings))
}

/// One state of all files, in their order; an error if there are bad rows that count.
fn merged(sources: &[FileSource], states: &[State], table: Option<&Table>, on_error: OnError) -> anyhow::Result<State> {
    if let (Some(table), OnError::Fail) = (table, on_error)
        && let Some(message) = named(sources, states, &table.schemas[0].names)
    {
        return Err(anyhow!(message));
    }
    let mut states = states.iter();
    let first = states.next().cloned().unwrap_or_default();
    Ok(states.fold(first, State::merge))
}

/// Where the normalised column of each file goes.
fn outputs(arguments: &QueryArguments) -> anyhow::Result<Vec<PathBuf>> {
    let named = |file: &PathBuf| {
        let stem = file.file_stem().unwrap_or_default().to_string_lossy();
        file.with_file_name(format!("{stem}.normalised.csv"))
    };
    let files = &arguments.files;
    let outputs: Vec<PathBuf> = match &arguments.output {
        None => files.iter().map(named).collect(),
        Some(directory) if directory.is_dir() => {
            files.iter().map(|file| directory.join(named(file).file_name().unwrap_or_default())).collect()
        }
        Some(file) if files.len() == 1 => vec![file.clone()],
        Some(file) => bail!("{} is not a directory; the columns of several files need one", file.display()),
    };
    for (index, output) in outputs.iter().enumerate() {
        let place = fs::canonicalize(output).ok();
        if place.is_some() && files.iter().any(|file| fs::canonicalize(file).ok() == place) {
            bail!("{} is read by this query; choose another name with --output", output.display());
        }
        if outputs[..index].contains(output) {
            bail!("{} would be written twice; normalise the files one by one", output.display());
        }
    }
    Ok(outputs)
}

/// Why nothing can be divided by a column's deviation.
fn no_deviation(summary: &ColumnSummary) -> Option<&'static str> {
    match summary.deviation {
        _ if summary.count == 0 => Some("it has no values"),
        deviation if deviation.is_nan() => Some("it has infinite values, so no deviation"),
        deviation if deviation.is_infinite() => Some("its deviation is larger than any double"),
        0.0 => Some("all its values are the same, its deviation is 0"),
        _ => None,
    }
}

/// Writes the first of the chosen columns.
fn normalise(
    sources: &[FileSource],
    table: &Table,
    state: &State,
    outputs: &[PathBuf],
    options: PassOptions<'_>,
) -> anyhow::Result<()> {
    let column = table.columns[0];
    let name = &table.schemas[0].names[column];
    let summary = state.rows.as_ref().and_then(|rows| rows.columns.first()).map(|column| column.summary());
    let Some(summary) = summary else { return Err(QueryError::NoNumericColumn.into()) };
    if let Some(why) = no_deviation(&summary) {
        bail!("column {name:?} cannot be normalised: {why}");
    }
    for ((source, output), schema) in sources.iter().zip(outputs).zip(&table.schemas) {
        let column = NormalisedColumn { schema, column, mean: summary.mean, deviation: summary.deviation };
        write_normalised(source, &column, output, options)?;
    }
    Ok(())
}
