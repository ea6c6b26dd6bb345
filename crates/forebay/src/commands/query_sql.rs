//! `query SQL`: becomes `forebay-sql`, which has the engine that this binary is spared.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use anyhow::{Context, anyhow};
use forebay_daemon::query::sql_program;

use crate::cli::{HeaderChoice, OnError, QueryArguments, WherePlace};
use crate::settings::UsageError;

/// Whether what is asked is a statement: no operator has a blank.
pub fn is_sql(asked: &str) -> bool {
    asked.trim().contains(char::is_whitespace)
}

/// Ends only when it cannot.
pub fn become_sql(arguments: &QueryArguments) -> anyhow::Result<ExitCode> {
    let options = options(arguments)?;
    let program = sql_program().ok_or_else(|| {
        anyhow!(
            "forebay-sql is neither beside forebay nor in PATH; make build-sql makes it, make install puts it there"
        )
    })?;
    let error = Command::new(&program).args(options).arg("--").arg(&arguments.operators).exec();
    Err(error).with_context(|| format!("{} cannot be started", program.display()))
}

/// Its command line but for the statement.
fn options(arguments: &QueryArguments) -> anyhow::Result<Vec<OsString>> {
    let usage = |message: &str| anyhow::Error::from(UsageError(message.to_owned()));
    if !arguments.files.is_empty() {
        return Err(usage("SQL names its own files: SELECT ... FROM 'FILE', or --table NAME=FILE"));
    }
    if !arguments.columns.is_empty() || arguments.plot.is_some() || arguments.on_error == OnError::Skip {
        return Err(usage("--columns, --plot and --on-error are for OP FILE..., not for SQL"));
    }
    let mut options: Vec<OsString> = vec![];
    let format = arguments.format.clone().or_else(|| arguments.json.then(|| "json".to_owned()));
    options.extend(format.map(|format| format!("--format={format}").into()));
    options.extend(arguments.tables.iter().map(|table| format!("--table={table}").into()));
    if let Some(output) = &arguments.output {
        options.extend(["--output".into(), output.into()]);
    }
    if arguments.explain {
        options.push("--explain".into());
    }
    if arguments.no_newlines {
        options.push("--no-newlines".into());
    }
    options.push(format!("--delimiter={}", char::from(arguments.delimiter.delimiter())).into());
    match arguments.header {
        HeaderChoice::Auto | HeaderChoice::Yes => {}
        HeaderChoice::No => options.push("--no-header".into()),
    }
    match arguments.place {
        WherePlace::Auto | WherePlace::Host => {}
        WherePlace::Data | WherePlace::Split => return Err(usage("SQL is answered by this host")),
    }
    Ok(options)
}
