//! `status`: what the daemons say of themselves, as a table or as they said it.

use std::process::ExitCode;
use std::time::Duration;

use forebay_launch::{JobDirectory, JobRecord};
use forebay_types::NodeRank;
use serde_json::{Value, json};

use crate::cli::StatusArguments;
use crate::columns::{self, count};
use crate::commands::ask::{ask_any, ask_hosts};
use crate::commands::job::status_jobs;
use crate::exit::DONE_IN_PART;
use crate::jobs::{self, Found};
use crate::output::say;
use crate::settings::Effective;
use crate::settings::values::{show_duration, show_size};

/// How long the nodes may take to say how they are: it goes down the tree and back.
const STATUS_TIMEOUT: Duration = Duration::from_secs(15);

/// The table's head.
const COLUMNS: [&str; 10] =
    ["node", "host", "state", "uptime", "memory", "budget", "hits", "misses", "backing requests", "backing bytes"];

/// Prints the state of the job.
pub fn run(arguments: StatusArguments) -> anyhow::Result<ExitCode> {
    let effective = Effective::merge(arguments.given.0, arguments.file.config)?;
    let directory = match jobs::find_or_several(&effective)? {
        Found::Job(directory) => directory,
        Found::Several(directories) => {
            status_jobs::print(&directories, arguments.json);
            return Ok(ExitCode::SUCCESS);
        }
    };
    let mut status = match ask_any(&directory, None, &json!({"command": "status"}), STATUS_TIMEOUT) {
        Ok(status) => status,
        Err(error) if arguments.local_only => return Err(error),
        Err(error) => ask_hosts(&directory)?.ok_or(error)?,
    };
    name_missing(&directory, &mut status);
    if arguments.json {
        say!("{status}");
    } else {
        print(&directory, &status);
    }
    let nodes = status["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
    Ok(if nodes.iter().all(is_ready) { ExitCode::SUCCESS } else { ExitCode::from(DONE_IN_PART) })
}

fn print(directory: &JobDirectory, status: &Value) {
    let nodes = status["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
    let answering = nodes.iter().filter(|node| is_ready(node)).count();
    let of_all = status.pointer("/job/nodes").and_then(Value::as_u64).unwrap_or(nodes.len() as u64);
    say!("job {}: {answering} of {of_all} nodes answer", directory.job());
    let mut rows = vec![COLUMNS.map(str::to_owned).to_vec()];
    rows.extend(nodes.iter().map(row));
    columns::lines(&rows).iter().for_each(|line| say!("{line}"));
    for node in nodes.iter().filter(|node| !is_ready(node)) {
        let why = node["why"].as_str().or(node["error"].as_str()).unwrap_or("no reason is known");
        let rank = number(node, "/rank");
        say!("node {rank}: {}", why.strip_prefix(&format!("node {rank} ")).unwrap_or(why));
    }
    for node in nodes.iter().filter(|node| number(node, "/restarts") > 0) {
        let restarts = number(node, "/restarts");
        let times = if restarts == 1 { "once".to_owned() } else { format!("{restarts} times") };
        say!("node {}: its daemon died and was started again {times}; see its log", number(node, "/rank"));
    }
    if let Some([_, _, ..]) = status.pointer("/job/roots").and_then(Value::as_array).map(Vec::as_slice) {
        say!("roots: nodes {}", status["job"]["roots"].to_string().trim_matches(['[', ']']).replace(',', ", "));
    }
    let total = |pointer: &str| nodes.iter().map(|node| number(node, pointer)).sum::<u64>();
    let requests = nodes.iter().map(backing_requests).sum::<u64>();
    say!(
        "in all: {} requests and {} at the backing file system, {} errors; {} between nodes",
        count(requests),
        show_size(total("/backing/bytes")),
        count(total("/backing/errors")),
        show_size(total("/overlay/bytes_sent")),
    );
    let (refused, spoiled) = (total("/overlay/refused"), total("/overlay/checksum_failures"));
    if refused > 0 {
        say!("connections refused: {}; the logs show from where", count(refused));
    }
    if spoiled > 0 {
        say!("parts of answers with a wrong checksum: {}; the logs show from which node", count(spoiled));
    }
}

/// A node without which the job came up, and that does not answer, is missing: not lost.
fn name_missing(directory: &JobDirectory, status: &mut Value) {
    let missing = JobRecord::read(directory).ok().flatten().map(|record| record.missing).unwrap_or_default();
    for node in status["nodes"].as_array_mut().into_iter().flatten().filter(|node| !is_ready(node)) {
        let rank = NodeRank(u32::try_from(number(node, "/rank")).unwrap_or(u32::MAX));
        if let Some(why) = missing.get(&rank) {
            node["state"] = "missing".into();
            node["why"] = format!("it failed to start: {why}").into();
        }
    }
}

fn is_ready(node: &Value) -> bool {
    node["state"] == "ready"
}

fn row(node: &Value) -> Vec<String> {
    let text = |pointer: &str| node.pointer(pointer).and_then(Value::as_str).unwrap_or("-").to_owned();
    let mut row = vec![number(node, "/rank").to_string(), text("/host"), text("/state")];
    if !is_ready(node) {
        row.resize(COLUMNS.len(), "-".to_owned());
        return row;
    }
    row.extend([
        show_duration(Duration::from_millis(number(node, "/uptime_ms"))),
        show_size(number(node, "/memory_bytes")),
        show_size(number(node, "/budget_bytes")),
        count(in_caches(node, "hits")),
        count(in_caches(node, "misses")),
        count(backing_requests(node)),
        show_size(number(node, "/backing/bytes")),
    ]);
    row
}

fn number(node: &Value, pointer: &str) -> u64 {
    node.pointer(pointer).and_then(Value::as_u64).unwrap_or(0)
}

fn in_caches(node: &Value, what: &str) -> u64 {
    ["attributes", "listings", "chunks"].iter().map(|cache| number(node, &format!("/cache/{cache}/{what}"))).sum()
}

fn backing_requests(node: &Value) -> u64 {
    ["listings", "stats", "opens", "reads"].iter().map(|kind| number(node, &format!("/backing/{kind}"))).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_becomes_a_row() {
        let node = json!({
            "rank": 2, "host": "n2", "state": "ready", "uptime_ms": 61_000, "memory_bytes": 1 << 20,
            "budget_bytes": 1 << 30, "cache": {"listings": {"hits": 1000, "misses": 2}, "chunks": {"hits": 5}},
            "backing": {"opens": 3, "reads": 4, "bytes": 2048}
        });
        assert_eq!(row(&node), ["2", "n2", "ready", "1 min 1 s", "1MiB", "1GiB", "1,005", "2", "7", "2KiB"]);
        assert_eq!(row(&json!({"rank": 1, "state": "unreachable"}))[1..4], ["-", "unreachable", "-"]);
    }
}
