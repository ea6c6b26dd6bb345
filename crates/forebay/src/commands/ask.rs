//! Which daemon is asked: one of this host, else, for what can be asked from elsewhere, one of the job's first host.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use forebay_launch::{JobDirectory, JobRecord};
use forebay_types::NodeRank;
use serde_json::Value;

use crate::control;

/// Asks the daemon of `rank`, else the first on this host that answers.
pub fn ask_any(
    directory: &JobDirectory,
    rank: Option<NodeRank>,
    question: &Value,
    timeout: Duration,
) -> anyhow::Result<Value> {
    let ranks = rank.map_or_else(|| directory.socket_ranks(), |rank| vec![rank]);
    let mut failure = None;
    for rank in ranks {
        let socket = directory.socket(rank);
        match control::ask(&socket, question, timeout) {
            Ok(answer) => return Ok(answer),
            // A dead daemon's socket refuses at once; the next may be alive. One that answers and fails has spoken
            // for all.
            Err(error) if error.downcast_ref::<std::io::Error>().is_some() => failure = Some(error),
            Err(error) => return Err(error),
        }
    }
    let job = directory.job();
    match failure {
        Some(error) => {
            Err(error.context(format!("no daemon of the job {job} answers; forebay down --job {job} cleans up")))
        }
        None => bail!("no daemon of the job {job} runs on this host; ask on one of its nodes"),
    }
}

/// Runs `status` on the job's first host, for a job whose `up` ran on a host that is not one of its nodes.
pub fn ask_first_host(directory: &JobDirectory) -> anyhow::Result<Option<Value>> {
    let Some(record) = JobRecord::read(directory)? else {
        return Ok(None);
    };
    let (Some(call), Some(first)) = (record.remote_call(), record.nodes.first()) else {
        return Ok(None);
    };
    let base = directory.base().display().to_string();
    let arguments = ["status", "--local-only", "--json", "--directory", &base, "--job", &record.job];
    let mut command = call.command(&first.host, &arguments);
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("cannot run {} for host {}", call.shell.join(" "), first.host))?;
    // 3: some nodes are missing, and the status says which.
    if !matches!(output.status.code(), Some(0 | 3)) {
        bail!("host {} does not tell the status ({})", first.host, output.status);
    }
    let status = serde_json::from_slice(&output.stdout);
    status.map(Some).with_context(|| format!("host {} gave no status", first.host))
}
