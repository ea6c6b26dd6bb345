//! A statement from its text to its result.
//!
//! With nodes it may be lost halfway: it runs again without the nodes that are lost, twice at most, then at this host. That is possible as
//! long as none of its rows has left this process.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use datafusion::common::DataFusionError;
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::{ExecutionPlan, displayable, execute_stream};
use datafusion::prelude::{SQLOptions, SessionContext};
use datafusion_distributed::{DistributedMetricsFormat, display_plan_ascii, explain_analyze};
use futures::TryStreamExt;

use crate::caret;
use crate::cli::Arguments;
use crate::inflate;
use crate::leaves::{RENAMED, SCATTERED};
use crate::near::{self, Near, Progress, Workers, read_bytes};
use crate::output::{Output, Writer};
use crate::records::{self, Records};
use crate::residency;
use crate::session::{self, Options};
use crate::store::CHANGED;
use crate::tables::Tables;

/// How often a statement runs again without the nodes that it lost.
const AGAIN_MAX: u32 = 2;

/// Words of the engine's error where memory does not suffice: that of a worker may be less than this host's.
const EXHAUSTED: &str = "Resources exhausted";

/// Words of the engine's error where an operator without memory would read an input again that comes over the network, once.
const CONSUMED: &str = "was already consumed";

/// Words of errors of the way between two nodes, both of which this host reaches.
const UNREACHED: [&str; 3] = ["has no worker", "transport error", "h2 protocol error"];

/// How long workers may take to tell their metrics after the last row.
const METRICS_TIMEOUT: Duration = Duration::from_secs(5);

/// Answers a statement; once more from its beginning if files change meanwhile.
pub async fn run(arguments: &Arguments) -> anyhow::Result<()> {
    arguments.ensure_signs()?;
    for _ in 0..AGAIN_MAX {
        match answered(arguments).await {
            Err(error) if error.downcast_ref::<Changed>().is_some() => eprintln!("forebay-sql: note: {error:#}"),
            done => return done,
        }
    }
    answered(arguments).await
}

/// Files are not those that the statement began with; none of its rows has left this process.
#[derive(Debug)]
struct Changed(String);

impl fmt::Display for Changed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Changed {}

async fn answered(arguments: &Arguments) -> anyhow::Result<()> {
    let statement = &arguments.statement;
    let wrong = |error: DataFusionError| anyhow!(caret::shown(&error, statement));
    let memory_bytes = usize::try_from(arguments.memory_mib << 20)?;
    let options = Options { memory_bytes, named: &arguments.tables, types: arguments.types() };
    let tables = Arc::new(Tables::new(arguments.dialect()));
    let context = session::for_statements(Arc::clone(&tables), options).await.map_err(wrong)?;
    let logical = logical(&context, statement).await.map_err(wrong)?;
    tables.types().check().map_err(wrong)?;
    let state = context.state();
    let plan = state.create_physical_plan(&logical).await.map_err(wrong)?;
    let _progress = Progress::begin();
    if let Some(near) = near::chosen(&plan, arguments).await?
        && near_data(near, &state, &logical, arguments).await?
    {
        return Ok(());
    }
    if arguments.explain {
        eprintln!("{}", displayable(plan.as_ref()).indent(false));
    }
    let mut output = Output::open(arguments.output.as_deref(), false)?;
    #[expect(clippy::disallowed_methods, reason = "a command may end where it has no thread")]
    let moved = tokio::task::spawn_blocking(|| Records::default().moved(plan, records::of_host));
    let plan = moved.await?.map_err(wrong)?;
    tables.checks().note(&plan).map_err(wrong)?;
    let plan = inflate::executable(plan).map_err(wrong)?;
    let files = residency::files_of(&plan);
    write_rows(&plan, &state, arguments, &mut output).await?;
    if let Some(file) = files.iter().find(|file| !residency::is_as_planned(file)) {
        let said = format!("/{} {CHANGED}", file.location);
        return match output.has_left() {
            true => Err(anyhow!("{said}: repeat it when nothing writes to the file")),
            false => Err(Changed(said).into()),
        };
    }
    output.finish()?;
    if arguments.explain {
        eprintln!("read here: {} bytes", read_bytes());
    }
    Ok(())
}

/// Has nodes answer it, if they can.
async fn near_data(
    mut near: Near,
    state: &SessionState,
    logical: &LogicalPlan,
    arguments: &Arguments,
) -> anyhow::Result<bool> {
    let mut are_few = false;
    for _ in 0..=AGAIN_MAX {
        let Some(workers) = near.workers(RandomState::new().build_hasher().finish()).await else { break };
        let mut output = Output::open(arguments.output.as_deref(), true)?;
        let error = match attempt(&workers, are_few, (state, logical, arguments), &mut output).await {
            Ok(()) => return Ok(true),
            Err(error) => error,
        };
        let said = format!("{error:#}");
        if said.contains(EXHAUSTED) && !are_few && !output.has_left() {
            eprintln!("forebay-sql: note: {EXHAUSTED} on a node; the statement runs again with fewer rows on each");
            are_few = true;
            continue;
        }
        let without_nodes = [SCATTERED, RENAMED, EXHAUSTED, CONSUMED];
        let cannot = without_nodes.into_iter().find(|words| said.contains(words));
        if let Some(words) = cannot.filter(|_| !output.has_left()) {
            eprintln!("forebay-sql: note: {words}; this host answers");
            return Ok(false);
        }
        let is_lost = near.lose_silent(&workers).await;
        if !is_lost && !output.has_left() && UNREACHED.iter().any(|words| said.contains(words)) {
            eprintln!("forebay-sql: note: {said}: nodes cannot reach each other; this host answers");
            return Ok(false);
        }
        if !is_lost && !said.contains(CHANGED) {
            return Err(error);
        }
        if output.has_left() {
            return Err(error).context("a part of the result has been written, so the statement cannot run again");
        }
        if !is_lost {
            return Err(Changed(said).into());
        }
    }
    eprintln!("forebay-sql: note: this host answers");
    Ok(false)
}

async fn attempt(
    workers: &Workers,
    are_few: bool,
    (state, logical, arguments): (&SessionState, &LogicalPlan, &Arguments),
    output: &mut Output,
) -> anyhow::Result<()> {
    let wrong = |error: DataFusionError| anyhow!(caret::shown(&error, &arguments.statement));
    let state = workers.session(state.clone(), are_few).map_err(wrong)?;
    let plan = state.create_physical_plan(logical).await.map_err(wrong)?;
    if arguments.explain {
        eprintln!("{}", display_plan_ascii(plan.as_ref(), false));
    }
    write_rows(&plan, &state, arguments, output).await?;
    output.finish()?;
    if arguments.explain {
        let explained = explain_analyze(Arc::clone(&plan), DistributedMetricsFormat::Aggregated);
        // They are no part of the result.
        if let Ok(Ok(explained)) = tokio::time::timeout(METRICS_TIMEOUT, explained).await {
            eprintln!("{explained}");
        }
        eprint!("{workers}");
        eprintln!("read here: {} bytes", read_bytes());
    }
    Ok(())
}

async fn write_rows(
    plan: &Arc<dyn ExecutionPlan>,
    state: &SessionState,
    arguments: &Arguments,
    output: &mut Output,
) -> anyhow::Result<()> {
    let wrong = |error: DataFusionError| anyhow!(caret::shown(&error, &arguments.statement));
    let mut rows = execute_stream(Arc::clone(plan), state.task_ctx()).map_err(wrong)?;
    let mut writer = Writer::new(arguments.format, output, &rows.schema())?;
    while let Some(batch) = rows.try_next().await.map_err(wrong)? {
        writer.write(batch)?;
    }
    writer.finish()
}

/// The statement's plan; it may only read.
async fn logical(context: &SessionContext, statement: &str) -> Result<LogicalPlan, DataFusionError> {
    let plan = context.state().create_logical_plan(statement).await?;
    let reads = SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
    reads.verify_plan(&plan)?;
    Ok(plan)
}
