//! `metrics`: the nodes' numbers as metrics in text, once, for collectors of text files.

use std::collections::BTreeSet;
use std::fs;
use std::process::ExitCode;
use std::time::Duration;

use forebay_daemon::{JobLabels, MetricsFormat, encode_metrics};
use forebay_launch::JobDirectory;
use forebay_types::NodeRank;
use serde_json::{Value, json};

use crate::cli::MetricsArguments;
use crate::commands::ask::ask_any;
use crate::exit::DONE_IN_PART;
use crate::jobs;
use crate::machine;
use crate::output::{causes, say, tell};

/// How long a node may take: it looks at itself only.
const NODE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long all nodes may take: it goes down the tree and back.
const ALL_TIMEOUT: Duration = Duration::from_secs(15);

/// Prints the metrics of this host's nodes, or of all.
pub fn run(arguments: MetricsArguments) -> anyhow::Result<ExitCode> {
    let effective = arguments.of_job.effective()?;
    let directory = jobs::find(&effective)?;
    let (mut labels, mut nodes) = of_host(&directory)?;
    if arguments.all {
        match ask_any(&directory, None, &json!({"command": "status"}), ALL_TIMEOUT) {
            Ok(mut status) => nodes = status["nodes"].as_array_mut().map(std::mem::take).unwrap_or_default(),
            Err(error) => tell!("forebay: only the nodes of this host are shown: {}", causes(&error).join(": ")),
        }
    }
    labels.job = directory.job();
    let format = if arguments.openmetrics { MetricsFormat::OpenMetrics } else { MetricsFormat::Prometheus };
    say!("{}", encode_metrics(&nodes, &labels, format).trim_end());
    let all_answer = nodes.iter().all(|node| node["state"] == "ready");
    Ok(if all_answer { ExitCode::SUCCESS } else { ExitCode::from(DONE_IN_PART) })
}

/// The nodes of this host. One that does not answer has the labels that its daemon had.
fn of_host(directory: &JobDirectory) -> anyhow::Result<(JobLabels, Vec<Value>)> {
    let question = json!({"command": "metrics"});
    let (mut labels, mut nodes) = (None, Vec::new());
    let ranks: BTreeSet<NodeRank> = directory.socket_ranks().into_iter().chain(directory.record_ranks()).collect();
    for rank in ranks {
        match forebay_control::ask_if_there(&directory.socket(rank), &question, NODE_TIMEOUT) {
            Ok(mut answer) => {
                nodes.push(answer["node"].take());
                labels = serde_json::from_value(answer["labels"].take()).ok().or(labels);
            }
            Err(error) => {
                tell!("forebay: node {rank} does not answer: {error:#}");
                let (of_daemon, host) = labels_of(directory, rank);
                nodes.push(json!({"rank": rank, "host": host, "state": "unreachable"}));
                labels = labels.or(of_daemon);
            }
        }
    }
    match nodes.is_empty() {
        // Says why there is none.
        true => ask_any(directory, None, &question, NODE_TIMEOUT).map(|_| Default::default()),
        false => Ok((labels.unwrap_or_else(|| jobs::labels(&directory.job())), nodes)),
    }
}

/// The labels that the metrics of a node have, and its host, as its daemon has written them down.
fn labels_of(directory: &JobDirectory, rank: NodeRank) -> (Option<JobLabels>, String) {
    let path = JobDirectory::metrics_place(directory.path(), rank, "labels");
    let mut told: Value = fs::read(path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
    let host = told["host"].as_str().map(str::to_owned);
    let host = host.or_else(|| machine::host_names().into_iter().next()).unwrap_or_default();
    (serde_json::from_value(told["labels"].take()).ok(), host)
}
