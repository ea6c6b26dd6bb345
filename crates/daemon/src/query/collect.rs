//! The state of a file: one pass over all of its blocks.

use std::sync::atomic::AtomicU64;

use anyhow::Context;
use forebay_query::{Block, Collected, Partials, Pass, Schema, State};

use super::blocks::{BlockOptions, each_block};
use super::source::{FileSource, block_count};

/// What a pass collects, and how it reads.
#[derive(Clone, Copy)]
pub struct PassOptions<'a> {
    /// What is collected.
    pub collected: Collected,
    /// Threads that read and parse.
    pub threads: usize,
    /// Counts bytes that are done.
    pub done_bytes: &'a AtomicU64,
}

/// The state of a file; `table` is its schema and the columns to keep, if rows are collected.
pub fn collect(
    source: &FileSource,
    table: Option<(&Schema, &[usize])>,
    options: PassOptions<'_>,
) -> anyhow::Result<State> {
    let PassOptions { collected, threads, done_bytes } = options;
    let begin = || match table {
        Some((schema, columns)) => Pass::new(schema.clone(), columns, collected),
        None => Pass::of_bytes(collected),
    };
    if source.bytes() == 0 {
        // A state of nothing, with all its parts.
        let (is_quoted, follows_newline, is_end) = (false, true, true);
        return Ok(begin().block(Block { bytes: &[], len: 0, offset: 0, is_quoted, follows_newline, is_end }));
    }
    let blocks = BlockOptions { threads, rows: table.is_some(), in_order: false, done_bytes };
    let mut partials = Partials::default();
    each_block(source, blocks, begin, Pass::block, |index, state| Ok(partials.add(index, state)?))?;
    let partials = partials.finish(block_count(source.bytes()));
    partials.with_context(|| format!("the blocks of {} do not fit", source.path().display()))
}
