//! `status`: how the job is, for people (`health`), or what its daemons say of themselves, as they said it.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use forebay_launch::{JobDirectory, JobRecord};
use forebay_types::NodeRank;
use serde_json::{Value, json};

use crate::cli::StatusArguments;
use crate::commands::ask::{ask_any, ask_hosts};
use crate::commands::job::status_jobs;
use crate::exit::DONE_IN_PART;
use crate::health::{Overview, shown};
use crate::jobs::{self, Found};
use crate::output::say;
use crate::settings::Effective;

/// How long the nodes may take to say how they are: it goes down the tree and back.
const STATUS_TIMEOUT: Duration = Duration::from_secs(15);

/// Prints the state of the job.
pub fn run(arguments: StatusArguments) -> anyhow::Result<ExitCode> {
    let effective = Effective::merge(arguments.given.0, arguments.file.config)?;
    loop {
        let directory = match jobs::find_or_several(&effective)? {
            Found::Job(directory) => directory,
            Found::Several(directories) => {
                status_jobs::print(&directories, arguments.json);
                return Ok(ExitCode::SUCCESS);
            }
        };
        let (mut status, overview) = ask(&directory, arguments.local_only)?;
        if arguments.json {
            status["verdict"] = overview.verdict.json();
            say!("{status}");
        } else {
            if arguments.watch.is_some() && std::io::stdout().is_terminal() {
                // To the upper left, and the screen is empty.
                say!("\x1b[H\x1b[2J\x1b[3J");
            }
            let log = |rank| directory.log(NodeRank(u32::try_from(rank).unwrap_or(u32::MAX))).display().to_string();
            shown::lines(&overview, &log).iter().for_each(|line| say!("{line}"));
        }
        let Some(interval) = arguments.watch else {
            return Ok(if overview.is_well() { ExitCode::SUCCESS } else { ExitCode::from(DONE_IN_PART) });
        };
        std::thread::sleep(interval);
    }
}

fn ask(directory: &JobDirectory, local_only: bool) -> anyhow::Result<(Value, Overview)> {
    let mut status = match ask_any(directory, None, &json!({"command": "status"}), STATUS_TIMEOUT) {
        Ok(status) => status,
        Err(error) if local_only => return Err(error),
        Err(error) => ask_hosts(directory)?.ok_or(error)?,
    };
    name_missing(directory, &mut status);
    let overview = Overview::of(&directory.job(), &status);
    Ok((status, overview))
}

/// A node without which the job came up, and that does not answer, is missing: not lost.
fn name_missing(directory: &JobDirectory, status: &mut Value) {
    let missing = JobRecord::read(directory).ok().flatten().map(|record| record.missing).unwrap_or_default();
    for node in status["nodes"].as_array_mut().into_iter().flatten().filter(|node| node["state"] != "ready") {
        let rank = node["rank"].as_u64().and_then(|rank| u32::try_from(rank).ok()).map_or(NodeRank(u32::MAX), NodeRank);
        if let Some(why) = missing.get(&rank) {
            node["state"] = "missing".into();
            node["why"] = format!("it failed to start: {why}").into();
        }
    }
}
