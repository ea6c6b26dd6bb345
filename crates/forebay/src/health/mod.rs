//! How a job is: from the JSON of `status` to what people want to know of it. `status` prints this model, and so can any
//! other display. The module asks no daemon and prints nothing.

pub mod amounts;
mod fields;
mod nodes;
pub mod shown;
#[cfg(test)]
mod tests;
mod verdict;
mod writes;

use std::time::Duration;

use serde_json::Value;

pub use fields::{number, text};

pub use nodes::Node;
pub use verdict::{State, Trouble, Verdict, ranks, remedy};
pub use writes::{Copies, Writes};

/// A job.
#[derive(Clone, PartialEq, Debug)]
pub struct Overview {
    /// Its name.
    pub job: String,
    /// Nodes that it has.
    pub node_count: u64,
    /// How long ago it was started; where no record of that is, how long its oldest daemon has served.
    pub up_for: Duration,
    /// Whether it is well, and the reason.
    pub verdict: Verdict,
    /// The read path.
    pub reads: Reads,
    /// The write path; `None` without a burst tier.
    pub writes: Option<Writes>,
    /// All nodes, those with trouble first.
    pub nodes: Vec<Node>,
}

/// The read path, summed over all nodes since their daemons began.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Reads {
    /// Requests to the backing file system.
    pub requests: u64,
    /// Bytes read from it.
    pub bytes: u64,
    /// Requests that failed. An absent name is an answer.
    pub errors: u64,
    /// The same by kind: `EACCES`, 3.
    pub errors_by_kind: Vec<(String, u64)>,
    /// Names of which the backing file system said that they are absent.
    pub absent_names: u64,
    /// Requests of programs that reached the daemons.
    pub program_requests: u64,
    /// Bytes that programs have read from the daemons.
    pub program_bytes: u64,
    /// Requests that the caches answered, and those that they did not.
    pub hits: u64,
    pub misses: u64,
    /// Bytes in the caches, and bytes that they may have.
    pub cache_bytes: u64,
    pub budget_bytes: u64,
    /// Nodes that are home of a share of the large files, and bytes of chunks in the least and the most filled of the caches.
    pub homes: u64,
    pub home_bytes: (u64, u64),
    /// The cache stores: bytes in them, bytes that they may have, 0 without; chunks that they had, and those that they did not.
    pub store_bytes: u64,
    pub store_capacity_bytes: u64,
    pub store_hits: u64,
    pub store_misses: u64,
    /// Chunks that they did not take, because their files had changed a moment ago.
    pub store_unsettled: u64,
    /// Bytes sent between nodes.
    pub overlay_bytes: u64,
    /// Connections of strangers, and pieces with a wrong checksum.
    pub refused: u64,
    pub spoiled: u64,
}

impl Overview {
    /// The overview of the answer of `status`.
    pub fn of(job: &str, status: &Value) -> Self {
        let all = status["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
        let roots: Vec<u64> = status
            .pointer("/job/roots")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_u64)
            .collect();
        let mut nodes: Vec<Node> = all.iter().map(|node| Node::of(node, &roots)).collect();
        let writes = Writes::of(all);
        let verdict = Verdict::of(&nodes, writes.as_ref());
        let oldest_daemon = || all.iter().map(|node| number(node, "/uptime_ms")).max();
        let up_for_ms = status.pointer("/job/uptime_ms").and_then(Value::as_u64).or_else(oldest_daemon).unwrap_or(0);
        // Stable: by rank among equals.
        nodes.sort_by_key(|node| node.concern());
        Self {
            job: job.to_owned(),
            node_count: status.pointer("/job/nodes").and_then(Value::as_u64).unwrap_or(all.len() as u64),
            up_for: Duration::from_millis(up_for_ms),
            verdict,
            reads: Reads { homes: number(status, "/job/homes"), ..Reads::of(all) },
            writes,
            nodes,
        }
    }

    /// Nodes that answer.
    pub fn ready_count(&self) -> usize {
        self.nodes.iter().filter(|node| node.is_ready()).count()
    }

    /// Whether nothing is blocked and every node answers: the exit status says so.
    pub fn is_well(&self) -> bool {
        self.verdict.state != State::Blocked && self.nodes.iter().all(Node::is_ready)
    }
}

impl Reads {
    /// Of these nodes.
    pub fn of(nodes: &[Value]) -> Self {
        let total = |pointer: &str| nodes.iter().map(|node| number(node, pointer)).sum::<u64>();
        let in_caches = |what: &str| {
            ["attributes", "listings", "chunks"].iter().map(|cache| total(&format!("/cache/{cache}/{what}"))).sum()
        };
        let of_chunks = || {
            let of = |node: &Value| node.pointer("/cache/chunks/bytes").and_then(Value::as_u64);
            nodes.iter().filter_map(of)
        };
        let messages = |node: &Value| -> u64 {
            let counts = node.pointer("/kernel/messages").and_then(Value::as_object);
            counts.into_iter().flatten().filter_map(|(_, count)| count.as_u64()).sum()
        };
        let mut by_kind = std::collections::BTreeMap::<String, u64>::new();
        for node in nodes {
            let kinds = node.pointer("/backing/errors_by_kind").and_then(Value::as_object);
            for (kind, count) in kinds.into_iter().flatten() {
                *by_kind.entry(kind.clone()).or_default() += count.as_u64().unwrap_or(0);
            }
        }
        Self {
            requests: ["listings", "stats", "opens", "reads"]
                .iter()
                .map(|kind| total(&format!("/backing/{kind}")))
                .sum(),
            bytes: total("/backing/bytes"),
            errors: total("/backing/errors"),
            errors_by_kind: by_kind.into_iter().collect(),
            absent_names: total("/backing/absent_names"),
            program_requests: nodes.iter().map(messages).sum(),
            program_bytes: total("/kernel/bytes_read"),
            hits: in_caches("hits"),
            misses: in_caches("misses"),
            cache_bytes: total("/cache/bytes"),
            budget_bytes: total("/budget_bytes"),
            homes: 0,
            home_bytes: (of_chunks().min().unwrap_or(0), of_chunks().max().unwrap_or(0)),
            store_bytes: total("/cache_store/used_bytes"),
            store_capacity_bytes: total("/cache_store/capacity_bytes"),
            store_hits: total("/cache_store/hits"),
            store_misses: total("/cache_store/misses"),
            store_unsettled: total("/cache_store/unsettled"),
            overlay_bytes: total("/overlay/bytes_sent"),
            refused: total("/overlay/refused"),
            spoiled: total("/overlay/checksum_failures"),
        }
    }
}
