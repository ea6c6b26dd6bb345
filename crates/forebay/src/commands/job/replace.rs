//! `up --replace`: a new daemon on every node of a running job, from the program that is on disk now.
//!
//! The keepers do it, and each answers when its view answers again: those of this host are asked here, one after the other
//! and the first node last, because the job is asked over it; those of other hosts by the same command there, through the
//! remote shell that started them. No program sees more than a pause, and a node whose new daemon does not get as far as standing by keeps its old one.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use forebay_launch::{JobDirectory, JobRecord};
use forebay_types::NodeRank;
use serde_json::json;

use crate::cli::UpArguments;
use crate::commands::job::up_report::shown_ranks;
use crate::exit::DONE_IN_PART;
use crate::jobs;
use crate::output::{causes, say, tell};
use crate::settings::values::show_duration;
use crate::settings::{Effective, Given, UsageError};

/// How long a node may take: its new daemon to start, the old one to hand over, and some.
const REPLACE_TIMEOUT: Duration = forebay_keeper::limits::DAEMON_START_DEADLINE
    .saturating_add(forebay_keeper::limits::DAEMON_END_DEADLINE)
    .saturating_add(Duration::from_secs(5));

/// Replaces the daemons of the job.
pub fn run(arguments: UpArguments) -> anyhow::Result<ExitCode> {
    let began = Instant::now();
    refuse_settings(&arguments.given.0)?;
    let effective = Effective::merge(arguments.given.0, arguments.file.config)?;
    let directory = jobs::find(&effective)?;
    let mut outcome = Outcome::default();
    outcome.replace_here(&directory);
    if !arguments.local_only {
        outcome.replace_elsewhere(&directory)?;
    }
    outcome.report(&directory.job(), began.elapsed(), arguments.json)
}

/// A job keeps its settings: an option that would change one is refused, not passed over. The environment and a file
/// apply to every command; their settings are not refused.
fn refuse_settings(given: &Given) -> Result<(), UsageError> {
    const TAKEN: [&str; 2] = ["job", "directory"];
    let ignored: Vec<String> = given.keys().filter(|key| !TAKEN.contains(*key)).map(|key| format!("--{key}")).collect();
    if ignored.is_empty() {
        return Ok(());
    }
    Err(UsageError(format!(
        "--replace gives the job new daemons with the settings that it was started with, and cannot change them: leave out {}, \
         or end the job and start it again (forebay down, forebay up)",
        ignored.join(", ")
    )))
}

/// The outcome of `up --replace`.
#[derive(Default)]
struct Outcome {
    /// Nodes of this host that have a new daemon, with the time that their views did not answer.
    replaced: Vec<(NodeRank, Duration)>,
    /// Nodes of other hosts that have one.
    replaced_elsewhere: Vec<NodeRank>,
    failed: Vec<(NodeRank, String)>,
}

impl Outcome {
    fn replace_here(&mut self, directory: &JobDirectory) {
        for rank in directory.record_ranks().into_iter().rev() {
            match replace(directory, rank) {
                Ok(paused) => self.replaced.push((rank, paused)),
                Err(error) => self.failed.push((rank, causes(&error).join(": "))),
            }
        }
    }

    fn replace_elsewhere(&mut self, directory: &JobDirectory) -> anyhow::Result<()> {
        let Some(record) = JobRecord::read(directory)? else {
            bail!("the record of the job is on the host where forebay up ran; replace its daemons from there");
        };
        let Some(call) = record.remote_call() else { return Ok(()) };
        let is_done = |rank: &NodeRank| {
            self.replaced
                .iter()
                .map(|(rank, _)| rank)
                .chain(self.failed.iter().map(|(rank, _)| rank))
                .any(|done| done == rank)
        };
        let ranks = (0..).map(NodeRank).zip(&record.nodes);
        let rest: Vec<(NodeRank, &str)> =
            ranks.filter(|(rank, _)| !is_done(rank)).map(|(rank, node)| (rank, node.host.as_str())).collect();
        let hosts: Vec<&str> = rest.iter().map(|(_, host)| *host).collect::<BTreeSet<_>>().into_iter().collect();
        let base = directory.base().display().to_string();
        let arguments = ["up", "--replace", "--local-only", "--directory", &base, "--job", &record.job];
        let failed = call.run_on_all(&hosts, &arguments, REPLACE_TIMEOUT);
        for (rank, host) in rest {
            match failed.iter().find(|failed| failed.host == host) {
                Some(failed) => self.failed.push((rank, failed.reason.clone())),
                None => self.replaced_elsewhere.push(rank),
            }
        }
        Ok(())
    }

    fn report(&self, job: &str, took: Duration, as_json: bool) -> anyhow::Result<ExitCode> {
        let count = self.replaced.len() + self.replaced_elsewhere.len();
        let longest = self.replaced.iter().map(|(_, paused)| *paused).max().unwrap_or_default();
        let reason = |(rank, why): &(NodeRank, String)| format!("node {}: {why}", shown_ranks(&[*rank]));
        if count == 0 {
            let why: Vec<String> = self.failed.iter().map(reason).collect();
            bail!("no daemon of the job {job} was replaced; those that run go on\n  {}", why.join("\n  "));
        }
        if as_json {
            let nodes =
                |(rank, paused): &(NodeRank, Duration)| json!({"rank": rank, "paused_us": paused.as_micros() as u64});
            let mut replaced: Vec<_> = self.replaced.iter().rev().map(nodes).collect();
            replaced.extend(self.replaced_elsewhere.iter().map(|rank| json!({"rank": rank})));
            let failed: Vec<_> = self.failed.iter().map(|(rank, why)| json!({"rank": rank, "why": why})).collect();
            let took_ms = took.as_millis() as u64;
            say!("{}", json!({"job": job, "took_ms": took_ms, "replaced": replaced, "failed": failed}));
        } else {
            let nodes = if count == 1 {
                "1 node has a new daemon".to_owned()
            } else {
                format!("{count} nodes have new daemons")
            };
            say!("job {job}: {nodes}, {}; the longest pause here was {}", show_duration(took), show_duration(longest));
            self.failed
                .iter()
                .for_each(|failed| tell!("forebay: not replaced, the old daemon goes on: {}", reason(failed)));
        }
        Ok(if self.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(DONE_IN_PART) })
    }
}

/// Asks one keeper of this host; how long its view did not answer.
fn replace(directory: &JobDirectory, rank: NodeRank) -> anyhow::Result<Duration> {
    let answer = forebay_control::ask(&directory.keeper_socket(rank), &json!({"command": "replace"}), REPLACE_TIMEOUT)?;
    let paused_us = answer["paused_us"].as_u64().context("the keeper's answer is not understood")?;
    Ok(Duration::from_micros(paused_us))
}
