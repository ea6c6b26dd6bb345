//! `explain PATH`: where an answer comes from, node by node up to the root, and why; and what in the file leads out of
//! the view.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use forebay_keeper::own_paths::{self, Node};
use forebay_launch::JobDirectory;
use forebay_types::NodeRank;
use serde_json::{Value, json};

use crate::cli::ExplainArguments;
use crate::columns;
use crate::commands::ask::ask_any;
use crate::commands::burst::look;
use crate::commands::job::escaping_paths::{self, EscapingPath};
use crate::commands::paths::{is_shown, looking_at, place_of, views, within_view};
use crate::commands::stage::places::below_burst;
use crate::jobs;
use crate::machine;
use crate::output::{in_one_line, say, shown_path};
use crate::settings::UsageError;
use crate::settings::values::show_size;

/// How long the nodes on the way to the root may take.
const EXPLAIN_TIMEOUT: Duration = Duration::from_secs(15);

/// Prints the way of an answer.
pub fn run(arguments: ExplainArguments) -> anyhow::Result<ExitCode> {
    let effective = arguments.of_job.effective()?;
    let directory = jobs::find(&effective)?;
    let path = std::path::absolute(&arguments.path).context("the path cannot be made absolute")?;
    let rank = arguments.rank.map(NodeRank);
    if let Some(burst) = own_paths::find_node(&directory, rank, &machine::host_names()).ok().and_then(|node| node.burst)
    {
        look::wait_for(&directory.job(), &burst, &path)?;
    }
    let looking = looking_at(&path);
    let (found, given) = within_view(&path, &views(&directory));
    let path = place_of(&given);
    if path.to_str().is_none() {
        return Err(UsageError(format!("{}: only paths that are valid UTF-8 can be explained", path.display())).into());
    }
    let rank = rank.or(found);
    // None where no view of the job is on this host.
    let node = own_paths::find_node(&directory, rank, &machine::host_names()).ok();
    let burst = node.as_ref().and_then(|node| Some((node, below_burst(node.burst.as_deref()?, &path)?)));
    if let Some((node, in_mount)) = burst {
        return of_burst_tier(&directory, node, &path, &in_mount, arguments.json);
    }
    let mut steps = match node.as_ref().filter(|node| !is_shown(&node.exports, &path)) {
        Some(node) => outside(node),
        None => ask_any(&directory, rank, &json!({"command": "explain", "path": path}), EXPLAIN_TIMEOUT)?,
    };
    let paths = |node: &Node| {
        let found = escaping_paths::find(&node.view.path, &node.exports, &given);
        found.or_else(|_| escaping_paths::find(&node.view.path, &node.exports, &path)).unwrap_or_default()
    };
    let paths = node.as_ref().map(paths).unwrap_or_default();
    drop(looking);
    if arguments.json {
        // Beside the first step: it is the node that was asked whose view has them.
        let json: serde_json::Value = paths.iter().map(EscapingPath::json).collect();
        // The old key, for those who read it.
        steps[0]["ways_out"] = json.clone();
        steps[0]["escaping_paths"] = json;
        say!("{steps}");
        return Ok(ExitCode::SUCCESS);
    }
    say!("{}", shown_path(&path));
    let mut rows = vec![["node", "host", "answer", "why"].map(str::to_owned).to_vec()];
    rows.extend(steps.as_array().into_iter().flatten().map(row));
    columns::lines(&rows).iter().for_each(|line| say!("{}", in_one_line(line)));
    paths.iter().for_each(|path| say!("{}", in_one_line(&path.text())));
    Ok(ExitCode::SUCCESS)
}

/// A file of the burst tier: on which node's disk it is, how far it has landed, and why no further.
fn of_burst_tier(
    directory: &JobDirectory,
    node: &Node,
    path: &Path,
    in_mount: &Path,
    as_json: bool,
) -> anyhow::Result<ExitCode> {
    let burst = node.burst.as_deref().context("the node has no burst tier")?;
    let known = burst.dir.join(in_mount.strip_prefix(&burst.mount.path).unwrap_or(in_mount));
    let is_directory = in_mount.is_dir();
    let file = match is_directory {
        true => Value::Null,
        false => ask_any(directory, None, &json!({"command": "landed", "path": known}), EXPLAIN_TIMEOUT)?,
    };
    let why = match is_directory {
        true => "burst tier: a directory; forebay landed shows its files".to_owned(),
        false => in_burst_words(&file),
    };
    if as_json {
        say!("{}", json!([{"rank": node.rank, "host": node.host, "answer": "burst", "why": why, "file": file}]));
    } else {
        say!("{}\n{}", shown_path(path), in_one_line(&why));
    }
    Ok(ExitCode::SUCCESS)
}

/// `burst tier: 300MiB on node 0's disk, 40 % landed`.
fn in_burst_words(file: &Value) -> String {
    let number = |key: &str| file[key].as_u64().unwrap_or(0);
    let (bytes, landed) = (number("bytes"), number("landed_bytes"));
    let of_node = |node: &Value| (node[0].as_u64().unwrap_or(0), node[1].as_u64().unwrap_or(0));
    let nodes: Vec<(u64, u64)> = file["nodes"].as_array().into_iter().flatten().map(of_node).collect();
    let on = match nodes.as_slice() {
        [] if file["state"] == "landed" => format!("{} on its file system", show_size(bytes)),
        [] => show_size(bytes),
        [(node, _)] => format!("{} on node {node}'s disk", show_size(bytes)),
        several => {
            let each = several.iter().map(|(node, bytes)| format!("{} on node {node}'s disk", show_size(*bytes)));
            format!("{} ({})", show_size(bytes), each.collect::<Vec<_>>().join(", "))
        }
    };
    let state = file["state"].as_str().unwrap_or("unknown");
    let far = match state {
        "landed" => "landed".to_owned(),
        "lost" => "lost".to_owned(),
        // Rounded down: 100 % has landed.
        _ => format!("{} % landed", (landed as f64 * 100.0 / bytes.max(1) as f64) as u64),
    };
    let why = match (state, file["why"].as_str()) {
        (_, Some(why)) => format!(": {why}"),
        ("dirty", None) => ": it is open, or not committed yet".to_owned(),
        _ => String::new(),
    };
    format!("burst tier: {on}, {far}{why}")
}

/// The one step for a path that no view of the job has.
fn outside(node: &Node) -> Value {
    let why = "it is outside the job's exports: programs read it from its file system directly";
    json!([{"rank": node.rank, "host": node.host, "answer": "outside", "why": why}])
}

fn row(step: &Value) -> Vec<String> {
    let cell = |key: &str| match &step[key] {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    ["rank", "host", "answer", "why"].map(cell).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_the_burst_tier_has_a_place_and_a_part_that_has_landed() {
        let file = json!({"state": "draining", "bytes": 300 << 20, "landed_bytes": 120 << 20, "nodes": [[0, 300 << 20]], "why": null});
        assert_eq!(in_burst_words(&file), "burst tier: 300MiB on node 0's disk, 40 % landed");
        let file = json!({"state": "dirty", "bytes": 3072, "landed_bytes": 0, "nodes": [[0, 1024], [2, 2048]], "why": "no room"});
        let told = "burst tier: 3KiB (1KiB on node 0's disk, 2KiB on node 2's disk), 0 % landed: no room";
        assert_eq!(in_burst_words(&file), told);
    }

    #[test]
    fn steps_become_rows() {
        let step = json!({"rank": 3, "host": "n3", "answer": "hit", "why": "listing is cached"});
        assert_eq!(row(&step), ["3", "n3", "hit", "listing is cached"]);
    }
}
