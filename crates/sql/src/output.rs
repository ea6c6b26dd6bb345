//! Results: as a table for people, CSV, JSON, Parquet or Arrow IPC, to standard output or to a file that appears when it is
//! whole.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::{Context, bail, ensure};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::csv;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::ipc::writer::StreamWriter;
use datafusion::arrow::json;
use datafusion::arrow::util::pretty::pretty_format_batches_with_schema;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::basic::Compression;
use datafusion::parquet::file::properties::WriterProperties;
use forebay_offload::files::Unfinished;

use crate::cli::Format;

/// Bytes of a result that stay here until it is whole, where its statement may have to run again. Beyond them it is written as it comes.
const HELD_BYTES_MAX: usize = 64 << 20;

/// Where a result goes.
pub struct Output {
    to: Held,
    file: Option<Unfinished>,
}

/// Bytes on their way to a file or standard output.
pub struct Held {
    to: Box<dyn Write + Send>,
    bytes: Vec<u8>,
    most_bytes: usize,
    has_left: bool,
}

impl Held {
    fn let_go(&mut self) -> io::Result<()> {
        self.has_left |= !self.bytes.is_empty();
        self.most_bytes = 0;
        self.to.write_all(&std::mem::take(&mut self.bytes))
    }
}

impl Write for Held {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() <= self.most_bytes {
            self.bytes.extend_from_slice(bytes);
            return Ok(bytes.len());
        }
        self.let_go()?;
        self.has_left = true;
        self.to.write(bytes)
    }

    /// Writers flush at ends of batches, which are no ends of a result.
    fn flush(&mut self) -> io::Result<()> {
        if self.most_bytes > 0 { Ok(()) } else { self.to.flush() }
    }
}

impl Output {
    /// A file, or standard output. One that is held leaves only when it is whole or large; a file is not there before.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn open(path: Option<&Path>, is_held: bool) -> anyhow::Result<Self> {
        let held = |to, most_bytes| Held { to, bytes: vec![], most_bytes, has_left: false };
        let Some(path) = path else {
            let most_bytes = if is_held { HELD_BYTES_MAX } else { 0 };
            return Ok(Self { to: held(Box::new(BufWriter::new(io::stdout())), most_bytes), file: None });
        };
        ensure!(path.file_name().is_some(), "{} names no file", path.display());
        let unfinished = Unfinished::create(path, None)?;
        let file = unfinished.file().with_context(|| format!("{} cannot be written", path.display()))?;
        Ok(Self { to: held(Box::new(BufWriter::new(file)), 0), file: Some(unfinished) })
    }

    /// Whether a reader may have seen a part of it.
    pub fn has_left(&self) -> bool {
        self.file.is_none() && self.to.has_left
    }

    /// Completes the output.
    ///
    /// # Errors
    /// It cannot be kept.
    pub fn finish(&mut self) -> anyhow::Result<()> {
        self.to.let_go().and_then(|()| self.to.flush()).context("the result cannot be written")?;
        self.file.take().map_or(Ok(()), Unfinished::finish)
    }
}

/// Writes batches in a format, as they come.
pub enum Writer<'a> {
    /// All rows at once: widths depend on all of them.
    Table(&'a mut Output, SchemaRef, Vec<RecordBatch>),
    Csv(Box<csv::Writer<&'a mut Held>>),
    Json(json::ArrayWriter<&'a mut Held>),
    Parquet(Box<ArrowWriter<&'a mut Held>>),
    Arrow(StreamWriter<&'a mut Held>),
}

/// Rows of a table for people; whoever wants more wants a file.
const TABLE_ROWS_MAX: usize = 100_000;

impl<'a> Writer<'a> {
    /// For batches of this schema.
    ///
    /// # Errors
    /// The format cannot hold them.
    pub fn new(format: Format, output: &'a mut Output, schema: &SchemaRef) -> anyhow::Result<Self> {
        if format == Format::Csv
            && let Some(field) = schema.fields().iter().find(|field| field.data_type().is_nested())
        {
            bail!("column {:?} has several values a row, which CSV cannot represent; use --format json", field.name());
        }
        Ok(match format {
            Format::Table => Self::Table(output, SchemaRef::clone(schema), vec![]),
            Format::Csv => {
                let mut writer = csv::WriterBuilder::new().with_header(true).build(&mut output.to);
                // The names stand there also where there are no rows.
                writer.write(&RecordBatch::new_empty(SchemaRef::clone(schema)))?;
                Self::Csv(Box::new(writer))
            }
            Format::Json => {
                let builder = json::WriterBuilder::new().with_explicit_nulls(true);
                Self::Json(builder.build::<_, json::writer::JsonArray>(&mut output.to))
            }
            Format::Parquet => {
                let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
                let schema = SchemaRef::clone(schema);
                Self::Parquet(Box::new(ArrowWriter::try_new(&mut output.to, schema, Some(properties))?))
            }
            Format::Arrow => Self::Arrow(StreamWriter::try_new(&mut output.to, schema)?),
        })
    }

    /// Some rows.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn write(&mut self, batch: RecordBatch) -> anyhow::Result<()> {
        match self {
            Self::Table(_, _, batches) => {
                let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
                if rows + batch.num_rows() > TABLE_ROWS_MAX {
                    bail!("a table has at most {TABLE_ROWS_MAX} rows; use another --format, or LIMIT");
                }
                batches.push(batch);
            }
            Self::Csv(writer) => writer.write(&batch)?,
            Self::Json(writer) => writer.write(&batch)?,
            Self::Parquet(writer) => writer.write(&batch)?,
            Self::Arrow(writer) => writer.write(&batch)?,
        }
        Ok(())
    }

    /// Writes the end of the output.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(self) -> anyhow::Result<()> {
        match self {
            Self::Table(output, schema, batches) => {
                writeln!(output.to, "{}", pretty_format_batches_with_schema(schema, &batches)?)?;
            }
            Self::Csv(_) => {}
            Self::Json(mut writer) => {
                writer.finish()?;
                writeln!(writer.into_inner())?;
            }
            Self::Parquet(writer) => drop(writer.close()?),
            Self::Arrow(mut writer) => writer.finish()?,
        }
        Ok(())
    }
}
