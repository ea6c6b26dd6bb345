//! `query SQL`: becomes `forebay-sql`, which has the engine that this binary is spared.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use anyhow::{Context, anyhow};
use forebay_offload::sql_program;
use forebay_query::Separator;

use crate::cli::{Delimiter, HeaderChoice, OnError, QueryArguments, WherePlace};
use crate::commands::paths::views;
use crate::commands::query::near::answering_socket;
use crate::jobs;
use crate::settings::{Effective, UsageError};

/// Whether what is asked is a statement: no operator has a blank.
pub fn is_sql(asked: &str) -> bool {
    asked.trim().contains(char::is_whitespace)
}

/// Ends only when it cannot.
pub fn become_sql(arguments: &QueryArguments, effective: &Effective) -> anyhow::Result<ExitCode> {
    let mut options = options(arguments)?;
    options.extend(of_job(arguments.place, effective)?);
    let program = sql_program().ok_or_else(|| {
        anyhow!(
            "forebay-sql was found neither beside forebay nor in PATH; make build-sql builds it, make install installs it"
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
    if arguments.decimal.is_some() || arguments.skip > 0 {
        return Err(usage("--decimal and --skip are for OP FILE..., not for SQL"));
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
    options.extend(dialect(arguments)?);
    options.push("--where".into());
    options.push(match arguments.place {
        WherePlace::Auto => "auto".into(),
        WherePlace::Host => "host".into(),
        WherePlace::Data => "data".into(),
        WherePlace::Split => return Err(usage("--where split is for OP FILE..., not for SQL")),
    });
    Ok(options)
}

/// How files are written.
fn dialect(arguments: &QueryArguments) -> anyhow::Result<Vec<OsString>> {
    let delimiter = match arguments.delimiter {
        Some(Delimiter(Some(Separator::Byte(byte)))) => byte,
        None => b',',
        Some(Delimiter(Some(Separator::Blanks | Separator::Json | Separator::Doubles) | None)) => {
            let message = "--delimiter auto and blanks are for OP FILE..., not for SQL: name one character";
            return Err(UsageError(message.to_owned()).into());
        }
    };
    let mut options: Vec<OsString> = vec![format!("--delimiter={}", char::from(delimiter)).into()];
    match arguments.header {
        HeaderChoice::Auto | HeaderChoice::Yes => {}
        HeaderChoice::No => options.push("--no-header".into()),
    }
    let signs = [("quote", arguments.quote), ("escape", arguments.escape), ("comment", arguments.comment)];
    for (name, sign) in signs {
        options.extend(sign.map(|sign| format!("--{name}={}", char::from(sign)).into()));
    }
    options.extend(arguments.missing.iter().flatten().map(|word| format!("--missing={word}").into()));
    options.extend(arguments.types.as_ref().map(|types| format!("--types={types}").into()));
    options.extend(arguments.sample.map(|rows| format!("--sample={rows}").into()));
    Ok(options)
}

/// Where it finds the nodes of the job that there is.
fn of_job(place: WherePlace, effective: &Effective) -> anyhow::Result<Vec<OsString>> {
    let directory = match (place, jobs::find(effective)) {
        (WherePlace::Host, _) => return Ok(vec![]),
        (_, Ok(directory)) => directory,
        (WherePlace::Auto, Err(_)) if effective.job()?.is_none() => return Ok(vec![]),
        (_, Err(error)) => return Err(error.context("a query is answered near the data by the nodes of a job")),
    };
    let mut options: Vec<OsString> = vec![];
    match (answering_socket(&directory), place) {
        (Ok(socket), _) => options.extend(["--daemon".into(), socket.into()]),
        (Err(_), WherePlace::Auto) => return Ok(options),
        (Err(error), _) => return Err(error),
    }
    let views = views(&directory).into_iter();
    options.extend(views.flat_map(|(_, view)| ["--view".into(), OsString::from(view)]));
    Ok(options)
}
