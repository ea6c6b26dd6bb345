//! Which daemon is asked: one of this host, else, for what can be asked from elsewhere, one of another host of the job.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use forebay_launch::{JobDirectory, JobRecord, RemoteCall};
use forebay_types::NodeRank;
use serde_json::Value;

/// How long a host may take: longer than its daemon, which may have to wait for silent nodes, and for a slow login.
const HOST_TIMEOUT: Duration = Duration::from_secs(15);

/// How long one host after the other is asked.
const HOSTS_TIMEOUT: Duration = Duration::from_secs(30);

/// Asks the daemon of `rank`, else the first on this host that answers.
pub fn ask_any(
    directory: &JobDirectory,
    rank: Option<NodeRank>,
    question: &Value,
    timeout: Duration,
) -> anyhow::Result<Value> {
    let (job, here) = (directory.job(), directory.socket_ranks());
    if let Some(rank) = rank.filter(|rank| !here.contains(rank)) {
        bail!("no node {rank} of the job {job} runs on this host; run this on its host, which forebay status shows");
    }
    let ranks = rank.map_or(here, |rank| vec![rank]);
    let mut failure = None;
    for rank in ranks {
        let socket = directory.socket(rank);
        match forebay_control::ask_if_there(&socket, question, timeout) {
            Ok(answer) => return Ok(answer),
            // A dead daemon's socket refuses at once, a stopped one's says nothing; the next may be alive. One that answers
            // and fails has spoken for all.
            Err(error) if error.downcast_ref::<std::io::Error>().is_some() => failure = Some(error),
            Err(error) => return Err(error),
        }
    }
    match failure {
        Some(error) => {
            Err(error.context(format!("no daemon of the job {job} answers; forebay down --job {job} cleans up")))
        }
        None => bail!("no daemon of the job {job} runs on this host; ask on one of its nodes"),
    }
}

/// Runs `status` on a host of the job, for a job whose `up` ran on a host that is not one of its nodes: on the first, or
/// where that one is dead or silent, on the first after it that answers.
pub fn ask_hosts(directory: &JobDirectory) -> anyhow::Result<Option<Value>> {
    let Some(record) = JobRecord::read(directory)? else {
        return Ok(None);
    };
    let Some(call) = record.remote_call() else {
        return Ok(None);
    };
    let base = directory.base().display().to_string();
    let arguments = ["status", "--local-only", "--json", "--directory", &base, "--job", &record.job];
    let began = Instant::now();
    let mut failure = None;
    let mut asked = BTreeSet::new();
    for node in record.nodes.iter().filter(|node| asked.insert(&node.host)) {
        match ask_host(&call, &node.host, &arguments) {
            Ok(status) => return Ok(Some(status)),
            Err(error) => failure = failure.or(Some(error)),
        }
        if began.elapsed() >= HOSTS_TIMEOUT {
            break;
        }
    }
    let job = &record.job;
    let silent = || format!("no node of the job {job} answers; forebay down --job {job} cleans up what may be left");
    failure.map_or(Ok(None), |failure| Err(failure.context(silent())))
}

fn ask_host(call: &RemoteCall, host: &str, arguments: &[&str]) -> anyhow::Result<Value> {
    if let Some(problem) = call.output_problem(host) {
        bail!(problem);
    }
    let output = call.output(host, arguments, HOST_TIMEOUT);
    let output = output.with_context(|| format!("cannot run {} for host {host}", call.name()))?;
    // 3: some nodes are missing, and the status says which.
    if !matches!(output.status.code(), Some(0 | 3)) {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("host {host} cannot report the status ({}): {}", output.status, said.trim());
    }
    serde_json::from_slice(&output.stdout).with_context(|| format!("host {host} reported no status"))
}
