//! `landed`: how far files are on their way from the burst tier to the backing file system.

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};

use crate::cli::LandedArguments;
use crate::commands::ask::ask_any;
use crate::exit::DONE_IN_PART;
use crate::health::remedy;
use crate::jobs;
use crate::output::say;
use crate::settings::values::show_size;
use crate::settings::{Effective, UsageError};

/// How long one question may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Asks about each file.
pub fn run(arguments: LandedArguments) -> anyhow::Result<ExitCode> {
    let effective = Effective::merge(arguments.given.0, arguments.file.config)?;
    let directory = jobs::find(&effective)?;
    let mut asked = vec![];
    for path in &arguments.paths {
        let absolute = std::path::absolute(path).context("a path cannot be made absolute")?;
        let Some(text) = absolute.to_str() else {
            let message = "only paths that are valid UTF-8 can be named";
            return Err(UsageError(format!("{}: {message}", path.display())).into());
        };
        let told = ask_any(&directory, None, &json!({"command": "landed", "path": text}), TIMEOUT);
        // Where no daemon answers, none answers to the others.
        let is_about_path = told.as_ref().err().is_none_or(|error| !error.chain().any(|cause| cause.is::<io::Error>()));
        asked.push((path, told));
        if !is_about_path {
            break;
        }
    }
    // Where nothing is known of any, the command has failed.
    if asked.iter().all(|(_, told)| told.is_err())
        && let Some(error) = asked.iter_mut().find_map(|(_, told)| std::mem::replace(told, Ok(Value::Null)).err())
    {
        return Err(error);
    }
    let files: Vec<Value> =
        asked.into_iter().map(|(path, told)| told.unwrap_or_else(|error| unknown(path, &error))).collect();
    let has_landed = files.iter().all(|file| file["state"] == "landed");
    if arguments.json {
        say!("{}", json!({"files": files}));
    } else {
        files.iter().for_each(|file| say!("{}", told(file)));
    }
    Ok(if has_landed { ExitCode::SUCCESS } else { ExitCode::from(DONE_IN_PART) })
}

/// A name of which nothing can be said: it does not exist, or is no file.
fn unknown(path: &Path, error: &anyhow::Error) -> Value {
    let (path, why) = (path.to_string_lossy(), format!("{error:#}"));
    json!({"path": path, "state": "unknown", "bytes": null, "landed_bytes": null, "missing": [], "why": why})
}

/// A file in words.
fn told(file: &Value) -> String {
    let text = |key: &str| file[key].as_str().unwrap_or("?").to_owned();
    let size = |key: &str| show_size(file[key].as_u64().unwrap_or(0));
    let why = file["why"].as_str().map_or_else(String::new, |why| match why.starts_with("cannot ") {
        // An obstacle on the backing file system, which names the path there.
        true => format!("; waiting: {why}; {}", remedy(why, "its directory")),
        false => format!(": {why}"),
    });
    if file["bytes"].is_null() {
        return format!("{} {}{why}", text("state"), text("path"));
    }
    format!("{} {} ({} of {} landed){why}", text("state"), text("path"), size("landed_bytes"), size("bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_waits_says_why() {
        let file = json!({"path": "/c/a", "state": "committed", "bytes": 2048, "landed_bytes": 0, "why": "no room"});
        assert_eq!(told(&file), "committed /c/a (0B of 2KiB landed): no room");
        let why = "cannot create /lustre/me/ckpt/a: Permission denied (EACCES)";
        let file = json!({"path": "/c/a", "state": "committed", "bytes": 2048, "landed_bytes": 0, "why": why});
        let expected = format!(
            "committed /c/a (0B of 2KiB landed); waiting: {why}; make its directory writable for the job's user; landing is retried every second"
        );
        assert_eq!(told(&file), expected);
    }
}
