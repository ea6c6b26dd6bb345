//! Tables: files, directories and patterns, CSV or Parquet by their names.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use datafusion::catalog::{TableProvider, UrlTableFactory};
use datafusion::common::config::CsvOptions;
use datafusion::common::{Result, plan_err};
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::csv::CsvFormat;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl};
use datafusion::execution::context::SessionState;
use futures::TryStreamExt;

/// The bytes read of the end of a Parquet file at once: the footers of most; of others the rest is read, too. Bytes
/// before that may be far away.
const FOOTER_BYTES: usize = 32 << 10;

/// How CSV is read.
#[derive(Clone, Copy, Debug)]
pub struct Dialect {
    /// The separator of fields.
    pub delimiter: u8,
    /// Whether the first line has the names.
    pub has_header: bool,
    /// Whether a quoted field may hold a newline, so that a file cannot be cut.
    pub has_newlines: bool,
}

/// How a session is had; none when it has ended.
type Session = Box<dyn Fn() -> Option<SessionState> + Send + Sync>;

/// Makes tables of paths.
pub struct Tables {
    dialect: Dialect,
    session: OnceLock<Session>,
}

impl fmt::Debug for Tables {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.dialect.fmt(formatter)
    }
}

impl Tables {
    /// Tables whose CSV is like this.
    pub fn new(dialect: Dialect) -> Self {
        Self { dialect, session: OnceLock::new() }
    }

    /// The session that they belong to.
    pub fn belong_to(&self, session: Session) {
        drop(self.session.set(session));
    }

    /// The table at a path.
    pub async fn table(&self, path: &str) -> Result<Arc<dyn TableProvider>> {
        let Some(state) = self.session.get().and_then(|session| session()) else {
            return plan_err!("{path}: the session has ended");
        };
        let url = ListingTableUrl::parse(path)?;
        if url.scheme() != "file" {
            return plan_err!("{path}: tables are files; mount what is elsewhere");
        }
        let store = state.runtime_env().object_store(&url)?;
        let mut files = url.list_all_files(&state, store.as_ref(), "").await?;
        let first = loop {
            match files.try_next().await? {
                // Files that begin so belong to the programs that write the others.
                Some(file) if file.location.filename().is_some_and(|name| name.starts_with(['.', '_'])) => {}
                first => break first,
            }
        };
        drop(files);
        let Some(first) = first else {
            let what = if Path::new(path).is_dir() { "no file is in this directory" } else { "no such file" };
            return plan_err!("no table '{path}': {what}");
        };
        let extension = first.location.extension().unwrap_or_default().to_ascii_lowercase();
        let format: Arc<dyn FileFormat> = match &*extension {
            "parquet" | "parq" | "pq" => Arc::new(ParquetFormat::default().with_metadata_size_hint(Some(FOOTER_BYTES))),
            "tsv" if self.dialect.delimiter == b',' => Arc::new(self.csv(b'\t')),
            "csv" | "tsv" | "txt" | "log" | "dat" => Arc::new(self.csv(self.dialect.delimiter)),
            _ => return plan_err!("{}: neither .csv, .tsv, .txt, .log or .dat nor .parquet", first.location),
        };
        // Of a directory only what has the first one's extension.
        let extension = first.location.extension().map(|text| format!(".{text}")).unwrap_or_default();
        let extension = if url.is_collection() { extension } else { String::new() };
        let options = ListingOptions::new(format).with_file_extension(extension);
        let config = ListingTableConfig::new(url).with_listing_options(options).infer_schema(&state).await?;
        Ok(Arc::new(ListingTable::try_new(config)?))
    }

    fn csv(&self, delimiter: u8) -> CsvFormat {
        let Dialect { has_header, has_newlines, .. } = self.dialect;
        let options = CsvOptions { has_header: Some(has_header), delimiter, ..CsvOptions::default() };
        CsvFormat::default().with_options(CsvOptions { newlines_in_values: Some(has_newlines), ..options })
    }
}

#[async_trait]
impl UrlTableFactory for Tables {
    async fn try_new(&self, path: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        self.table(path).await.map(Some)
    }
}
