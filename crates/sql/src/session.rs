//! The engine as it is set up here.

use std::sync::Arc;
use std::thread;

use datafusion::catalog::DynamicFileCatalog;
use datafusion::common::{DataFusionError, Result, TableReference};
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::prelude::{SessionConfig, SessionContext};

use crate::functions;
use crate::tables::Tables;

/// Rows of a batch.
const BATCH_ROWS: usize = 8192;

/// What is set up.
pub struct Options<'a> {
    /// What sorts, joins and groups may take, bytes.
    pub memory_bytes: usize,
    /// Tables by name.
    pub named: &'a [(String, String)],
}

/// A session for statements over these tables.
///
/// # Errors
/// A named table cannot be opened.
pub async fn for_statements(tables: Tables, options: Options<'_>) -> Result<SessionContext> {
    let mut config = SessionConfig::new().with_target_partitions(threads()).with_batch_size(BATCH_ROWS);
    config.options_mut().sql_parser.collect_spans = true;
    let mut state = SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(runtime(options.memory_bytes)?)
        .with_default_features()
        .build();
    let tables = Arc::new(tables);
    let files = DynamicFileCatalog::new(Arc::clone(state.catalog_list()), Arc::clone(&tables) as _);
    state.register_catalog_list(Arc::new(files));
    let context = SessionContext::new_with_state(state);
    functions::all().into_iter().for_each(|function| context.register_udaf(function));
    let session = context.state_weak_ref();
    tables.belong_to(Box::new(move || session.upgrade().map(|state| state.read().clone())));
    for (name, path) in options.named {
        context.register_table(TableReference::bare(name.as_str()), tables.table(path).await?)?;
    }
    Ok(context)
}

/// Threads that work at once.
pub fn threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

fn runtime(memory_bytes: usize) -> Result<Arc<RuntimeEnv>, DataFusionError> {
    RuntimeEnvBuilder::new().with_memory_pool(Arc::new(FairSpillPool::new(memory_bytes))).build_arc()
}
