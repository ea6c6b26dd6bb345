//! `refresh PATH...`: lets the whole job forget what it knows of paths, at once.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use forebay_keeper::own_paths;
use forebay_types::limits;
use serde_json::{Value, json};

use crate::cli::RefreshArguments;
use crate::commands::ask::ask_any;
use crate::commands::paths::{is_shown, looking_at, place_of, resolved, views, within_view};
use crate::exit::DONE_IN_PART;
use crate::jobs;
use crate::machine;
use crate::output::{say, tell};
use crate::settings::UsageError;

/// Three steps over the whole job, each with its time limit.
const REFRESH_TIMEOUT: Duration = Duration::from_secs(40);

/// Refreshes, and says which nodes have not heard of it.
pub fn run(arguments: RefreshArguments) -> anyhow::Result<ExitCode> {
    let effective = arguments.of_job.effective()?;
    let directory = jobs::find(&effective)?;
    let views = views(&directory);
    let mut paths = Vec::new();
    for path in &arguments.paths {
        let absolute = std::path::absolute(path).context("a path cannot be made absolute")?;
        let _looking = looking_at(&absolute);
        let (_, given) = within_view(&absolute, &views);
        // Of a link, both itself and what it leads to.
        for meant in [place_of(&given), resolved(&given)] {
            match meant.to_str() {
                Some(meant) => paths.push(meant.to_owned()),
                None => {
                    let message = "only paths that are valid UTF-8 can be named; refresh the directory they are in";
                    return Err(UsageError(format!("{}: {message}", path.display())).into());
                }
            }
        }
    }
    paths.dedup();
    let most = limits::REFRESH_PATHS_MAX;
    if paths.len() > most {
        let message = format!(
            "a refresh takes at most {most} paths, and a link counts as two; refresh the directory they are in"
        );
        return Err(UsageError(message).into());
    }
    let exports =
        own_paths::find_node(&directory, None, &machine::host_names()).map(|node| node.exports).unwrap_or_default();
    let is_outside = |path: &String| !exports.is_empty() && !is_shown(&exports, Path::new(path));
    for path in paths.iter().filter(|path| is_outside(path)) {
        tell!("forebay: note: {path} is outside the job's exports, so there is nothing to refresh");
    }
    paths.retain(|path| !is_outside(path));
    if paths.is_empty() && !arguments.paths.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let outcome = ask_any(&directory, None, &json!({"command": "refresh", "paths": paths}), REFRESH_TIMEOUT)?;
    if arguments.json {
        say!("{outcome}");
    } else {
        say!("{}", told(&outcome)?);
    }
    let missed = outcome["unreached"].as_array().is_some_and(|missed| !missed.is_empty());
    Ok(if missed { ExitCode::from(DONE_IN_PART) } else { ExitCode::SUCCESS })
}

fn told(outcome: &Value) -> anyhow::Result<String> {
    let (Some(reached), Some(took_ms), Some(missed)) =
        (outcome["reached"].as_u64(), outcome["took_ms"].as_f64(), outcome["unreached"].as_array())
    else {
        bail!("the daemon gave an invalid answer to a refresh: {outcome}");
    };
    let plural = if reached == 1 { "" } else { "s" };
    let mut text = format!("refreshed on {reached} node{plural} in {:.3} s", took_ms / 1e3);
    if !missed.is_empty() {
        let ranks: Vec<String> = missed.iter().map(Value::to_string).collect();
        text += &format!(
            "\nnot reached: node {}; no other node accepts answers from it until it has made up for the refresh, but \
             programs on it may still see the old state",
            ranks.join(", ")
        );
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_that_were_not_reached_are_named() {
        let outcome = |unreached: &[u32]| json!({"epoch": 1, "reached": 3, "unreached": unreached, "took_ms": 12.0});
        assert_eq!(told(&outcome(&[])).unwrap(), "refreshed on 3 nodes in 0.012 s");
        assert!(told(&outcome(&[4, 7])).unwrap().contains("not reached: node 4, 7;"));
        assert!(told(&json!([])).is_err());
    }
}
