//! Effects of a fault, over all readers.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::kinds::Fault;
use super::readers::{Found, Slow};

/// How far things are at some time.
#[derive(Clone, Copy)]
pub struct Mark {
    pub time: Instant,
    /// Files that were read on all nodes.
    pub files: u64,
    /// Requests at the server since it started.
    pub requests: u64,
}

/// The course of a trial.
pub struct Course {
    pub start: Mark,
    /// The fault begins.
    pub begun: Mark,
    /// It is mended.
    pub ended: Instant,
    /// Every request that was made before has its answer.
    pub mended: Instant,
    pub end: Mark,
}

/// Effects on some of the nodes.
#[derive(Clone, Default, Debug)]
pub struct Seen {
    /// The longest operation that ended after the fault had begun.
    pub stall: Duration,
    /// The name of that operation.
    pub stalled: String,
    /// Errors by number.
    pub errors: BTreeMap<i32, usize>,
}

/// The effects of a fault.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub fault: Fault,
    pub lasted: Duration,
    /// The longest operation before the fault.
    pub stall_before: Duration,
    /// On other nodes than the victim.
    pub others: Seen,
    /// On the victim; nothing where there is none, or its view is gone.
    pub victim: Option<Seen>,
    /// Some of the errors of nodes that have a view, and all that came when everything was mended.
    pub first_errors: Vec<String>,
    pub late_errors: Vec<String>,
    pub wrong: Vec<String>,
    /// Files that were read and checked on all nodes, before and since the fault.
    pub files: [u64; 2],
    /// Requests at the server meanwhile; unknown when its counters were lost with it.
    pub requests: [Option<u64>; 2],
}

/// Errors that are shown of a node.
const ERRORS_SHOWN: usize = 3;

impl Outcome {
    /// Puts together what the readers found, by rank.
    pub fn new(fault: Fault, found: &[Found], course: &Course) -> Self {
        let Course { start, begun, ended, mended, end } = course;
        let victim = fault.victim();
        let with_view = |node: usize| victim != Some(node) || !fault.ends_view();
        let errors = |after: Instant| {
            let of_node = move |(node, found): (usize, &Found)| {
                let late = found.errors.iter().filter(move |(began, ..)| *began >= after);
                let shown = late.map(move |(_, number, what)| format!("node {node}: {what}: error {number}"));
                shown.take(ERRORS_SHOWN).collect::<Vec<_>>()
            };
            found.iter().enumerate().filter(|(node, _)| with_view(*node)).flat_map(of_node).collect()
        };
        let is_before = |slow: &&Slow| slow.began + slow.took < begun.time;
        let before = found.iter().flat_map(|found| &found.slow).filter(is_before).map(|slow| slow.took);
        let requests = end.requests.checked_sub(begun.requests).filter(|_| fault != Fault::ServerKilled);
        Self {
            fault,
            lasted: *ended - begun.time,
            stall_before: before.max().unwrap_or_default(),
            others: seen(found, begun.time, |node| victim != Some(node)),
            victim: victim.filter(|node| with_view(*node)).map(|victim| seen(found, begun.time, |node| node == victim)),
            first_errors: errors(start.time),
            late_errors: errors(*mended),
            wrong: found.iter().flat_map(|found| found.wrong.clone()).collect(),
            files: [begun.files - start.files, end.files - begun.files],
            requests: [begun.requests.checked_sub(start.requests), requests],
        }
    }

    /// Requests at the server for each file read, before and since the fault.
    pub fn requests_per_file(&self) -> [Option<f64>; 2] {
        [0, 1].map(|phase| Some(self.requests[phase]? as f64 / self.files[phase].max(1) as f64))
    }
}

/// Effects since `begun` on the nodes that are meant.
fn seen(found: &[Found], begun: Instant, is_meant: impl Fn(usize) -> bool) -> Seen {
    let mut seen = Seen::default();
    for (node, found) in found.iter().enumerate().filter(|(node, _)| is_meant(*node)) {
        let since = found.slow.iter().filter(|slow| slow.began + slow.took >= begun);
        if let Some(slow) = since.max_by_key(|slow| slow.took).filter(|slow| slow.took > seen.stall) {
            let after = slow.began.saturating_duration_since(begun);
            seen.stall = slow.took;
            seen.stalled = format!("node {node}, {after:.1?} after the fault: {}", slow.what);
        }
        found.errors.iter().for_each(|(_, number, _)| *seen.errors.entry(*number).or_default() += 1);
    }
    seen
}
