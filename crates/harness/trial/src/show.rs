//! Results of runs in words. A ratio appears only where both of its runs were undisturbed; a disturbed run has a star and a reason.

use serde::Serialize;

use crate::quiet::{Measured, Verdict};
use crate::table::seconds;

/// Where the programs read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// From the backing file system.
    Direct,
    /// Through Forebay's view.
    Forebay,
}

/// A way and the state of the nodes' caches.
#[must_use]
pub fn case(way: Way, cold: bool) -> String {
    let way = match way {
        Way::Direct => "direct",
        Way::Forebay => "through Forebay",
    };
    format!("{way}, {}", if cold { "cold" } else { "warm" })
}

/// A time, with a star if the run was disturbed.
#[must_use]
pub fn marked<T>(value: f64, run: &Measured<T>) -> String {
    format!("{}{}", seconds(value), star(run))
}

/// The star of a disturbed run.
#[must_use]
pub fn star<T>(run: &Measured<T>) -> &'static str {
    if run.is_quiet() { "" } else { " *" }
}

/// A ratio, only where it may be printed.
#[must_use]
pub fn ratio(may_compare: bool, times: f64, text: &str) -> String {
    if may_compare { format!(" ({times:.1} {text})") } else { " (no ratio, see *)".to_owned() }
}

/// The lines that explain the stars; none if there is no star.
#[must_use]
pub fn disturbances(reasons: &[String], again: &str) -> Vec<String> {
    if reasons.is_empty() {
        return Vec::new();
    }
    let head = "* These times say little, and no ratio is printed for them, because the machine was busy with other work or a run was short:";
    let reasons = reasons.iter().map(|reason| format!("  {reason}"));
    std::iter::once(head.to_owned()).chain(reasons).chain([format!("  {again}")]).collect()
}

/// Why a run was disturbed.
#[must_use]
pub fn disturbance<T>(name: &str, run: &Measured<T>) -> Option<String> {
    let Verdict::Disturbed(reason) = &run.verdict else { return None };
    let times = match run.attempts {
        1 => "run once".to_owned(),
        times => format!("run {times} times, this is the quietest"),
    };
    let queue = run.machine.run_queue_mean;
    Some(format!("{name}: {reason}; run queue {queue:.1} on average; {times}"))
}
