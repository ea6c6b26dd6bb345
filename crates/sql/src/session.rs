//! The engine as it is set up here, at the host and in workers alike.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use datafusion::catalog::DynamicFileCatalog;
use datafusion::common::{DataFusionError, Result, TableReference};
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::{FunctionRegistry, SessionState, SessionStateBuilder};
use datafusion::object_store::local::LocalFileSystem;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_distributed::{DistributedExt, SessionStateBuilderExt, WorkerResolver};
use url::Url;

use crate::channels::{Channels, url_of};
use crate::dialect::Types;
use crate::functions;
use crate::inflate::Inflating;
use crate::leaves::Leaves;
use crate::memory::Memory;
use crate::overflow;
use crate::parquet::AllFloats;
use crate::records;
use crate::spill::Spill;
use crate::tables::Tables;

/// Rows of a batch where memory suffices.
const BATCH_ROWS: Range<usize> = 256..8192;

/// The memory that a thread should have for each row of a batch: rows may be wide, and a merge holds two batches of each run.
const BYTES_PER_BATCH_ROW: usize = 8 << 10;

/// The part of the memory that sorts set aside, as a divisor.
const MERGING_SHARE: usize = 4;

/// Threads that a node may give a task.
const THREADS_MAX: usize = 16;

/// Rows of a table that each node may have whole in a join: they and their index are in memory.
const BROADCAST_ROWS_MAX: usize = 4_000_000;

/// Bytes of such a row, where a plan knows bytes.
const BROADCAST_ROW_BYTES: usize = 32;

/// The options of a session.
pub struct Options<'a> {
    /// The memory for sorts, joins and groups, bytes.
    pub memory_bytes: usize,
    /// Tables by name.
    pub named: &'a [(String, String)],
    /// Types of columns by name, in the words of SQL.
    pub types: &'a [(String, String)],
}

/// A session for statements over these tables.
///
/// # Errors
/// A named table cannot be opened, or a type is none.
pub async fn for_statements(tables: Arc<Tables>, options: Options<'_>) -> Result<SessionContext> {
    let mut config = config(SessionConfig::new(), threads(), options.memory_bytes);
    config.options_mut().sql_parser.collect_spans = true;
    // The files of devices stand side by side: a directory is all that is below it.
    config.options_mut().execution.listing_table_ignore_subdirectory = false;
    let runtime = runtime(options.memory_bytes, None)?;
    let files = Arc::new(Inflating(LocalFileSystem::new(), Arc::clone(tables.checks())));
    runtime.register_object_store(ObjectStoreUrl::local_filesystem().as_ref(), files);
    let builder = SessionStateBuilder::new().with_config(config).with_runtime_env(runtime).with_default_features();
    let builder = builder.with_physical_optimizer_rule(Arc::new(AllFloats));
    let builder = match tables.have_newlines() {
        true => builder.with_physical_optimizer_rule(Arc::new(records::Newlines)),
        false => builder,
    };
    let mut state = builder.build();
    state.add_analyzer_rule(Arc::new(overflow::Looking));
    let files = DynamicFileCatalog::new(Arc::clone(state.catalog_list()), Arc::clone(&tables) as _);
    state.register_catalog_list(Arc::new(files));
    let context = SessionContext::new_with_state(state);
    functions::all().into_iter().for_each(|function| context.register_udaf(function));
    overflow::functions().into_iter().for_each(|function| context.register_udf(function));
    let session = context.state_weak_ref();
    let types = Types::new(options.types, &context.state())?;
    tables.belong_to(Box::new(move || session.upgrade().map(|state| state.read().clone())), types);
    for (name, path) in options.named {
        context.register_table(TableReference::bare(name.as_str()), tables.table(path).await?)?;
    }
    Ok(context)
}

/// The same session for a statement that nodes have a part in. In a join each has a table of up to so many rows whole, and the rows of the
/// other stay where they are; of larger ones it has parts.
///
/// # Errors
/// None.
pub fn for_nodes(
    state: SessionState,
    (leaves, broadcast_rows): (&Leaves, usize),
    channels: Channels,
    threads: usize,
) -> Result<SessionState> {
    let mut config = state.config().clone();
    // With one, the planner aggregates and joins in one step, which cannot be divided.
    config.options_mut().execution.target_partitions = threads.clamp(2, THREADS_MAX);
    let joins = &mut config.options_mut().optimizer;
    let rows = broadcast_rows.min(BROADCAST_ROWS_MAX);
    let bytes = &mut joins.hash_join_single_partition_threshold;
    *bytes = (*bytes).max(rows * BROADCAST_ROW_BYTES);
    let most = &mut joins.hash_join_single_partition_threshold_rows;
    *most = (*most).max(rows);
    // A task has no name for what another operator fills in while it runs.
    config.options_mut().optimizer.enable_dynamic_filter_pushdown = false;
    let urls = leaves.readers().iter().map(|reader| url_of(reader.rank)).collect::<Result<_>>()?;
    let builder = SessionStateBuilder::new_from_existing(state).with_config(config).with_distributed_planner();
    let builder = builder
        .with_distributed_worker_resolver(Urls(urls))
        .with_distributed_channel_resolver(channels)
        .with_distributed_desired_task_count_handler(leaves.clone())
        .with_distributed_scale_up_leaf_node_handler(leaves.clone())
        .with_distributed_route_tasks_handler(leaves.clone())
        // Task `i` of every part of a plan is of the same node.
        .with_distributed_children_isolator_unions(false)?;
    Ok(builder.build())
}

/// The workers of a statement.
struct Urls(Vec<Url>);

impl WorkerResolver for Urls {
    fn get_urls(&self) -> Result<Vec<Url>> {
        Ok(self.0.clone())
    }
}

/// As much of a session as a task needs.
///
/// # Errors
/// None.
pub fn for_tasks(builder: SessionStateBuilder, memory_bytes: usize) -> Result<SessionState> {
    let mut builder = builder;
    let own = builder.config().get_or_insert_default();
    *own = config(std::mem::take(own), threads(), memory_bytes);
    let mut state = builder.build();
    for function in functions::all() {
        state.register_udaf(Arc::new(function))?;
    }
    for function in overflow::functions() {
        state.register_udf(Arc::new(function))?;
    }
    Ok(state)
}

/// Threads that work at once.
pub fn threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

fn config(config: SessionConfig, threads: usize, memory_bytes: usize) -> SessionConfig {
    let batch_rows = (memory_bytes / threads / BYTES_PER_BATCH_ROW).clamp(BATCH_ROWS.start, BATCH_ROWS.end);
    let mut config = config.with_target_partitions(threads).with_batch_size(batch_rows);
    // Sorts of all threads together set aside no more than a part of the memory for merging what they spilled.
    let own = &mut config.options_mut().execution.sort_spill_reservation_bytes;
    *own = (*own).min(memory_bytes / (threads * MERGING_SHARE));
    config
}

/// The memory that operators take before they spill, and where they do.
///
/// # Errors
/// There is no place to spill to.
pub fn runtime(memory_bytes: usize, spill: Option<PathBuf>) -> Result<Arc<RuntimeEnv>> {
    let spill = Spill::new(spill).map_err(DataFusionError::IoError)?;
    let disk = DiskManagerBuilder::default().with_mode(DiskManagerMode::Custom(Arc::new(spill)));
    let pool = Arc::new(Memory::new(memory_bytes));
    RuntimeEnvBuilder::new().with_memory_pool(pool).with_disk_manager_builder(disk).build_arc()
}
