//! The values of a column, normalised, and the file that they make.

use std::io::Write;
use std::path::Path;

use forebay_query::{BatchSink, Kept, OnText, Pass, Schema};

use crate::contents::Contents;
use crate::files::blocks::{BlockOptions, RowsOf, each_block};
use crate::files::collect::PassOptions;
use crate::files::in_order::{InOrder, each_block_in_order};
use crate::files::source::{FileSource, block_count};
use crate::files::unfinished::Unfinished;

/// A column and what it is normalised by.
pub struct NormalisedColumn<'a> {
    /// The schema of the file.
    pub schema: &'a Schema,
    /// The column, from 0 on, and behind it the others that decide which rows are good: those of the first pass.
    pub columns: &'a [usize],
    /// Its mean.
    pub mean: f64,
    /// Its deviation, which is not 0.
    pub deviation: f64,
}

/// Some blocks of a file.
#[derive(Clone, Copy)]
pub struct Run {
    /// The first.
    pub first: u64,
    /// Behind the last.
    pub end: u64,
    /// Whether the first begins within quotes.
    pub begins_quoted: bool,
}

impl NormalisedColumn<'_> {
    /// The line above the values: the column's name if the file has a header.
    #[must_use]
    pub fn head(&self) -> String {
        match self.schema.has_header {
            true => format!("{}\n", quoted(&self.schema.names[self.columns[0]])),
            false => String::new(),
        }
    }

    /// The values of a block.
    fn values(&self, pass: &mut Pass, block: forebay_query::Block<'_>) -> Vec<f64> {
        let mut values = Values { values: Vec::new(), mean: self.mean, deviation: self.deviation };
        pass.rows(block, &mut values);
        values.values
    }
}

/// Hands what `make` makes of each block's values to `deliver`, block by block: `(x - mean) / deviation` of every good row, NaN where
/// it is missing.
pub fn each_values<T>(
    source: &impl Contents,
    column: &NormalisedColumn<'_>,
    run: Run,
    options: PassOptions<'_>,
    make: impl Fn(Vec<f64>) -> T + Sync,
    mut deliver: impl FnMut(T) -> anyhow::Result<()> + Send,
) -> anyhow::Result<()> {
    let Run { first, end, begins_quoted } = run;
    anyhow::ensure!(end <= block_count(source.bytes()), "the file is shorter than the blocks");
    let PassOptions { collected, threads, done_bytes, is_given_up } = options;
    let kept = Kept::summed(column.columns, OnText::Bad);
    let begin = || Pass::new(column.schema, kept, collected);
    let work = |pass: &mut Pass, block: forebay_query::Block<'_>| make(column.values(pass, block));
    let rows = RowsOf::of(Some(column.schema));
    let blocks = BlockOptions { first, end, begins_quoted, threads, rows, in_order: true, done_bytes, is_given_up };
    each_block(source, blocks, begin, work, |_, made| deliver(made)).map(drop)
}

/// The same of all blocks of a file whose bytes come in order.
fn each_values_in_order<T>(
    bytes: InOrder<'_>,
    column: &NormalisedColumn<'_>,
    options: PassOptions<'_>,
    make: impl Fn(Vec<f64>) -> T + Sync,
    mut deliver: impl FnMut(T) -> anyhow::Result<()> + Send,
) -> anyhow::Result<()> {
    let PassOptions { collected, threads, done_bytes, is_given_up } = options;
    let begin = || Pass::new(column.schema, Kept::summed(column.columns, OnText::Bad), collected);
    let work = |pass: &mut Pass, block: forebay_query::Block<'_>| make(column.values(pass, block));
    let (first, end, in_order, begins_quoted) = (0, u64::MAX, true, column.schema.turns_quoting);
    let rows = RowsOf::of(Some(column.schema));
    let blocks = BlockOptions { first, end, begins_quoted, threads, rows, in_order, done_bytes, is_given_up };
    each_block_in_order(bytes, blocks, begin, work, |_, made| deliver(made)).map(drop)
}

/// The values of some blocks, as a little-endian double each.
///
/// # Errors
/// They cannot be read, or the file changes.
pub fn encoded_values(
    source: &impl Contents,
    column: &NormalisedColumn<'_>,
    run: Run,
    options: PassOptions<'_>,
) -> anyhow::Result<Vec<u8>> {
    let mut all = vec![];
    let bytes = |values: Vec<f64>| values.into_iter().flat_map(f64::to_le_bytes).collect::<Vec<u8>>();
    each_values(source, column, run, options, bytes, |bytes| {
        all.extend(bytes);
        Ok(())
    })?;
    Ok(all)
}

/// The lines of encoded values; None if the bytes are no values.
#[must_use]
pub fn lines_of_encoded(bytes: &[u8]) -> Option<Vec<u8>> {
    let (values, []) = bytes.as_chunks::<8>() else { return None };
    Some(lines(values.iter().map(|value| f64::from_le_bytes(*value))))
}

/// A line for each value. It has all its digits.
pub fn lines(values: impl Iterator<Item = f64>) -> Vec<u8> {
    let mut text = Vec::new();
    for value in values {
        // Writing into a vector cannot fail.
        let _ = writeln!(text, "{value:?}");
    }
    text
}

/// Writes a column of a file on this host.
///
/// # Errors
/// The file cannot be read or changes, or the other cannot be written.
pub fn write_normalised(
    source: &FileSource,
    column: &NormalisedColumn<'_>,
    output: &Path,
    options: PassOptions<'_>,
) -> anyhow::Result<()> {
    let mut file = Unfinished::create(output, Some(column_mode(source.mode())))?;
    file.write(column.head().as_bytes())?;
    if let Some(bytes) = source.in_order()? {
        let values = |values: Vec<f64>| lines(values.into_iter());
        let written = each_values_in_order(bytes, column, options, values, |text| file.write(&text));
        source.unless_changed(written)?;
        return file.finish();
    }
    let run = Run { first: 0, end: block_count(source.bytes()), begins_quoted: column.schema.turns_quoting };
    each_values(source, column, run, options, |values| lines(values.into_iter()), |text| file.write(&text))?;
    file.finish()
}

/// The values of a pass, normalised.
struct Values {
    values: Vec<f64>,
    mean: f64,
    deviation: f64,
}

impl BatchSink for Values {
    fn take(&mut self, columns: &[&[f64]], _may_miss: bool) {
        let fields = columns.first().into_iter().flat_map(|column| column.iter());
        self.values.extend(fields.map(|value| (value - self.mean) / self.deviation));
    }
}

/// A name as a field of CSV.
fn quoted(name: &str) -> String {
    let is_plain = !name.contains(['"', ',', '\n', '\r']) && name.parse::<f64>().is_err();
    if is_plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// The mode of a column's file, for that of the file that the column is of: who may not read that may not read the column.
#[must_use]
pub fn column_mode(source_mode: u32) -> u32 {
    source_mode & 0o666 | 0o600
}
