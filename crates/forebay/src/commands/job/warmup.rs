//! `warmup PATH...`: brings data to the nodes before programs ask for them.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use forebay_keeper::own_paths;
use forebay_launch::JobDirectory;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cli::WarmupArguments;
use crate::commands::ask::ask_any;
use crate::commands::paths::{is_shown, looking_at, resolved, views, within_view};
use crate::exit::DONE_IN_PART;
use crate::health::amounts::{part, rate, size, span};
use crate::jobs;
use crate::machine;
use crate::output::{say, tell};
use crate::progress::ProgressLine;
use crate::settings::UsageError;

/// How long the daemon may say nothing: it tells how far it is twice a second.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// How long the job may take for its status.
const STATUS_TIMEOUT: Duration = Duration::from_secs(15);

/// Files that are named of those that could not be brought; `--json` names more.
const NAMED_MAX: usize = 10;

/// The reason of a path that no node reads through the job.
const OUTSIDE: &str = "outside the job's exports, which forebay status --json shows; programs read it directly";

/// How far the daemon is.
#[derive(Deserialize)]
struct Progress {
    bytes: u64,
    files: u64,
    bytes_done: u64,
    files_done: u64,
    bytes_per_s: f64,
    time_left_ms: Option<u64>,
    failed_count: u64,
    failed: Vec<Failed>,
    done: bool,
}

#[derive(Deserialize)]
struct Failed {
    path: String,
    why: String,
}

/// Warms up, shows how far it is, and says what could not be brought. Ends with the daemon's last line, or with this process: data that were
/// brought until then stay.
pub fn run(arguments: WarmupArguments) -> anyhow::Result<ExitCode> {
    let effective = arguments.of_job.effective()?;
    let directory = jobs::find(&effective)?;
    let Given { paths, outside } = given(&arguments.paths, &directory)?;
    if paths.is_empty() {
        bail!("{}: {OUTSIDE}", outside.join(", "));
    }
    let ranks = directory.socket_ranks();
    let Some(rank) = ranks.first() else {
        bail!("no daemon of the job {} runs on this host; warm up on one of its nodes", directory.job());
    };
    let socket = directory.socket(*rank);
    let question = json!({"command": "warmup", "paths": paths, "each": arguments.each});
    // Without it, all else is told.
    let status = ask_any(&directory, Some(*rank), &json!({"command": "status"}), STATUS_TIMEOUT).ok();
    let mut status = status.filter(|_| !arguments.each);
    let mut shown = ProgressLine::begin();
    let mut last = None;
    forebay_control::follow(&socket, &question, SILENCE_MAX, |line| {
        let line = &with_those_outside(line.clone(), &outside);
        if arguments.json {
            say!("{line}");
        }
        let progress = Progress::deserialize(line).context("the daemon gave an invalid answer to a warm-up")?;
        // Once, and as soon as that is known: who reads it may end the warm-up.
        if let Some(note) = status.as_ref().and_then(|status| lack_of_room(progress.bytes, status)) {
            status = None;
            tell!("forebay: note: {note}");
        }
        shown.show(|| so_far(&progress));
        let is_done = progress.done;
        last = Some(progress);
        Ok(is_done)
    })?;
    drop(shown);
    let Some(done) = last.filter(|progress| progress.done) else {
        bail!("the daemon behind {} ended before all was brought; run this again, which goes on", socket.display());
    };
    if !arguments.json {
        say!("{}", said(&done, arguments.each));
    }
    for Failed { path, why } in done.failed.iter().take(NAMED_MAX) {
        tell!("forebay: {path}: not brought: {why}");
    }
    if done.failed_count > NAMED_MAX as u64 {
        tell!("forebay: and {} more, which --json names", done.failed_count - NAMED_MAX as u64);
    }
    Ok(match (done.failed_count, done.files_done) {
        (0, _) => ExitCode::SUCCESS,
        (_, 0) => ExitCode::FAILURE,
        _ => ExitCode::from(DONE_IN_PART),
    })
}

/// How far the daemon is, with what it was not asked for.
fn with_those_outside(mut progress: Value, outside: &[String]) -> Value {
    if let Some(count) = progress["failed_count"].as_u64() {
        progress["failed_count"] = json!(count + outside.len() as u64);
    }
    if let Some(failed) = progress["failed"].as_array_mut() {
        failed.extend(outside.iter().map(|path| json!({"path": path, "why": OUTSIDE})));
    }
    progress
}

/// A note where more is to be brought than the nodes keep.
fn lack_of_room(bytes: u64, status: &Value) -> Option<String> {
    let room = |node: &Value| {
        let [memory, disk] =
            ["/budget_bytes", "/cache_store/capacity_bytes"].map(|place| node.pointer(place)?.as_u64());
        memory.max(disk).unwrap_or(0)
    };
    let room: u64 = status["nodes"].as_array()?.iter().map(room).sum();
    (room > 0 && bytes > room).then(|| {
        let [bytes, room] = [bytes, room].map(size);
        format!("{bytes} are to be brought and the nodes keep {room} at most, so the rest is read again; up --cache-store DIR or a larger --budget keeps more")
    })
}

/// Paths that were given.
struct Given {
    /// On the backing file system; links that are given are followed.
    paths: Vec<String>,
    /// Those that no node reads through the job, as they were given.
    outside: Vec<String>,
}

fn given(given: &[PathBuf], directory: &JobDirectory) -> anyhow::Result<Given> {
    let views = views(directory);
    let exports =
        own_paths::find_node(directory, None, &machine::host_names()).map(|node| node.exports).unwrap_or_default();
    let (mut paths, mut outside) = (Vec::new(), Vec::new());
    for path in given {
        let absolute = std::path::absolute(path).context("a path cannot be made absolute")?;
        let _looking = looking_at(&absolute);
        let (_, meant) = within_view(&absolute, &views);
        let meant = resolved(&meant);
        let shown = path.display();
        if !exports.is_empty() && !is_shown(&exports, Path::new(&meant)) {
            outside.push(shown.to_string());
            continue;
        }
        let Some(meant) = meant.to_str() else {
            let message = "only paths that are valid UTF-8 can be named; name the directory that it is in";
            return Err(UsageError(format!("{shown}: {message}")).into());
        };
        paths.push(meant.to_owned());
    }
    Ok(Given { paths, outside })
}

fn so_far(progress: &Progress) -> String {
    let Progress { bytes, bytes_done, bytes_per_s, time_left_ms, files_done, .. } = progress;
    let left = time_left_ms.map(|ms| format!(", {} left", span(Duration::from_millis(ms)))).unwrap_or_default();
    format!("{}, {}, {}{left}", part(*bytes_done, *bytes), files_word(*files_done, ""), rate(*bytes_per_s as u64))
}

fn said(done: &Progress, each: bool) -> String {
    let place = if each { "every node" } else { "their homes" };
    let Progress { files, files_done, bytes_done, bytes_per_s, .. } = done;
    let of = if files_done == files { String::new() } else { format!(" of {files}") };
    let files = files_word(*files_done, &of);
    format!("{files}, {} at {place}, {}", size(*bytes_done), rate(*bytes_per_s as u64))
}

/// `1 file`, `1 of 2 files`.
fn files_word(files: u64, of: &str) -> String {
    let word = if files == 1 && of.is_empty() { "file" } else { "files" };
    format!("{files}{of} {word}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress() -> Progress {
        let json = json!({"bytes": 4 << 20, "files": 3, "is_counted": true, "bytes_done": 1 << 20, "files_done": 1,
            "bytes_per_s": 2e6, "time_left_ms": 1500, "failed_count": 0, "failed": [], "done": false});
        Progress::deserialize(json).unwrap()
    }

    #[test]
    fn more_than_the_nodes_keep_is_said() {
        let node = |budget: u64, store: u64| json!({"budget_bytes": budget << 20, "cache_store": {"capacity_bytes": store << 20}});
        let status =
            json!({"nodes": [node(64, 1024), {"budget_bytes": 64 << 20}, {"rank": 2, "state": "unreachable"}]});
        assert_eq!(lack_of_room(1088 << 20, &status), None);
        let note = lack_of_room(2 << 30, &status).unwrap();
        assert!(note.starts_with("2.0 GiB are to be brought and the nodes keep 1.1 GiB at most"), "{note}");
    }

    #[test]
    fn says_how_far_it_is_and_what_was_done() {
        assert_eq!(so_far(&progress()), "1.0 of 4.0 MiB, 1 file, 2.0 MB/s, 1 s left");
        assert_eq!(said(&progress(), true), "1 of 3 files, 1.0 MiB at every node, 2.0 MB/s");
        let all = Progress { files_done: 3, ..progress() };
        assert_eq!(said(&all, false), "3 files, 1.0 MiB at their homes, 2.0 MB/s");
    }
}
