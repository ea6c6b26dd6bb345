//! The state of a file, or of a part of it: one pass over its blocks.

use std::sync::atomic::{AtomicBool, AtomicU64};

use anyhow::Context;
use forebay_query::{Block, Collected, Kept, Part, PartState, Partials, Pass, Quotes, Schema, State};

use crate::arrays::Columns;
use crate::contents::Contents;
use crate::files::blocks::{BlockOptions, RowsOf, each_block};
use crate::files::in_order::{InOrder, each_block_in_order};
use crate::files::source::{FileSource, block_count};

/// The subject of a pass, and how it reads.
#[derive(Clone, Copy)]
pub struct PassOptions<'a> {
    /// The statistics that are collected.
    pub collected: Collected,
    /// Threads that read and parse.
    pub threads: usize,
    /// Counts bytes that are done.
    pub done_bytes: &'a AtomicU64,
    /// The result is not wanted any more.
    pub is_given_up: &'a AtomicBool,
}

/// The rows of a file, and what is wanted of them.
#[derive(Clone, Copy)]
pub struct WantedRows<'a> {
    /// The schema of the file.
    pub schema: &'a Schema,
    /// The columns to keep.
    pub kept: Kept<'a>,
}

/// The rows, if they are collected.
pub type Table<'a> = Option<WantedRows<'a>>;

/// Whether the first block of a file is to be taken for one that begins within quotes: so that its rows do not.
pub(crate) fn begins_quoted(table: Table<'_>) -> bool {
    table.is_some_and(|rows| rows.schema.turns_quoting)
}

/// The state of a file.
///
/// # Errors
/// It cannot be read, or changes.
pub fn collect(source: &FileSource, table: Table<'_>, options: PassOptions<'_>) -> anyhow::Result<State> {
    let columns = source.columns(table.as_ref().map(|rows| &rows.kept))?;
    let (partials, blocks) = match source.in_order()? {
        Some(bytes) => pass_in_order(source, bytes, table, options)?,
        None => {
            let (contents, blocks) = (contents_of(source, columns.as_ref()), block_count(source.table_bytes()));
            (pass(contents, table, options, (0, blocks), begins_quoted(table))?.0, blocks)
        }
    };
    if blocks == 0 {
        return Ok(state_of_nothing(table, options.collected));
    }
    partials.finish(blocks).with_context(|| format!("the blocks of {} do not fit", source.path().display()))
}

/// The state of a part of a file.
///
/// # Errors
/// It cannot be read, changes, or is not in the file.
pub fn collect_part(
    source: &(impl Contents + ?Sized),
    table: Table<'_>,
    options: PassOptions<'_>,
    part: Part,
) -> anyhow::Result<PartState> {
    let blocks = (part.first, part.first + u64::from(part.blocks));
    anyhow::ensure!(blocks.1 <= block_count(source.bytes()), "the file is shorter than the part");
    let run = |begins_quoted| pass(source, table, options, blocks, begins_quoted);
    if let Some(begins_quoted) = part.begins_quoted {
        let (partials, quotes) = run(begins_quoted)?;
        return Ok(match begins_quoted {
            true => PartState { quotes, unquoted: None, quoted: Some(partials) },
            false => PartState { quotes, unquoted: Some(partials), quoted: None },
        });
    }
    let (unquoted, quotes) = run(false)?;
    let quoted = if quotes == Quotes::None { None } else { Some(run(true)?.0) };
    Ok(PartState { quotes, unquoted: Some(unquoted), quoted })
}

/// The state of a part of a file of this host.
///
/// # Errors
/// The same.
pub fn collect_file_part(
    source: &FileSource,
    table: Table<'_>,
    options: PassOptions<'_>,
    part: Part,
) -> anyhow::Result<PartState> {
    let columns = source.columns(table.as_ref().map(|rows| &rows.kept))?;
    collect_part(contents_of(source, columns.as_ref()), table, options, part)
}

/// A file as a pass reads it.
fn contents_of<'a>(source: &'a FileSource, columns: Option<&'a Columns>) -> &'a dyn Contents {
    match columns {
        Some(columns) => columns,
        None => source,
    }
}

/// The state of no bytes, which every partial of a query is like.
pub fn state_of_nothing(table: Table<'_>, collected: Collected) -> State {
    let (is_quoted, follows_newline, is_end) = (false, true, true);
    new_pass(table, collected).block(Block { bytes: &[], len: 0, offset: 0, is_quoted, follows_newline, is_end })
}

fn new_pass(table: Table<'_>, collected: Collected) -> Pass {
    match table {
        Some(WantedRows { schema, kept }) => Pass::new(schema, kept, collected),
        None => Pass::of_bytes(collected),
    }
}

/// The partials of a file whose bytes come in order, and how many blocks it has.
fn pass_in_order(
    source: &FileSource,
    bytes: InOrder<'_>,
    table: Table<'_>,
    options: PassOptions<'_>,
) -> anyhow::Result<(Partials, u64)> {
    let PassOptions { collected, threads, done_bytes, is_given_up } = options;
    let (rows, begins_quoted) = (RowsOf::of(table.map(|rows| rows.schema)), begins_quoted(table));
    let (first, end, in_order) = (0, u64::MAX, false);
    let blocks = BlockOptions { first, end, begins_quoted, threads, rows, in_order, done_bytes, is_given_up };
    let mut partials = Partials::default();
    let begin = || new_pass(table, collected);
    let add = |index, state| Ok(partials.add(index, state)?);
    let read = each_block_in_order(bytes, blocks, begin, Pass::block, add);
    let blocks = source.unless_changed(read)?;
    Ok((partials, blocks))
}

fn pass(
    source: &(impl Contents + ?Sized),
    table: Table<'_>,
    options: PassOptions<'_>,
    (first, end): (u64, u64),
    begins_quoted: bool,
) -> anyhow::Result<(Partials, Quotes)> {
    let PassOptions { collected, threads, done_bytes, is_given_up } = options;
    let rows = RowsOf::of(table.map(|rows| rows.schema));
    let blocks = BlockOptions { first, end, begins_quoted, threads, rows, in_order: false, done_bytes, is_given_up };
    let mut partials = Partials::default();
    let begin = || new_pass(table, collected);
    let quotes = each_block(source, blocks, begin, Pass::block, |index, state| Ok(partials.add(index, state)?))?;
    Ok((partials, quotes))
}
