//! The report as it is kept, and its verdict.

use forebay_launch::StartTimes;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::end::{End, Known};
use super::figures::Figures;
use super::findings::{self, Finding};
use crate::health::amounts::time;
use crate::health::{State, ranks};

/// The report of a job, as it is kept.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Report {
    /// The version of Forebay that wrote it.
    pub version: String,
    pub job: String,
    /// The end, milliseconds since 1970.
    pub ended_unix_ms: u64,
    /// The phases of its start, as `up` measured them.
    #[serde(default)]
    pub start: Option<StartTimes>,
    /// The outcome of `down`.
    pub end: End,
    /// The last status, before the daemons were told to end; `None` if none answered in time.
    pub status: Option<Value>,
    /// Set where no daemon answered, and the status is that which they had kept.
    #[serde(default)]
    pub known: Option<Known>,
}

impl Report {
    /// The figures; `None` if no daemon answered.
    pub fn figures(&self) -> Option<Figures> {
        self.status.as_ref().map(|status| Figures::of(&self.job, status))
    }

    /// Findings, the worst first.
    pub fn findings(&self) -> Vec<Finding> {
        findings::of(&self.end, self.known.as_ref(), self.figures().as_ref())
    }

    /// Whether all is well, and the verdict in a line.
    pub fn verdict(&self) -> (bool, String) {
        let figures = self.figures();
        let trouble = |figures: &Figures| figures.overview.verdict.troubles.first().map(|trouble| trouble.why.clone());
        match &self.end {
            end if !end.not_landed.is_empty() => (false, "NOT ALL HAS LANDED".to_owned()),
            end if !end.untold.is_empty() => (false, "not known whether all has landed".to_owned()),
            end if !end.is_staged_out => (false, "NOT ALL IS STAGED OUT".to_owned()),
            end if !end.missing.is_empty() => (false, "nodes may still run".to_owned()),
            _ => match &figures {
                None => (false, "not known: no daemon answered before the end".to_owned()),
                Some(figures) if figures.overview.verdict.state == State::Blocked => {
                    (false, trouble(figures).unwrap_or_default())
                }
                Some(_) if !self.known.as_ref().is_none_or(Known::is_whole) => {
                    (false, "not known of all nodes until their end".to_owned())
                }
                Some(figures) => (true, ended_well(figures)),
            },
        }
    }

    /// The figures for programs; those that are not known are `null`.
    pub fn json(&self) -> Value {
        let (is_well, verdict) = self.verdict();
        let figures = self.figures();
        let of = |number: &dyn Fn(&Figures) -> Value| figures.as_ref().map_or(Value::Null, number);
        let findings: Vec<Value> =
            self.findings().iter().map(|finding| json!({"why": finding.why, "do": finding.todo})).collect();
        json!({
            "job": self.job,
            "ended_unix_ms": self.ended_unix_ms,
            "is_well": is_well,
            "known": self.known,
            "verdict": verdict,
            "start": self.start,
            "nodes": of(&|figures| figures.overview.node_count.into()),
            "up_ms": of(&|figures| (figures.overview.up_for.as_millis() as u64).into()),
            "requests": of(&|figures| figures.overview.reads.program_requests.into()),
            "backing_requests": of(&|figures| figures.overview.reads.requests.into()),
            "read_bytes": of(&|figures| figures.overview.reads.program_bytes.into()),
            "backing_bytes": of(&|figures| figures.overview.reads.bytes.into()),
            "landed_bytes": of(&|figures| figures.overview.writes.as_ref().map(|writes| writes.landed_bytes).into()),
            "waited_us": of(&|figures| (figures.waited.as_micros() as u64).into()),
            "model_directly_us": of(&|figures| figures.directly.map(|time| time.as_micros() as u64).into()),
            "restarts": of(&|figures| figures.restarts().into()),
            "errors": of(&|figures| figures.overview.reads.errors.into()),
            "absent_names": of(&|figures| figures.overview.reads.absent_names.into()),
            "not_landed": self.end.not_landed,
            "findings": findings,
        })
    }
}

/// `ended well; daemon of node 1 restarted 2 times, programs waited at least 300 ms`; without a restart, `Forebay healthy`.
fn ended_well(figures: &Figures) -> String {
    let restarted: Vec<_> = figures.overview.nodes.iter().filter(|node| node.restarts > 0).collect();
    let times = match figures.restarts() {
        0 => return "Forebay healthy".to_owned(),
        1 => "once".to_owned(),
        times => format!("{times} times"),
    };
    // Of the deaths of a node only the last one is known.
    let waited = restarted.iter().filter_map(|node| node.last_death.as_ref()?.back_after).max();
    let waited = waited.map_or_else(String::new, |waited| format!(", programs waited at least {}", time(waited)));
    let plural = if restarted.len() == 1 { "" } else { "s" };
    let nodes: Vec<u64> = restarted.iter().map(|node| node.rank).collect();
    format!("ended well; daemon{plural} of {} restarted {times}{waited}", ranks(&nodes))
}
