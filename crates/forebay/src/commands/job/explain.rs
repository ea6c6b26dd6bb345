//! `explain PATH`: where an answer comes from, node by node up to the root, and why; and what in the file leads out of
//! the view.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use forebay_keeper::own_paths::{self, Node};
use forebay_types::NodeRank;
use serde_json::{Value, json};

use crate::cli::ExplainArguments;
use crate::columns;
use crate::commands::ask::ask_any;
use crate::commands::job::escaping_paths::{self, EscapingPath};
use crate::commands::paths::{is_shown, looking_at, place_of, views, within_view};
use crate::jobs;
use crate::machine;
use crate::output::say;
use crate::settings::{Effective, UsageError};

/// How long the nodes on the way to the root may take.
const EXPLAIN_TIMEOUT: Duration = Duration::from_secs(15);

/// Prints the way of an answer.
pub fn run(arguments: ExplainArguments) -> anyhow::Result<ExitCode> {
    let effective = Effective::merge(arguments.given.0, arguments.file.config)?;
    let directory = jobs::find(&effective)?;
    let path = std::path::absolute(&arguments.path).context("the path cannot be made absolute")?;
    let looking = looking_at(&path);
    let (found, given) = within_view(&path, &views(&directory));
    let path = place_of(&given);
    if path.to_str().is_none() {
        return Err(UsageError(format!("{}: only paths that are valid UTF-8 can be explained", path.display())).into());
    }
    let rank = arguments.rank.map(NodeRank).or(found);
    // None where no view of the job is on this host.
    let node = own_paths::find_node(&directory, rank, &machine::host_names()).ok();
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
    say!("{}", path.display());
    let mut rows = vec![["node", "host", "answer", "why"].map(str::to_owned).to_vec()];
    rows.extend(steps.as_array().into_iter().flatten().map(row));
    columns::lines(&rows).iter().for_each(|line| say!("{line}"));
    paths.iter().for_each(|path| say!("{}", path.text()));
    Ok(ExitCode::SUCCESS)
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
    fn steps_become_rows() {
        let step = json!({"rank": 3, "host": "n3", "answer": "hit", "why": "listing is cached"});
        assert_eq!(row(&step), ["3", "n3", "hit", "listing is cached"]);
    }
}
