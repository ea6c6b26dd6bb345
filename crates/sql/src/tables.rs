//! Tables: files, directories and patterns; CSV, JSON or Parquet by their names, compressed or not.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use async_trait::async_trait;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::{TableProvider, UrlTableFactory};
use datafusion::common::config::JsonOptions;
use datafusion::common::parsers::CompressionTypeVariant;
use datafusion::common::{Column, DataFusionError, Result, plan_err};
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::csv::CsvFormat;
use datafusion::datasource::file_format::json::JsonFormat;
use datafusion::datasource::listing::{ListingOptions, ListingTable, ListingTableConfig};
use datafusion::datasource::{ViewTable, provider_as_source};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, lit};
use datafusion::object_store::path::Path as ObjectPath;

use crate::checked::Checks;
use crate::columns;
use crate::dialect::{Dialect, Types};
use crate::inflate::uncompressed;
use crate::listing::Files;
use crate::missing;
use crate::parquet::Parquet;
use crate::partitions::{NULL_NAME, Partitioned, Partitions, Pattern};

/// The bytes read of the end of a Parquet file at once: the footers of most; of others the rest is read, too. Bytes
/// before that may be far away.
const FOOTER_BYTES: usize = 32 << 10;

/// The name of a table below the condition of a pattern.
const BELOW: &str = "files";

/// How a session is had; none when it has ended.
type Session = Box<dyn Fn() -> Option<SessionState> + Send + Sync>;

/// Makes tables of paths.
pub struct Tables {
    dialect: Dialect,
    /// Types by option.
    types: OnceLock<Types>,
    session: OnceLock<Session>,
    checks: Arc<Checks>,
    /// The notes that a user has read.
    notes: Mutex<BTreeSet<String>>,
}

impl fmt::Debug for Tables {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.dialect.fmt(formatter)
    }
}

/// The kind of a file, by its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Parquet,
    /// With this separator.
    Csv(u8),
    Json,
}

impl Tables {
    /// Tables whose CSV is like this.
    pub fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            types: OnceLock::new(),
            session: OnceLock::new(),
            checks: Arc::default(),
            notes: Mutex::default(),
        }
    }

    /// The session that they belong to, and the types of columns by option.
    pub fn belong_to(&self, session: Session, types: Types) {
        drop((self.session.set(session), self.types.set(types)));
    }

    /// Types by option, all of which a column should have when the tables of a statement are made.
    pub fn types(&self) -> &Types {
        self.types.get_or_init(Types::default)
    }

    /// Whether quoted fields of CSV may have newlines.
    pub fn have_newlines(&self) -> bool {
        self.dialect.has_newlines
    }

    /// How the session's store looks at files.
    pub fn checks(&self) -> &Arc<Checks> {
        &self.checks
    }

    /// The table at a path.
    pub async fn table(&self, path: &str) -> Result<Arc<dyn TableProvider>> {
        let Some(state) = self.session.get().and_then(|session| session()) else {
            return plan_err!("{path}: the session has ended");
        };
        let pattern = Pattern::of(path)?;
        let url = pattern.url()?;
        if url.scheme() != "file" {
            return plan_err!("{path}: tables are files; mount what is elsewhere");
        }
        // It would be waited for.
        let is_stream = |found: Metadata| !found.is_file() && !found.is_dir();
        if Path::new(path).metadata().is_ok_and(is_stream) {
            return plan_err!(
                "table '{path}' is a pipe or a device, and statements read tables more than once: write it to a file first"
            );
        }
        let files = Files::at(&url, path, &state).await?;
        if let Some(note) = &files.note
            && self.notes.lock().unwrap_or_else(PoisonError::into_inner).insert(note.clone())
        {
            eprintln!("forebay-sql: note: {note}");
        }
        let Some(first) = files.paths.first() else {
            let what = if Path::new(path).is_dir() { "no file is in this directory" } else { "no such file" };
            return plan_err!("no table '{path}': {what}");
        };
        let (kind, compression) = self.kind(first)?;
        let partitions = Partitions::of(&files.paths, &url, self.types())?;
        let columns = self.columns(kind, compression, &files.paths).await?;
        // The engine's reader cuts digits off decimals, which conversions round.
        let is_text =
            matches!(kind, Kind::Csv(_)) && (!self.dialect.missing.is_empty() || self.types().have_decimals());
        let read =
            columns.as_ref().map(|columns| if is_text { missing::as_text(columns) } else { Arc::clone(columns) });
        let options = ListingOptions::new(self.format(kind, compression)).with_file_extension(files.ending.clone());
        let options = options.with_table_partition_cols(partitions.columns.clone());
        let config = ListingTableConfig::new_with_multi_paths(partitions.urls(&pattern, url, &files)?);
        let config = config.with_listing_options(options);
        let config = match read {
            Some(columns) => config.with_schema(columns),
            None => config.infer_schema(&state).await?,
        };
        let table = ListingTable::try_new(config)?;
        let names: Vec<String> = partitions.columns.iter().map(|(name, _)| name.clone()).collect();
        let mut table: Arc<dyn TableProvider> = match names.is_empty() {
            true => Arc::new(table),
            false => Arc::new(Partitioned { table, columns: names }),
        };
        table = partitions.with_nulls(table)?;
        if let Some(columns) = columns.filter(|_| is_text) {
            table = missing::view(table, &columns, &self.dialect.missing)?;
        }
        conditioned(table, &pattern.fixed)
    }

    fn kind(&self, file: &ObjectPath) -> Result<(Kind, CompressionTypeVariant)> {
        let (name, compression) = uncompressed(file.as_ref());
        let extension = name.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase()).unwrap_or_default();
        let kind = match &*extension {
            "parquet" | "parq" | "pq" if compression == CompressionTypeVariant::UNCOMPRESSED => Kind::Parquet,
            "tsv" if self.dialect.delimiter == b',' => Kind::Csv(b'\t'),
            "csv" | "tsv" | "txt" | "log" | "dat" => Kind::Csv(self.dialect.delimiter),
            "ndjson" | "jsonl" | "json" => Kind::Json,
            _ => {
                return plan_err!(
                    "{file}: neither .csv, .tsv, .txt, .log or .dat, nor .ndjson, .jsonl or .json, nor .parquet; \
                     all but .parquet may have .gz or .zst behind"
                );
            }
        };
        Ok((kind, compression))
    }

    fn format(&self, kind: Kind, compression: CompressionTypeVariant) -> Arc<dyn FileFormat> {
        match kind {
            Kind::Parquet => Arc::new(Parquet::with_footer_bytes(FOOTER_BYTES)),
            Kind::Csv(delimiter) => {
                Arc::new(CsvFormat::default().with_options(self.dialect.options(delimiter, compression)))
            }
            Kind::Json => {
                let sample = Some(self.dialect.sample_rows);
                let options = JsonOptions { compression, schema_infer_max_rec: sample, ..JsonOptions::default() };
                Arc::new(JsonFormat::default().with_options(options))
            }
        }
    }

    /// The columns of files that say little about them; Parquet has them in its footers.
    async fn columns(
        &self,
        kind: Kind,
        compression: CompressionTypeVariant,
        files: &[ObjectPath],
    ) -> Result<Option<SchemaRef>> {
        if kind == Kind::Parquet {
            return Ok(None);
        }
        let paths: Vec<PathBuf> = files.iter().map(|file| Path::new("/").join(file.as_ref())).collect();
        let dialect = self.dialect.clone();
        let read = move || match kind {
            Kind::Csv(delimiter) => columns::of_csv(&paths, &dialect, delimiter, compression),
            _ => columns::of_json(&paths, dialect.sample_rows, compression),
        };
        #[expect(clippy::disallowed_methods, reason = "a command may end where it has no thread")]
        let read: Result<Schema> =
            tokio::task::spawn_blocking(read).await.map_err(|error| DataFusionError::External(error.into()))?;
        read.map(|columns| Some(self.types().applied(&columns)))
    }
}

/// The rows of a table that a pattern means which has values of columns.
fn conditioned(table: Arc<dyn TableProvider>, fixed: &[(String, String)]) -> Result<Arc<dyn TableProvider>> {
    if fixed.is_empty() {
        return Ok(table);
    }
    let columns = table.schema();
    let condition = fixed.iter().map(|(name, value)| {
        let own = columns.field_with_name(name)?.data_type();
        let column = Expr::Column(Column::new(Some(BELOW), name));
        if value == NULL_NAME {
            return Ok(column.is_null());
        }
        Ok(column.eq(datafusion::logical_expr::cast(lit(value), own.clone())))
    });
    let condition = condition.collect::<Result<Vec<_>>>()?.into_iter().reduce(Expr::and);
    let plan = LogicalPlanBuilder::scan(BELOW, provider_as_source(table), None)?;
    let plan = condition.into_iter().try_fold(plan, LogicalPlanBuilder::filter)?;
    Ok(Arc::new(ViewTable::new(plan.build()?, None)))
}

#[async_trait]
impl UrlTableFactory for Tables {
    async fn try_new(&self, path: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        self.table(path).await.map(Some)
    }
}
