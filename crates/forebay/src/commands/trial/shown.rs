//! The results of a trial, on standard output.

use forebay_trial::machine::Machine;
use forebay_trial::model::BUSY;
use forebay_trial::nodes::model_described;
use forebay_trial::quiet::{Measured, Verdict};
use forebay_trial::show::{Way, case, disturbance, disturbances, marked, ratio};
use forebay_trial::table::{Table, count, megabytes, seconds};
use serde_json::{Value, json};

use crate::commands::trial::choice::Choice;
use crate::commands::trial::compared::Compared;
use crate::commands::trial::site::Run;
use crate::output::say;

/// A trial that came to its end.
pub struct Trial {
    pub choice: Choice,
    pub machine: Machine,
    pub nodes: usize,
    pub processes: usize,
    /// The command once on the tree itself.
    pub local_seconds: f64,
    pub up_seconds: f64,
    pub compared: Compared,
}

impl Trial {
    /// The results.
    pub fn print(&self) {
        let (direct, forebay) = (&self.compared.direct, &self.compared.forebay);
        let mut table = Table::new();
        table.row(["", "slowest process", "CPU programs", "CPU Forebay", "requests", "bytes sent"]);
        table.row(cells(direct)).row(cells(forebay));
        let plural = if self.nodes == 1 { "" } else { "s" };
        say!("\nOn {} node{plural}; requests and bytes are those at the modelled file system\n", self.nodes);
        say!("{table}");
        let times = self.compared.times();
        say!(
            "{} directly, {} through Forebay{}, {} and {} requests; {} on the tree itself, once",
            marked(direct.value.wall_seconds, direct),
            marked(forebay.value.wall_seconds, forebay),
            ratio(times.is_some(), times.unwrap_or_default(), "times as fast"),
            count(direct.value.traffic.total()),
            count(forebay.value.traffic.total()),
            seconds(self.local_seconds),
        );
        let reasons = [direct, forebay].map(|run| disturbance(&case(run.value.way, true), run));
        let reasons: Vec<String> = reasons.into_iter().flatten().collect();
        disturbances(&reasons, "Try again when the machine is quiet.").iter().for_each(|line| say!("{line}"));
        say!(
            "\ncold: fresh mounts on every node; {} runs of each way, shown is the median of quiet ones, else the quietest",
            direct.attempts
        );
        say!("`forebay up` took {}", seconds(self.up_seconds));
        say!("The file system is {}.", model_described());
        say!(
            "All nodes share this machine, and your cluster's file system is another one: the counts of requests carry over,"
        );
        say!("times do not.");
        say!("\nNext: forebay init (a script for your scheduler), forebay doctor (on a node of your cluster)");
    }

    /// The same as JSON.
    pub fn in_json(&self) -> Value {
        let words: Vec<_> = self.choice.command.iter().map(|word| word.to_string_lossy()).collect();
        let run = |measured: &Measured<Run>| {
            let reason = match &measured.verdict {
                Verdict::Quiet => None,
                Verdict::Disturbed(reason) => Some(reason),
            };
            json!({
                "seconds": measured.value.wall_seconds,
                "programs_cpu_seconds": measured.value.programs_cpu_seconds,
                "forebay_cpu_seconds": measured.value.daemons_cpu_seconds,
                "requests": measured.value.traffic.requests,
                "requests_total": measured.value.traffic.total(),
                "sent_bytes": measured.value.traffic.sent_bytes,
                "runs": measured.attempts,
                "disturbed": reason,
                "machine": measured.machine,
            })
        };
        json!({
            "command": words,
            "tree": self.choice.tree,
            "nodes": self.nodes,
            "processes_per_node": self.processes,
            "model": {
                "described": model_described(),
                "metadata_us": BUSY.metadata_us,
                "metadata_concurrent": BUSY.at_once,
                "link_bits_per_s": BUSY.link_bits_per_second,
                "client_ttl_ms": BUSY.client_ttl_ms,
            },
            "machine": {"hardware": self.machine.hardware(), "cores": self.machine.cores, "load": self.machine.load},
            "version": env!("CARGO_PKG_VERSION"),
            "local_seconds": self.local_seconds,
            "up_seconds": self.up_seconds,
            "direct": run(&self.compared.direct),
            "forebay": run(&self.compared.forebay),
            "times_as_fast": self.compared.times(),
        })
    }
}

fn cells(measured: &Measured<Run>) -> [String; 6] {
    let run = &measured.value;
    let daemons = if run.way == Way::Direct { "-".to_owned() } else { seconds(run.daemons_cpu_seconds) };
    [
        format!("  {}", case(run.way, true)),
        marked(run.wall_seconds, measured),
        seconds(run.programs_cpu_seconds),
        daemons,
        count(run.traffic.total()),
        megabytes(run.traffic.sent_bytes),
    ]
}
