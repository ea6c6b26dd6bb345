//! `landed`: how far files are on their way from the burst tier to the backing file system.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use forebay_keeper::own_paths::{self, BurstPlaces};
use forebay_launch::{JobDirectory, JobRecord};
use serde_json::{Value, json};

use crate::cli::LandedArguments;
use crate::commands::ask::ask_any;
use crate::commands::burst::names::{self, Named};
use crate::commands::stage::places::below_burst;
use crate::exit::DONE_IN_PART;
use crate::health::remedy;
use crate::jobs;
use crate::machine;
use crate::output::{say, without_controls};
use crate::settings::values::show_size;
use crate::settings::{Effective, UsageError};

/// How long one question may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Asks about each file.
pub fn run(arguments: LandedArguments) -> anyhow::Result<ExitCode> {
    let effective = Effective::merge(arguments.given.0, arguments.file.config)?;
    let directory = jobs::find(&effective)?;
    if arguments.paths.is_empty() {
        return all(&directory, arguments.json);
    }
    let burst = own_paths::find_node(&directory, None, &machine::host_names()).ok().and_then(|node| node.burst);
    let mut named = vec![];
    for path in &arguments.paths {
        let absolute = std::path::absolute(path).context("a path cannot be made absolute")?;
        if absolute.to_str().is_none() {
            let message = "only paths that are valid UTF-8 can be named";
            return Err(UsageError(format!("{}: {message}", path.display())).into());
        }
        match &burst {
            Some(burst) => named.extend(names::of(burst, &absolute)),
            None => named.push(Named::File(absolute)),
        }
    }
    let mut asked = vec![];
    for name in named {
        let file = file_of(&directory, burst.as_deref(), name);
        // Where no daemon answers, none answers to the others.
        let is_silent =
            file.as_ref().err().is_some_and(|(_, error)| error.chain().any(|cause| cause.is::<io::Error>()));
        asked.push(file);
        if is_silent {
            break;
        }
    }
    // Where nothing is known of any, the command has failed.
    if asked.iter().all(Result::is_err)
        && let Some(Err((_, error))) = asked.pop_if(|_| true)
    {
        return Err(error);
    }
    let files: Vec<Value> = asked
        .into_iter()
        .map(|file| file.unwrap_or_else(|(path, error)| unknown(&path, &format!("{error:#}"))))
        .collect();
    let has_landed = files.iter().all(|file| file["state"] == "landed");
    if arguments.json {
        say!("{}", json!({"files": files}));
    } else {
        files.iter().for_each(|file| say!("{}", without_controls(&told(file))));
    }
    Ok(if has_landed { ExitCode::SUCCESS } else { ExitCode::from(DONE_IN_PART) })
}

/// How far what a name is has come; else the path with the reason why that is not known.
fn file_of(
    directory: &JobDirectory,
    burst: Option<&BurstPlaces>,
    name: Named,
) -> Result<Value, (PathBuf, anyhow::Error)> {
    let known = |path: &Path| match path_of(burst, path).to_str() {
        Some(text) => ask_any(directory, None, &json!({"command": "landed", "path": text}), TIMEOUT),
        None => Ok(unknown(path, "only names that are valid UTF-8 can be asked about")),
    };
    match name {
        Named::File(path) => known(&path).map_err(|error| (path, error)),
        Named::Link(path, target, Some(end)) => {
            let mut file = known(&end).map_err(|error| (path.clone(), error))?;
            (file["link"], file["target"]) = (json!(path.to_string_lossy()), json!(target.to_string_lossy()));
            Ok(file)
        }
        Named::Link(path, target, None) => {
            let why = format!("it is a link to {}, which is not in the burst tier", target.display());
            Ok(unknown(&path, &why))
        }
        Named::Empty(path) => Ok(unknown(&path, "it is a directory without files")),
        Named::TooMany(path) => {
            Ok(unknown(&path, "this and the files after it are too many to be asked about; name fewer"))
        }
    }
}

/// The path by which the daemon knows it: it has a mount of its own.
fn path_of(burst: Option<&BurstPlaces>, path: &Path) -> PathBuf {
    let in_mount = burst.and_then(|burst| Some((burst, below_burst(burst, path)?)));
    let below =
        in_mount.as_ref().and_then(|(burst, path)| Some(burst.dir.join(path.strip_prefix(&burst.mount.path).ok()?)));
    below.unwrap_or_else(|| path.to_owned())
}

/// The whole tier, in one line.
fn all(directory: &JobDirectory, as_json: bool) -> anyhow::Result<ExitCode> {
    let status = ask_any(directory, None, &json!({"command": "status"}), TIMEOUT)?;
    let tiers: Vec<&Value> = status["nodes"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|node| &node["burst"])
        .filter(|tier| tier.is_object())
        .collect();
    if tiers.is_empty() {
        bail!("the job {} has no burst tier; forebay up --burst DIR=BACKING gives it one", directory.job());
    }
    let sum = |name: &str| tiers.iter().map(|tier| tier[name].as_u64().unwrap_or(0)).sum::<u64>();
    let [steps, dirty, landed, lost] = ["steps_to_land", "dirty_bytes", "landed_bytes", "lost_bytes"].map(sum);
    let waiting = dirty + sum("committed_bytes");
    // The leader alone knows what is to land, and each node what it has not committed.
    let silent = silent_nodes(directory, &status);
    let has_leader = tiers.iter().any(|tier| tier["landed_bytes"].is_u64());
    let has_landed = steps == 0 && dirty == 0 && lost == 0 && silent.is_empty() && has_leader;
    if as_json {
        let totals =
            json!({"steps_to_land": steps, "not_landed_bytes": waiting, "landed_bytes": landed, "lost_bytes": lost});
        say!("{}", json!({"files": [], "totals": totals, "landed": has_landed, "silent_nodes": silent}));
    } else if !silent.is_empty() || !has_leader {
        let nodes = silent.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
        let why = if silent.is_empty() {
            "no node leads the tree now".into()
        } else {
            format!("no answer from node {nodes}")
        };
        say!("not known: {why}; at least {} in the stores", show_size(waiting));
    } else if has_landed {
        say!("all has landed ({})", show_size(landed));
    } else {
        let lost = if lost > 0 { format!(", {} lost", show_size(lost)) } else { String::new() };
        let plural = if steps == 1 { "" } else { "s" };
        say!(
            "{} in the stores, {steps} change{plural} to land, {} landed{lost}",
            show_size(waiting),
            show_size(landed)
        );
    }
    Ok(if has_landed { ExitCode::SUCCESS } else { ExitCode::from(DONE_IN_PART) })
}

/// The nodes that do not answer. The job came up without those that are missing, and they have nothing.
fn silent_nodes(directory: &JobDirectory, status: &Value) -> Vec<u64> {
    let missing = JobRecord::read(directory).ok().flatten().map(|record| record.missing).unwrap_or_default();
    let silent = status["nodes"].as_array().into_iter().flatten().filter(|node| node["state"] != "ready");
    let ranks = silent.filter_map(|node| node["rank"].as_u64());
    ranks.filter(|rank| !missing.keys().any(|missing| u64::from(missing.0) == *rank)).collect()
}

/// A name of which nothing can be said: it does not exist, or is no file.
fn unknown(path: &Path, why: &str) -> Value {
    let path = path.to_string_lossy();
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
    if let (Some(link), Some(target)) = (file["link"].as_str(), file["target"].as_str()) {
        let far = match text("state").as_str() {
            "landed" => String::new(),
            _ => format!(" ({} of {} landed)", size("landed_bytes"), size("bytes")),
        };
        return format!("link {link} -> {target}: {}{far}{why}", text("state"));
    }
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
