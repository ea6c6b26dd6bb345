//! Parquet, whose statistics are believed only where they say what the engine takes them to say.
//!
//! The least and greatest values of floating-point columns pass over NaN, so a column where both are alike may have others, and a group of rows
//! without a value above 5 may have NaN, which is above all. Some writers count no nulls, which the engine takes for none.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::catalog::Session;
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::{Result, Statistics};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::file_format::{FileFormat, FileMeta};
use datafusion::datasource::physical_plan::parquet::metadata::DFParquetMetadata;
use datafusion::datasource::physical_plan::{FileScanConfig, FileScanConfigBuilder, FileSource, ParquetSource};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::object_store::{ObjectMeta, ObjectStore};
use datafusion::parquet::file::metadata::ParquetMetaData;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;

use crate::residency::replaced;

/// See the module.
#[derive(Debug, Default)]
pub struct Parquet {
    format: ParquetFormat,
    /// Whether a file of those that were looked at does not count the nulls of a column.
    lacks_nulls: AtomicBool,
}

impl Parquet {
    /// So many bytes of a file's end are read at once.
    pub fn with_footer_bytes(bytes: usize) -> Self {
        Self { format: ParquetFormat::default().with_metadata_size_hint(Some(bytes)), ..Self::default() }
    }

    /// A file's footer, which the session keeps.
    async fn footer(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        object: &ObjectMeta,
    ) -> Result<Arc<ParquetMetaData>> {
        let cache = state.runtime_env().cache_manager.get_file_metadata_cache();
        let footer = DFParquetMetadata::new(store, object).with_file_metadata_cache(Some(cache));
        footer.with_metadata_size_hint(self.format.metadata_size_hint()).fetch_metadata().await
    }

    /// Statistics without what they do not tell.
    async fn believed(
        &self,
        (state, store): (&dyn Session, &Arc<dyn ObjectStore>),
        columns: &SchemaRef,
        object: &ObjectMeta,
        mut statistics: Statistics,
    ) -> Result<Statistics> {
        let has_nulls = counts_nulls(&*self.footer(state, store, object).await?);
        if !has_nulls {
            self.lacks_nulls.store(true, Ordering::Relaxed);
        }
        for (column, field) in statistics.column_statistics.iter_mut().zip(columns.fields()) {
            if has_floats(field.data_type()) {
                (column.min_value, column.max_value) = (Precision::Absent, Precision::Absent);
            }
            if !has_nulls {
                column.null_count = Precision::Absent;
            }
        }
        Ok(statistics)
    }
}

#[async_trait]
impl FileFormat for Parquet {
    fn get_ext(&self) -> String {
        self.format.get_ext()
    }

    fn get_ext_with_compression(&self, compression: &FileCompressionType) -> Result<String> {
        self.format.get_ext_with_compression(compression)
    }

    fn compression_type(&self) -> Option<FileCompressionType> {
        self.format.compression_type()
    }

    async fn infer_schema(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        objects: &[ObjectMeta],
    ) -> Result<SchemaRef> {
        self.format.infer_schema(state, store, objects).await
    }

    async fn infer_stats(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        columns: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<Statistics> {
        let statistics = self.format.infer_stats(state, store, Arc::clone(&columns), object).await?;
        self.believed((state, store), &columns, object, statistics).await
    }

    async fn infer_stats_and_ordering(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        columns: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<FileMeta> {
        let found = self.format.infer_stats_and_ordering(state, store, Arc::clone(&columns), object).await?;
        let statistics = self.believed((state, store), &columns, object, found.statistics).await?;
        Ok(FileMeta::new(statistics).with_ordering(found.ordering))
    }

    async fn create_physical_plan(&self, state: &dyn Session, scan: FileScanConfig) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = self.format.create_physical_plan(state, scan).await?;
        if self.lacks_nulls.load(Ordering::Relaxed) { replaced(plan, without_pruning) } else { Ok(plan) }
    }

    fn file_source(&self, columns: TableSchema) -> Arc<dyn FileSource> {
        self.format.file_source(columns)
    }
}

/// Reads all rows of a scan whose condition is about floating-point columns.
#[derive(Debug)]
pub struct AllFloats;

impl PhysicalOptimizerRule for AllFloats {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let is_about_floats = |scan: &FileScanConfig| {
            let condition = scan.file_source().downcast_ref::<ParquetSource>()?.filter()?;
            let columns = scan.file_schema();
            let types =
                collect_columns(&condition).into_iter().map(|column| columns.field_with_name(column.name()).cloned());
            types.flatten().any(|field| has_floats(field.data_type())).then(|| without_pruning(scan)).flatten()
        };
        replaced(plan, is_about_floats)
    }

    fn name(&self) -> &'static str {
        "all_rows_where_floats_are_compared"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A scan of Parquet that passes over nothing by statistics.
fn without_pruning(scan: &FileScanConfig) -> Option<FileScanConfig> {
    let source = scan.file_source().downcast_ref::<ParquetSource>()?.clone();
    let mut options = source.table_parquet_options().clone();
    options.global.pruning = false;
    options.global.enable_page_index = false;
    let source = source.with_table_parquet_options(options);
    Some(FileScanConfigBuilder::from(scan.clone()).with_source(Arc::new(source)).build())
}

/// Whether each column that has statistics has the number of its nulls.
fn counts_nulls(footer: &ParquetMetaData) -> bool {
    let columns = footer.row_groups().iter().flat_map(|group| group.columns());
    columns.filter_map(|column| column.statistics()).all(|statistics| statistics.null_count_opt().is_some())
}

fn has_floats(own: &DataType) -> bool {
    match own {
        DataType::Dictionary(_, values) => has_floats(values),
        DataType::Struct(fields) => fields.iter().any(|field| has_floats(field.data_type())),
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => has_floats(field.data_type()),
        own => own.is_floating(),
    }
}
