//! A statement from its text to its result.

use anyhow::anyhow;
use datafusion::common::DataFusionError;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::{displayable, execute_stream};
use datafusion::prelude::{SQLOptions, SessionContext};
use futures::TryStreamExt;

use crate::caret;
use crate::cli::Arguments;
use crate::near;
use crate::output::{Output, Writer};
use crate::session::{self, Options};
use crate::tables::{Dialect, Tables};

/// Answers a statement.
pub async fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let Arguments { statement, delimiter, no_header, no_newlines, .. } = arguments;
    let wrong = |error: DataFusionError| anyhow!(caret::shown(&error, statement));
    let dialect = Dialect { delimiter: *delimiter, has_header: !no_header, has_newlines: !no_newlines };
    let memory_bytes = usize::try_from(arguments.memory_mib << 20)?;
    let options = Options { memory_bytes, named: &arguments.tables };
    let context = session::for_statements(Tables::new(dialect), options).await.map_err(wrong)?;
    let plan = logical(&context, statement).await.map_err(wrong)?;
    let plan = context.state().create_physical_plan(&plan).await.map_err(wrong)?;
    let (plan, near) = near::planned(plan, arguments).await?;
    if arguments.explain {
        eprintln!("{}", displayable(plan.as_ref()).indent(false));
    }
    let _progress = near.progress();
    let mut rows = execute_stream(plan, context.task_ctx()).map_err(wrong)?;
    let mut output = Output::open(arguments.output.as_deref())?;
    let mut writer = Writer::new(arguments.format, &mut output, &rows.schema())?;
    while let Some(batch) = rows.try_next().await.map_err(wrong)? {
        writer.write(batch)?;
    }
    writer.finish()?;
    output.finish()?;
    if arguments.explain {
        eprintln!("{near}");
    }
    Ok(())
}

/// The statement's plan; it may only read.
async fn logical(context: &SessionContext, statement: &str) -> Result<LogicalPlan, DataFusionError> {
    let plan = context.state().create_logical_plan(statement).await?;
    let reads = SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
    reads.verify_plan(&plan)?;
    Ok(plan)
}
