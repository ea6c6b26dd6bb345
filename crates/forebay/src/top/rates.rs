//! How much a job does in a second: the difference of two answers of `status`.
//!
//! Differences are taken node by node. The counters of a silent node are absent, and those of a new daemon begin at 0; sums over all
//! nodes would jump down and up again.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use crate::health::Reads;

/// Two answers that are closer than this tell nothing of a second.
const LEAST: Duration = Duration::from_millis(50);

/// The counters of an answer, by rank.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Sample(BTreeMap<u64, Counters>);

/// The counters of a node; of several, their sums.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Counters {
    /// Requests to the backing file system, and bytes read from it.
    requests: u64,
    bytes: u64,
    /// Requests of programs, and bytes that they read.
    program_requests: u64,
    program_bytes: u64,
    /// Timed requests to the backing file system for reads, and the time that they took together, microseconds.
    timed: u64,
    timed_us: u64,
}

/// Amounts in a second.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Rates {
    /// Requests to the backing file system, and bytes read from it.
    pub requests_per_s: u64,
    pub bytes_per_s: u64,
    /// Requests of programs, and bytes that they read.
    pub program_requests_per_s: u64,
    pub program_bytes_per_s: u64,
    /// How long the backing file system took to answer, on average; `None` where it was not asked.
    pub answer_us: Option<u64>,
    /// By rank, bytes read from the backing file system.
    pub node_bytes_per_s: BTreeMap<u64, u64>,
}

impl Sample {
    /// The counters of an answer.
    pub fn of(status: &Value) -> Self {
        let nodes = status["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
        let ready = nodes.iter().filter(|node| node["state"] == "ready");
        Self(ready.filter_map(|node| Some((node["rank"].as_u64()?, Counters::of(node)))).collect())
    }
}

impl Counters {
    fn of(node: &Value) -> Self {
        let reads = Reads::of(std::slice::from_ref(node));
        let kinds = node.pointer("/latency/backing").and_then(Value::as_object);
        let mut counters = Self {
            requests: reads.requests,
            bytes: reads.bytes,
            program_requests: reads.program_requests,
            program_bytes: reads.program_bytes,
            ..Self::default()
        };
        // The others are of the burst tier.
        let of_reads = |kind: &str| matches!(kind, "listing" | "page" | "lookup" | "statfs" | "read");
        for (_, latency) in kinds.into_iter().flatten().filter(|(kind, _)| of_reads(kind)) {
            counters.timed += latency["count"].as_u64().unwrap_or(0);
            counters.timed_us += latency["sum_us"].as_u64().unwrap_or(0);
        }
        counters
    }

    /// The growth since `earlier`. A new daemon has counted since it began, which is after `earlier`.
    fn since(&self, earlier: &Self) -> Self {
        let is_new = self.program_requests < earlier.program_requests || self.requests < earlier.requests;
        let earlier = if is_new { Self::default() } else { *earlier };
        Self {
            requests: self.requests - earlier.requests,
            bytes: self.bytes.saturating_sub(earlier.bytes),
            program_requests: self.program_requests - earlier.program_requests,
            program_bytes: self.program_bytes.saturating_sub(earlier.program_bytes),
            timed: self.timed.saturating_sub(earlier.timed),
            timed_us: self.timed_us.saturating_sub(earlier.timed_us),
        }
    }

    fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.program_requests += other.program_requests;
        self.program_bytes += other.program_bytes;
        self.timed += other.timed;
        self.timed_us += other.timed_us;
    }
}

impl Rates {
    /// The rates between two answers that came `time` after each other. `None` where they are too close.
    pub fn between(earlier: &Sample, later: &Sample, time: Duration) -> Option<Self> {
        if time < LEAST {
            return None;
        }
        let per_s = |amount: u64| (amount as f64 / time.as_secs_f64()).round() as u64;
        let (mut sum, mut node_bytes_per_s) = (Counters::default(), BTreeMap::new());
        for (rank, counters) in &later.0 {
            // A node that was silent: its growth is not of this time.
            let Some(before) = earlier.0.get(rank) else { continue };
            let growth = counters.since(before);
            node_bytes_per_s.insert(*rank, per_s(growth.bytes));
            sum.add(&growth);
        }
        Some(Self {
            requests_per_s: per_s(sum.requests),
            bytes_per_s: per_s(sum.bytes),
            program_requests_per_s: per_s(sum.program_requests),
            program_bytes_per_s: per_s(sum.program_bytes),
            answer_us: sum.timed_us.checked_div(sum.timed),
            node_bytes_per_s,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(rank: u64, reads: u64, bytes: u64) -> Value {
        json!({
            "rank": rank, "state": "ready", "backing": {"reads": reads, "bytes": bytes},
            "kernel": {"messages": {"read": reads * 10}, "bytes_read": bytes * 10},
            "latency": {"backing": {"read": {"count": reads, "sum_us": reads * 300}, "landing-write": {"count": 9, "sum_us": 9_000_000}}},
        })
    }

    fn rates(earlier: &[Value], later: &[Value]) -> Rates {
        let sample = |nodes: &[Value]| Sample::of(&json!({"nodes": nodes}));
        Rates::between(&sample(earlier), &sample(later), Duration::from_secs(2)).unwrap()
    }

    #[test]
    fn rates_are_the_growth_in_a_second() {
        let rates = rates(&[node(0, 10, 1000), node(1, 5, 500)], &[node(0, 30, 5000), node(1, 5, 500)]);
        assert_eq!((rates.requests_per_s, rates.bytes_per_s), (10, 2000));
        assert_eq!((rates.program_requests_per_s, rates.program_bytes_per_s), (100, 20_000));
        assert_eq!(rates.answer_us, Some(300));
        assert_eq!(rates.node_bytes_per_s, BTreeMap::from([(0, 2000), (1, 0)]));
    }

    #[test]
    fn a_node_that_is_silent_or_new_makes_no_jump() {
        let silent = json!({"rank": 1, "state": "unreachable"});
        let both = [node(0, 10, 1000), node(1, 500, 50_000)];
        let one = [node(0, 12, 1200), silent];
        assert_eq!(rates(&both, &one).requests_per_s, 1);
        assert_eq!(rates(&one, &both).node_bytes_per_s.get(&1), None);
        let restarted = [node(0, 10, 1000), node(1, 4, 400)];
        assert_eq!(rates(&both, &restarted).requests_per_s, 2);
    }

    #[test]
    fn answers_that_are_too_close_give_no_rate() {
        let sample = Sample::of(&json!({"nodes": [node(0, 1, 1)]}));
        assert_eq!(Rates::between(&sample, &sample, Duration::ZERO), None);
    }
}
