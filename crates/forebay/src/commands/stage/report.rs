//! The outcome of staging, as text and as JSON.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::anyhow;
use forebay_types::NodeRank;
use serde_json::{Value, json};

use crate::commands::stage::part::{Missing, NodeOutcome, Outcome};
use crate::commands::stage::places::{Order, Way};
use crate::exit::DONE_IN_PART;
use crate::output::{say, tell};
use crate::settings::values::{show_duration, show_size};

/// The outcome, on nodes of which one at least did something.
pub struct Report<'a> {
    order: &'a Order,
    nodes: usize,
    done: Vec<Outcome>,
    failed: Vec<(NodeRank, String)>,
    took: Duration,
}

impl<'a> Report<'a> {
    /// Of what nodes said.
    ///
    /// # Errors
    /// When none did anything: why.
    pub fn of(order: &'a Order, outcomes: Vec<NodeOutcome>, took: Duration) -> anyhow::Result<Self> {
        let nodes = outcomes.len();
        let (done, failed): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
        let done: Vec<Outcome> = done.into_iter().filter_map(Result::ok).collect();
        let mut failed: Vec<_> = failed.into_iter().filter_map(Result::err).collect();
        let Some(first) = done.first() else {
            // Most often all for the same reason.
            failed.dedup_by(|one, other| one.1 == other.1);
            let why: Vec<String> = failed.iter().map(|(rank, why)| format!("node {rank}: {why}")).collect();
            return Err(match failed.as_slice() {
                [(_, why)] => anyhow!("nothing was staged: {why}"),
                _ => anyhow!("nothing was staged\n  {}", why.join("\n  ")),
            });
        };
        if let Some(other) = done.iter().find(|other| other.digest != first.digest) {
            let why = format!(
                "its {} differs from what node {} saw: stage it again when nothing changes it",
                order.source.display(),
                first.rank
            );
            failed.push((other.rank, why));
        }
        Ok(Self { order, nodes, done, failed, took })
    }

    /// Prints it; the exit status says whether all is there.
    pub fn print(&self, as_json: bool) -> ExitCode {
        if as_json {
            say!("{}", self.json());
        } else {
            say!("{}", self.line());
            self.tell_what_is_missing();
        }
        if self.done.iter().any(|done| done.is_direct) {
            let source = self.order.source.display();
            tell!("forebay: note: no export shows {source}: each node reads it from the backing file system itself");
        }
        if self.is_whole() { ExitCode::SUCCESS } else { ExitCode::from(DONE_IN_PART) }
    }

    /// Says it on standard error.
    pub fn tell(&self) {
        tell!("forebay: {}", self.line());
        self.tell_what_is_missing();
        self.tell_how();
    }

    fn tell_how(&self) {
        if self.done.iter().any(|done| done.is_direct) {
            let source = self.order.source.display();
            tell!("forebay: note: no export shows {source}: each node reads it from the backing file system itself");
        }
    }

    /// Whether all is there.
    pub fn is_whole(&self) -> bool {
        self.failed.is_empty() && self.missing_files() == 0
    }

    fn sum(&self, of: fn(&Outcome) -> u64) -> u64 {
        self.done.iter().map(of).sum()
    }

    fn missing_files(&self) -> u64 {
        self.sum(|done| done.missing_files)
    }

    /// Those that are named, each with its node.
    fn missing(&self) -> impl Iterator<Item = (NodeRank, &Missing)> {
        self.done.iter().flat_map(|done| done.missing.iter().map(|file| (done.rank, file)))
    }

    fn is_read_ahead(&self) -> bool {
        self.done.iter().any(|done| done.is_read_ahead)
    }

    fn line(&self) -> String {
        let copied = self.sum(|done| done.copied_bytes);
        let rate = show_size((copied as f64 / self.took.as_secs_f64().max(0.001)) as u64);
        let verb = match (self.is_read_ahead(), self.order.way) {
            (true, _) => "read ahead",
            (_, Way::In) => "staged in",
            (_, Way::Out) => "staged out",
        };
        let plural = |count: u64| if count == 1 { "" } else { "s" };
        let (files, nodes) = (self.sum(|done| done.files) - self.missing_files(), self.nodes);
        format!(
            "{verb}: {files} file{}, {} on {nodes} node{}; {} were there, {} copied in {} ({rate}/s){}",
            plural(files),
            show_size(self.sum(|done| done.bytes)),
            plural(nodes as u64),
            self.sum(|done| done.were_there),
            show_size(copied),
            show_duration(self.took),
            if self.is_whole() { "" } else { "; not all is there" }
        )
    }

    fn tell_what_is_missing(&self) {
        let mut named = 0;
        for (rank, file) in self.missing() {
            let (path, left, all) = (file.path.display(), show_size(file.missing_bytes), show_size(file.bytes));
            tell!("forebay: missing on node {rank}: {path} ({left} of {all}): {}", file.why);
            named += 1;
        }
        if self.missing_files() > named {
            tell!("forebay: and {} more", self.missing_files() - named);
        }
        self.failed.iter().for_each(|(rank, why)| tell!("forebay: node {rank}: {why}"));
    }

    fn json(&self) -> Value {
        let failed: Vec<_> = self.failed.iter().map(|(rank, why)| json!({"rank": rank, "why": why})).collect();
        let missing = |(rank, file): (NodeRank, &Missing)| {
            let Missing { path, bytes, missing_bytes, why } = file;
            json!({"rank": rank, "path": path, "bytes": bytes, "missing_bytes": missing_bytes, "why": why})
        };
        json!({
            "nodes": self.nodes,
            "files": self.sum(|done| done.files),
            "bytes": self.sum(|done| done.bytes),
            "files_that_were_there": self.sum(|done| done.were_there),
            "copied_bytes": self.sum(|done| done.copied_bytes),
            "missing_files": self.missing_files(),
            "missing": self.missing().map(missing).collect::<Vec<_>>(),
            "failed": failed,
            "read_ahead": self.is_read_ahead(),
            "took_ms": self.took.as_millis() as u64,
        })
    }
}
