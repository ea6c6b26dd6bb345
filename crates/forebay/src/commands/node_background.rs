//! `node --background`: starts the daemon in a session of its own, relays what it says until it is ready, and ends.
//!
//! A remote shell returns when nobody holds its streams any more. So the daemon gets none of them: its order comes
//! through a pipe, its lines go through another, its errors into its log.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, anyhow};
use forebay_launch::JobDirectory;
use forebay_types::NodeRank;
use serde_json::json;

use crate::cli::NodeArguments;
use crate::order::{Order, read_input};
use crate::output::{causes, tell};

/// Starts the daemon that the order on standard input describes.
pub fn run(arguments: &NodeArguments) -> anyhow::Result<ExitCode> {
    let rank = NodeRank(arguments.rank.unwrap_or(0));
    match start(arguments, rank) {
        Ok(code) => Ok(code),
        Err(error) => {
            tell(&json!({"failed": {"rank": rank, "message": causes(&error).join(": ")}}));
            Ok(ExitCode::FAILURE)
        }
    }
}

fn start(arguments: &NodeArguments, rank: NodeRank) -> anyhow::Result<ExitCode> {
    let text = read_input(arguments.order.as_deref().unwrap_or(Path::new("-")))?;
    let order = Order::parse(&text).context("standard input is not an order of forebay up")?;
    let directory = JobDirectory::at(&order.job_directory)?;
    directory.make_logs()?;
    let log = directory.log(rank);
    let stderr = OpenOptions::new().create(true).append(true).open(&log);
    let stderr = stderr.with_context(|| format!("cannot write the log {}", log.display()))?;
    let program = std::env::current_exe().context("cannot find this program")?;
    let mut child = Command::new(&program)
        .args(["node", "--session", "--order", "-", "--rank", &rank.to_string()])
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(stderr)
        .spawn()
        .with_context(|| format!("cannot run {}", program.display()))?;
    let mut stdin = child.stdin.take().context("the daemon has no standard input")?;
    stdin.write_all(&text).context("the daemon does not take its order")?;
    drop(stdin);
    let stdout = child.stdout.take().context("the daemon has no standard output")?;
    if relay(BufReader::new(stdout))? {
        return Ok(ExitCode::SUCCESS);
    }
    let status = child.wait().context("the daemon is lost")?;
    Err(anyhow!("the daemon ended by {status} without saying why; see {}", log.display()))
}

/// Passes lines on until the daemon is ready or has said why not; `false` when it said neither.
fn relay(lines: impl BufRead) -> anyhow::Result<bool> {
    for line in lines.lines() {
        let line = line.context("the daemon's output cannot be read")?;
        let Ok(said) = serde_json::from_str::<serde_json::Value>(&line) else {
            continue;
        };
        tell(&said);
        if said.get("ready").is_some() || said.get("failed").is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}
