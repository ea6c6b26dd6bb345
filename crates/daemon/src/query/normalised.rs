//! Writes a column, normalised, to a file: by a temporary name and a rename, so that whoever finds it finds all of it.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use forebay_query::{BatchSink, Pass, Schema};

use super::blocks::{BlockOptions, each_block};
use super::collect::PassOptions;
use super::contents::Contents;
use super::source::{FileSource, block_count};

/// A column and what it is normalised by.
pub struct NormalisedColumn<'a> {
    /// The schema of the file.
    pub schema: &'a Schema,
    /// The column, from 0 on.
    pub column: usize,
    /// Its mean.
    pub mean: f64,
    /// Its deviation, which is not 0.
    pub deviation: f64,
}

/// Writes `(x - mean) / deviation` of every good row of a file, one a line, NaN where it is missing, below the column's
/// name if the file has a header.
pub fn write_normalised(
    source: &FileSource,
    column: &NormalisedColumn<'_>,
    output: &Path,
    options: PassOptions<'_>,
) -> anyhow::Result<()> {
    let not_written = || format!("{} cannot be written", output.display());
    let mut file = Unfinished::create(output).with_context(not_written)?;
    if column.schema.has_header {
        let name = &column.schema.names[column.column];
        writeln!(file.file, "{}", quoted(name)).with_context(not_written)?;
    }
    let PassOptions { collected, threads, done_bytes, is_given_up } = options;
    let begin = || Pass::new(column.schema.clone(), &[column.column], collected);
    let work = |pass: &mut Pass, block: forebay_query::Block<'_>| {
        let mut lines = Lines { text: Vec::new(), mean: column.mean, deviation: column.deviation };
        pass.rows(block, &mut lines);
        lines.text
    };
    let (first, end, begins_quoted) = (0, block_count(source.bytes()), false);
    let blocks =
        BlockOptions { first, end, begins_quoted, threads, rows: true, in_order: true, done_bytes, is_given_up };
    let deliver = |_, text: Vec<u8>| file.file.write_all(&text).with_context(not_written);
    let _ = each_block(source, blocks, begin, work, deliver)?;
    file.finish(output).with_context(not_written)
}

/// The lines of a block.
struct Lines {
    text: Vec<u8>,
    mean: f64,
    deviation: f64,
}

impl BatchSink for Lines {
    fn take(&mut self, columns: &[&[f64]], _may_miss: bool) {
        for value in columns.iter().flat_map(|column| column.iter()) {
            // Writing into a vector cannot fail.
            let _ = writeln!(self.text, "{:?}", (value - self.mean) / self.deviation);
        }
    }
}

/// A name as a field of CSV.
fn quoted(name: &str) -> String {
    let is_plain = !name.contains(['"', ',', '\n', '\r']) && name.parse::<f64>().is_err();
    if is_plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// A file under its temporary name, which goes with it unless it is finished.
struct Unfinished {
    path: PathBuf,
    file: File,
}

impl Unfinished {
    fn create(output: &Path) -> std::io::Result<Self> {
        let name = output.file_name().unwrap_or_default().to_string_lossy();
        let path = output.with_file_name(format!(".{name}.{}.part", std::process::id()));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o666).open(&path)?;
        Ok(Self { path, file })
    }

    fn finish(self, output: &Path) -> std::io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.path, output)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // After the rename there is nothing of this name.
        let _ = fs::remove_file(&self.path);
    }
}
