//! `forebay-sql rows FILE`: the rows of a Parquet file as CSV, in their order, for the operators of `forebay query`.
//!
//! A column whose values are lists, structures or bytes has no place there: a line on standard error names it.

use std::collections::BTreeSet;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow, ensure};
use clap::Parser;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Column;
use datafusion::datasource::listing::{ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl};
use datafusion::logical_expr::{Expr, cast};
use datafusion::parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use datafusion::physical_plan::execute_stream;
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::TryStreamExt;
use url::Url;

use crate::cli::Format;
use crate::opening;
use crate::output::{Output, Writer};
use crate::parquet::Parquet;

/// Bytes of a file without columns: its magic at both ends, and the length of its footer.
const SMALLEST_BYTES: u64 = 12;

/// Bytes of that length, and of the magic behind it.
const END_BYTES: usize = 8;

/// The options that `forebay query` gives it.
#[derive(Parser, Debug)]
#[command(name = "forebay-sql rows")]
pub struct RowsArguments {
    /// The file, by its absolute path
    file: PathBuf,
}

/// Writes the rows.
///
/// # Errors
/// The file is no Parquet, or is damaged, or has no columns for a table of text.
pub async fn run(arguments: RowsArguments) -> anyhow::Result<()> {
    ensure_footer(&arguments.file)?;
    // One thread reads one part after the other.
    let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(1));
    let table = context.read_table(table(&arguments.file, &context).await?)?;
    let (columns, others): (Vec<_>, Vec<_>) =
        table.schema().fields().iter().cloned().partition(|field| is_of_text(field.data_type()));
    for field in &others {
        eprintln!("left out: {} ({})", field.name().replace('\n', " "), field.data_type());
    }
    ensure!(!columns.is_empty(), "none of its columns has numbers or text");
    let columns = columns.iter().map(|field| {
        let column = Expr::Column(Column::new_unqualified(field.name()));
        match field.data_type() {
            // Their shortest digits are those of another double.
            DataType::Float16 | DataType::Float32 => cast(column, DataType::Float64).alias(field.name()),
            _ => column,
        }
    });
    let plan = table.select(columns.collect::<Vec<_>>())?.create_physical_plan().await?;
    let mut output = Output::open(None, false)?;
    let mut rows = execute_stream(Arc::clone(&plan), context.task_ctx())?;
    let mut writer = Writer::new(Format::Csv, &mut output, &rows.schema())?;
    while let Some(batch) = rows.try_next().await? {
        writer.write(batch)?;
    }
    writer.finish()?;
    output.finish()
}

/// Whether the end of a file can be that of Parquet. The library trusts the length that stands there, and takes columns of one name for one.
fn ensure_footer(path: &Path) -> anyhow::Result<()> {
    let file = opening::open(path)?;
    let bytes = file.metadata()?.len();
    ensure!(bytes >= SMALLEST_BYTES, "it is cut short: {bytes} bytes are no Parquet");
    let mut end = [0; END_BYTES];
    file.read_exact_at(&mut end, bytes - END_BYTES as u64)?;
    let (len, magic) = end.split_at(4);
    ensure!(magic != b"PARE", "it is encrypted, and no key is known");
    ensure!(magic == b"PAR1", "it does not end as Parquet does: it is damaged, or cut short");
    let len = u64::from(u32::from_le_bytes([len[0], len[1], len[2], len[3]]));
    ensure!(len <= bytes - SMALLEST_BYTES, "it is damaged: its footer would have {len} of its {bytes} bytes");
    let footer = ArrowReaderMetadata::load(&file, ArrowReaderOptions::new())?;
    let mut names = BTreeSet::new();
    for field in footer.schema().fields() {
        ensure!(names.insert(field.name().clone()), "two of its columns have the name {:?}", field.name());
    }
    Ok(())
}

/// A table of one file, whatever its name is.
async fn table(file: &Path, context: &SessionContext) -> anyhow::Result<Arc<ListingTable>> {
    let url = Url::from_file_path(file).map_err(|()| anyhow!("the path is not absolute"))?;
    let options = ListingOptions::new(Arc::new(Parquet::default())).with_file_extension("");
    let config = ListingTableConfig::new(ListingTableUrl::try_new(url, None)?).with_listing_options(options);
    let config = config.infer_schema(&context.state()).await.context("it cannot be read as Parquet")?;
    Ok(Arc::new(ListingTable::try_new(config)?))
}

/// Whether values of a type have a place in CSV.
fn is_of_text(own: &DataType) -> bool {
    match own {
        DataType::Dictionary(_, values) => is_of_text(values),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => false,
        own => !own.is_nested(),
    }
}
