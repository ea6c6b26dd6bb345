//! The figures of a report beyond those of `health`: latencies, slow files, the time that programs waited, and the model of the
//! same requests without Forebay.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;

use super::history::History;
use crate::health::{Overview, number, text};

/// Requests of a kind that are measured at least, before their mean is taken for that of others.
const MEASURED_MIN: u64 = 8;

/// Programs' requests, and the requests to the backing file system that answer one of them.
const LIKE: [(&[&str], &[&str]); 3] = [
    (&["read"], &["read"]),
    (&["readdir", "readdirplus"], &["listing", "page"]),
    (&["lookup", "getattr"], &["lookup"]),
];

/// All figures.
#[derive(Clone, PartialEq, Debug)]
pub struct Figures {
    pub overview: Overview,
    /// By place and kind, in this order.
    pub latencies: Vec<Latency>,
    /// The slowest files of the last minutes, the slowest first.
    pub slowest: Vec<Slow>,
    /// The time that programs waited for answers, summed over all of their requests.
    pub waited: Duration,
    /// A lower bound by a model: the same requests, each at the mean of what the backing file system took for its kind.
    pub directly: Option<Duration>,
    /// Nodes by rank, and the node that each asks first; `None` for roots.
    pub parents: Vec<(u64, Option<u64>)>,
    /// Requests for names.
    pub lookups: u64,
    /// The directories in which most absent names were looked for, by lookups, and the files of which most was read, by bytes.
    pub absent_in: Vec<PathAmount>,
    pub most_read: Vec<PathAmount>,
    /// The work over time.
    pub history: Option<History>,
}

/// A path, its amount, and the parts of that for names of libraries and of Python.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PathAmount {
    pub path: String,
    pub amount: u64,
    pub libraries: u64,
    pub python: u64,
}

/// Requests of one kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Latency {
    pub by: String,
    pub kind: String,
    pub count: u64,
    pub p50_us: u64,
    pub p99_us: u64,
    pub max_us: u64,
    pub sum_us: u64,
}

/// A slow request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Slow {
    pub rank: u64,
    pub by: String,
    pub kind: String,
    /// `None` where only the number of the file is known.
    pub path: Option<String>,
    pub took_us: u64,
}

impl Figures {
    /// The figures of a status.
    pub fn of(job: &str, status: &Value) -> Self {
        let overview = Overview::of(job, status);
        let latencies = latencies(status);
        let waits = latencies.iter().filter(|latency| ["view", "burst"].contains(&latency.by.as_str()));
        let waited = Duration::from_micros(waits.map(|latency| latency.sum_us).sum());
        let directly = directly(&latencies);
        let roots: BTreeSet<u64> = overview.nodes.iter().filter(|node| node.is_root).map(|node| node.rank).collect();
        let nodes = status["nodes"].as_array().into_iter().flatten();
        let mut parents: Vec<(u64, Option<u64>)> = nodes
            .map(|node| (number(node, "/rank"), node.pointer("/parents/0").and_then(Value::as_u64)))
            .map(|(rank, parent)| (rank, parent.filter(|_| !roots.contains(&rank))))
            .collect();
        parents.sort_unstable();
        Self {
            overview,
            latencies,
            slowest: slowest(status),
            waited,
            directly,
            parents,
            lookups: number(status, "/totals/kernel/messages/lookup"),
            absent_in: paths(status, "/totals/absent_in"),
            most_read: paths(status, "/totals/most_read"),
            history: History::of(status),
        }
    }

    /// Daemons that died and were started again.
    pub fn restarts(&self) -> u64 {
        self.overview.nodes.iter().map(|node| node.restarts).sum()
    }
}

/// The status without the parts that no report shows: it grows with the number of nodes.
pub fn trimmed(mut status: Value) -> Value {
    for node in status["nodes"].as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        ["latency", "slowest", "waiting", "prefill", "metrics", "view"]
            .iter()
            .for_each(|part| drop(node.remove(*part)));
    }
    if let Some(places) = status.pointer_mut("/totals/latency").and_then(Value::as_object_mut) {
        let kinds = places.values_mut().filter_map(Value::as_object_mut).flat_map(|kinds| kinds.values_mut());
        kinds.filter_map(Value::as_object_mut).for_each(|latency| drop(latency.remove("buckets")));
    }
    status
}

fn latencies(status: &Value) -> Vec<Latency> {
    let mut latencies = vec![];
    for (by, kinds) in status.pointer("/totals/latency").and_then(Value::as_object).into_iter().flatten() {
        for (kind, of) in kinds.as_object().into_iter().flatten().filter(|(_, of)| number(of, "/count") > 0) {
            latencies.push(Latency {
                by: by.clone(),
                kind: kind.clone(),
                count: number(of, "/count"),
                p50_us: number(of, "/p50_us"),
                p99_us: number(of, "/p99_us"),
                max_us: number(of, "/max_us"),
                sum_us: number(of, "/sum_us"),
            });
        }
    }
    latencies
}

fn slowest(status: &Value) -> Vec<Slow> {
    let slowest = status.pointer("/totals/slowest").and_then(Value::as_array).into_iter().flatten();
    let slow = |slow: &Value| Slow {
        rank: number(slow, "/rank"),
        by: text(slow, "/by").unwrap_or_default(),
        kind: text(slow, "/kind").unwrap_or_default(),
        path: text(slow, "/path"),
        took_us: number(slow, "/took_us"),
    };
    slowest.map(slow).collect()
}

fn paths(status: &Value, pointer: &str) -> Vec<PathAmount> {
    let amounts = status.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
    let amount = |of: &Value| PathAmount {
        path: text(of, "/path").unwrap_or_default(),
        amount: number(of, "/amount"),
        libraries: number(of, "/libraries"),
        python: number(of, "/python"),
    };
    amounts.map(amount).collect()
}

/// Kinds that the backing file system was not asked for often enough are left out, so the true time is longer.
fn directly(latencies: &[Latency]) -> Option<Duration> {
    let sum = |by: &str, kinds: &[&str], of: fn(&Latency) -> u64| -> u64 {
        let is_one = |latency: &&Latency| latency.by == by && kinds.contains(&latency.kind.as_str());
        latencies.iter().filter(is_one).map(of).sum()
    };
    let times = LIKE.iter().filter_map(|(programs, backing)| {
        let measured = sum("backing", backing, |latency| latency.count);
        let asked = sum("view", programs, |latency| latency.count);
        let mean_us = sum("backing", backing, |latency| latency.sum_us) as f64 / measured as f64;
        (measured >= MEASURED_MIN && asked > 0).then(|| Duration::from_micros((asked as f64 * mean_us) as u64))
    });
    times.reduce(|one, other| one + other)
}
