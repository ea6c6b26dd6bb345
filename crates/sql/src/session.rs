//! The engine as it is set up here, at the host and at the nodes alike.

use std::sync::Arc;
use std::thread;

use datafusion::catalog::DynamicFileCatalog;
use datafusion::common::{DataFusionError, Result, TableReference};
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::prelude::{SessionConfig, SessionContext};

use crate::functions;
use crate::tables::Tables;

/// Rows of a batch.
const BATCH_ROWS: usize = 8192;

/// The options of a session.
pub struct Options<'a> {
    /// The memory for sorts, joins and groups, bytes.
    pub memory_bytes: usize,
    /// Tables by name.
    pub named: &'a [(String, String)],
}

/// A session for statements over these tables.
///
/// # Errors
/// A named table cannot be opened.
pub async fn for_statements(tables: Tables, options: Options<'_>) -> Result<SessionContext> {
    let mut config = config();
    // A worker's plan has no name for what another operator fills in while it runs.
    config.options_mut().optimizer.enable_dynamic_filter_pushdown = false;
    config.options_mut().sql_parser.collect_spans = true;
    // The files of devices stand side by side: a directory is all that is below it.
    config.options_mut().execution.listing_table_ignore_subdirectory = false;
    // Partial groups and what is made of them stay apart, so that the plan can be cut between them.
    let mut rules = PhysicalOptimizer::default().rules;
    rules.retain(|rule| rule.name() != "CombinePartialFinalAggregate");
    let mut state = SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(runtime(options.memory_bytes)?)
        .with_default_features()
        .with_physical_optimizer_rules(rules)
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

/// As much of a session as a plan needs that is there already.
pub fn for_plans(memory_bytes: usize) -> Result<SessionContext> {
    let context = SessionContext::new_with_config_rt(config(), runtime(memory_bytes)?);
    functions::all().into_iter().for_each(|function| context.register_udaf(function));
    Ok(context)
}

/// Threads that work at once. Two at least: with one, the planner aggregates in one step, which cannot be cut.
pub fn threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from).max(2)
}

fn config() -> SessionConfig {
    SessionConfig::new().with_target_partitions(threads()).with_batch_size(BATCH_ROWS)
}

fn runtime(memory_bytes: usize) -> Result<Arc<RuntimeEnv>, DataFusionError> {
    RuntimeEnvBuilder::new().with_memory_pool(Arc::new(FairSpillPool::new(memory_bytes))).build_arc()
}
