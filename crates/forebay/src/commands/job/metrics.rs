//! `metrics`: the nodes' numbers as metrics in text, once, for collectors of text files.

use std::process::ExitCode;
use std::time::Duration;

use forebay_daemon::{JobLabels, MetricsFormat, encode_metrics};
use forebay_launch::JobDirectory;
use serde_json::{Value, json};

use crate::cli::MetricsArguments;
use crate::commands::ask::ask_any;
use crate::exit::DONE_IN_PART;
use crate::jobs;
use crate::machine;
use crate::output::{say, tell};
use crate::settings::Effective;

/// How long a node may take: it looks at itself only.
const NODE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long all nodes may take: it goes down the tree and back.
const ALL_TIMEOUT: Duration = Duration::from_secs(15);

/// Prints the metrics of this host's nodes, or of all.
pub fn run(arguments: MetricsArguments) -> anyhow::Result<ExitCode> {
    let effective = Effective::merge(arguments.given.0, arguments.file.config)?;
    let directory = jobs::find(&effective)?;
    let (mut labels, mut nodes) = of_host(&directory)?;
    if arguments.all {
        let mut status = ask_any(&directory, None, &json!({"command": "status"}), ALL_TIMEOUT)?;
        nodes = status["nodes"].as_array_mut().map(std::mem::take).unwrap_or_default();
    }
    labels.job = directory.job();
    let format = if arguments.openmetrics { MetricsFormat::OpenMetrics } else { MetricsFormat::Prometheus };
    say!("{}", encode_metrics(&nodes, &labels, format).trim_end());
    let all_answer = nodes.iter().all(|node| node["state"] == "ready");
    Ok(if all_answer { ExitCode::SUCCESS } else { ExitCode::from(DONE_IN_PART) })
}

/// The nodes of this host, one of which must answer.
fn of_host(directory: &JobDirectory) -> anyhow::Result<(JobLabels, Vec<Value>)> {
    let question = json!({"command": "metrics"});
    let (mut labels, mut nodes, mut failure) = (None, Vec::new(), None);
    for rank in directory.socket_ranks() {
        match forebay_control::ask_if_there(&directory.socket(rank), &question, NODE_TIMEOUT) {
            Ok(mut answer) => {
                nodes.push(answer["node"].take());
                labels = labels.or_else(|| serde_json::from_value(answer["labels"].take()).ok());
            }
            Err(error) => {
                tell!("forebay: node {rank} does not answer: {error:#}");
                let host = machine::host_names().into_iter().next().unwrap_or_default();
                nodes.push(json!({"rank": rank, "host": host, "state": "unreachable"}));
                failure = Some(error);
            }
        }
    }
    match (labels, failure) {
        (Some(labels), _) => Ok((labels, nodes)),
        (None, Some(error)) => Err(error),
        // Says why there is none.
        (None, None) => ask_any(directory, None, &question, NODE_TIMEOUT).map(|_| Default::default()),
    }
}
