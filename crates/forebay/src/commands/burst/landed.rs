//! `landed`: how far files are on their way from the burst tier to the backing file system.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use forebay_keeper::own_paths;
use forebay_launch::JobDirectory;
use serde_json::{Value, json};

use crate::cli::LandedArguments;
use crate::commands::ask::ask_any;
use crate::commands::burst::look;
use crate::commands::burst::names::Named;
use crate::commands::job_status;
use crate::exit::DONE_IN_PART;
use crate::health::amounts::size;
use crate::health::shown::not_landed;
use crate::health::{Writes, remedy};
use crate::jobs;
use crate::machine;
use crate::output::{in_one_line, say};
use crate::patience::after_a_second;
use crate::settings::values::show_size;

/// How long one question may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Asks about each file.
pub fn run(arguments: LandedArguments) -> anyhow::Result<ExitCode> {
    let effective = arguments.of_job.effective()?;
    let directory = jobs::find(&effective)?;
    if arguments.paths.is_empty() {
        return all(&directory, arguments.json);
    }
    let files = of_paths(&directory, &arguments.paths)?;
    let has_landed = files.iter().all(|file| file["state"] == "landed");
    if arguments.json {
        say!("{}", json!({"files": files}));
    } else {
        print(&files);
    }
    Ok(if has_landed { ExitCode::SUCCESS } else { ExitCode::from(DONE_IN_PART) })
}

/// How far the files at `paths` are, as `landed --json` has them.
///
/// # Errors
/// When nothing is known of any.
pub fn of_paths(directory: &JobDirectory, paths: &[PathBuf]) -> anyhow::Result<Vec<Value>> {
    let burst = own_paths::find_node(directory, None, &machine::host_names()).ok().and_then(|node| node.burst);
    let absolute: Vec<PathBuf> = paths.iter().map(std::path::absolute).collect::<io::Result<_>>()?;
    let named = match &burst {
        Some(burst) => look::names(directory, burst, &absolute)?,
        None => absolute.into_iter().map(Named::File).collect(),
    };
    let _told = after_a_second(|| "waiting for the node that leads the burst tier to say what has landed".to_owned());
    let mut asked = vec![];
    for name in named {
        let file = file_of(directory, name);
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
    let known = |file: Result<Value, (PathBuf, anyhow::Error)>| {
        file.unwrap_or_else(|(path, error)| unknown(&path, &format!("{error:#}")))
    };
    Ok(asked.into_iter().map(known).collect())
}

/// Prints files for people.
pub fn print(files: &[Value]) {
    files.iter().for_each(|file| say!("{}", in_one_line(&told(file))));
}

/// How far what a name is has come; else the path with the reason why that is not known.
fn file_of(directory: &JobDirectory, name: Named) -> Result<Value, (PathBuf, anyhow::Error)> {
    let known = |path: &Path| match path.to_str() {
        Some(text) => ask_any(directory, None, &json!({"command": "landed", "path": text}), TIMEOUT),
        None => Ok(unknown(path, "only names that are valid UTF-8 can be asked about")),
    };
    match name {
        Named::File(path) => known(&path).map_err(|error| (path, error)),
        Named::Link(path, target, end) => {
            let mut file = known(&end).map_err(|error| (path.clone(), error))?;
            (file["link"], file["target"]) = (json!(path.to_string_lossy()), json!(target.to_string_lossy()));
            Ok(file)
        }
        Named::Empty(path, what, has_landed) => {
            let mut name = unknown(&path, &what);
            name["state"] = json!(if has_landed { "landed" } else { "committed" });
            Ok(name)
        }
        Named::Other(path, why) => Ok(unknown(&path, &why)),
    }
}

/// The whole tier, in one line.
fn all(directory: &JobDirectory, as_json: bool) -> anyhow::Result<ExitCode> {
    let (_, overview) = job_status::ask(directory, true)?;
    let Some(writes) = &overview.writes else {
        bail!("the job {} has no burst tier; forebay up --burst DIR=BACKING gives it one", directory.job());
    };
    // The leader alone knows what is to land, and each node what it has not committed. A node without which the job came up has nothing.
    let silent: Vec<u64> = overview.nodes.iter().filter(|node| node.is_silent()).map(|node| node.rank).collect();
    let is_known = silent.is_empty() && writes.has_leader;
    let has_landed = is_known && writes.has_landed() && writes.lost_bytes == 0;
    if as_json {
        let totals = json!({
            "steps_to_land": writes.steps, "not_landed_bytes": writes.left_bytes + writes.uncommitted_bytes,
            "not_landed_files": writes.left_files, "landed_bytes": writes.landed_bytes, "lost_bytes": writes.lost_bytes
        });
        say!("{}", json!({"files": [], "totals": totals, "landed": has_landed, "silent_nodes": silent}));
    } else if !is_known {
        let nodes = silent.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
        let why = if silent.is_empty() {
            "no node leads the tree now".into()
        } else {
            format!("no answer from node {nodes}")
        };
        say!("not known: {why}; {}", known_of(writes));
    } else if has_landed {
        say!("all has landed ({})", size(writes.landed_bytes));
    } else {
        say!("{}", of_leader(writes));
    }
    Ok(if has_landed { ExitCode::SUCCESS } else { ExitCode::from(DONE_IN_PART) })
}

/// The amounts of the nodes that answer, where others do not.
fn known_of(writes: &Writes) -> String {
    let in_stores = format!("at least {} in the stores", size(writes.store_bytes));
    match writes.has_leader {
        true => format!("{in_stores}; of what is known, {}", of_leader(writes)),
        false => in_stores,
    }
}

/// The amounts that the node that leads the tree knows, and what nodes have not committed.
fn of_leader(writes: &Writes) -> String {
    let lost = if writes.lost_bytes > 0 { format!(", {} lost", size(writes.lost_bytes)) } else { String::new() };
    format!("not landed: {}; {} landed{lost}", not_landed(writes), size(writes.landed_bytes))
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
    fn amounts_that_are_known_are_told_beside_silent_nodes() {
        let known = Writes {
            has_leader: true,
            left_bytes: 3 << 20,
            left_files: 2,
            steps: 4,
            landed_bytes: 5 << 20,
            lost_bytes: 1 << 20,
            store_bytes: 6 << 20,
            ..Writes::default()
        };
        assert_eq!(
            known_of(&known),
            "at least 6.0 MiB in the stores; of what is known, not landed: 3.0 MiB in 2 files; 5.0 MiB landed, 1.0 MiB lost"
        );
        assert_eq!(known_of(&Writes { has_leader: false, ..known }), "at least 6.0 MiB in the stores");
    }

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
