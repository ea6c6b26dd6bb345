//! `normalise`: where the columns go, and their writing.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use forebay_daemon::query::draft_path;
use forebay_offload::files::{Contents, FileSource, NormalisedColumn, PassOptions, STANDARD_INPUT, write_normalised};
use forebay_offload::{Destination, Made, Written};
use forebay_query::{ColumnSummary, QueryError, State};

use crate::cli::QueryArguments;
use crate::commands::paths::place_of;
use crate::commands::query::merged::Second;
use crate::commands::query::near::note_lost;
use crate::commands::query::table::Table;
use crate::settings::UsageError;

/// Where the normalised column of each file goes.
///
/// # Errors
/// There is no place for one, or a file is a pipe: it is read twice.
pub fn outputs(arguments: &QueryArguments, sources: &[FileSource]) -> anyhow::Result<Vec<PathBuf>> {
    if let Some(pipe) = sources.iter().find(|source| source.is_pipe()) {
        let path = pipe.path().display();
        bail!("{path} comes once, and normalise reads its files twice; write it to a file first");
    }
    let named = |file: &PathBuf| {
        let stem = file.file_stem().unwrap_or_default().to_string_lossy();
        file.with_file_name(format!("{stem}.normalised.csv"))
    };
    let files = &arguments.files;
    if arguments.output.is_none() && files.iter().any(|file| file == Path::new(STANDARD_INPUT)) {
        return Err(UsageError("normalise of standard input needs --output FILE".to_owned()).into());
    }
    let mut outputs: Vec<PathBuf> = match &arguments.output {
        None => files.iter().map(named).collect(),
        Some(directory) if directory.is_dir() => {
            files.iter().map(|file| directory.join(named(file).file_name().unwrap_or_default())).collect()
        }
        Some(file) if files.len() == 1 => vec![file.clone()],
        Some(file) => bail!("{} is not a directory; the columns of several files need one", file.display()),
    };
    let read: HashSet<PathBuf> = files.iter().filter_map(|file| fs::canonicalize(file).ok()).collect();
    let mut written = HashSet::new();
    for output in &outputs {
        if fs::canonicalize(output).is_ok_and(|place| read.contains(&place)) {
            bail!("{} is read by this query; choose another name with --output", output.display());
        }
        if !written.insert(output) {
            bail!("{} would be written twice; normalise the files one by one", output.display());
        }
    }
    let is_named = arguments.output.as_ref().is_some_and(|named| outputs[..] == [named.clone()]);
    for output in &mut outputs {
        *output = regular(output, is_named)?;
    }
    Ok(outputs)
}

/// The regular file, or the free name, that an output is. A link stays one where the user named it; somebody else may have put it at a name that
/// was made here.
///
/// # Errors
/// It is anything else, which a file would replace.
fn regular(output: &Path, is_named: bool) -> anyhow::Result<PathBuf> {
    let refused = |what: &str| {
        Err(anyhow!(
            "{} is {what}, which the column would replace; choose another name with --output",
            output.display()
        ))
    };
    match (fs::symlink_metadata(output), fs::metadata(output)) {
        (Ok(found), _) if found.is_symlink() && !is_named => refused("a symbolic link"),
        (Ok(_), Err(_)) => refused("a symbolic link that leads to nothing"),
        (Ok(_), Ok(metadata)) if !metadata.is_file() => refused("not a regular file"),
        (Ok(_), Ok(_)) => fs::canonicalize(output).with_context(|| format!("{} cannot be written", output.display())),
        // Other errors come up when it is written.
        (Err(_), _) => Ok(output.to_owned()),
    }
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

/// Writes the first of the chosen columns of each file; by whom.
///
/// # Errors
/// It cannot be normalised, a file cannot be read or changes, or a column cannot be written.
pub fn normalise(
    sources: &[FileSource],
    table: &Table,
    (state, seconds): (&State, &[Second]),
    outputs: &[PathBuf],
    options: PassOptions<'_>,
) -> anyhow::Result<Vec<Written>> {
    let column = table.columns[0];
    let name = &table.schemas[0].names[column];
    let summary = state.rows.as_ref().and_then(|rows| rows.columns.first()).map(|column| column.summary());
    let Some(summary) = summary else { return Err(QueryError::NoNumericColumn.into()) };
    if let Some(why) = no_deviation(&summary) {
        bail!("column {name:?} cannot be normalised: {why}");
    }
    let mut all = vec![];
    for (((source, output), schema), second) in sources.iter().zip(outputs).zip(&table.schemas).zip(seconds) {
        let columns = &table.columns;
        let column = NormalisedColumn { schema, columns, mean: summary.mean, deviation: summary.deviation };
        let written = match &second.reread {
            Some(reread) => {
                let place = place_of(&std::path::absolute(output).context("a path cannot be made absolute")?);
                let draft = |number| draft_path(&place, number);
                let to = Destination { output, place: &place, draft: &draft };
                reread.write(source, &column, to, second.rows, options)?
            }
            None => {
                write_normalised(source, &column, output, options)?;
                let bytes = [(None, source.bytes())].into();
                Written { by: None, made: Made { bytes, lost: vec![] } }
            }
        };
        source.release();
        note_lost(&written.made);
        all.push(written);
    }
    Ok(all)
}
