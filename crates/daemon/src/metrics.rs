//! The numbers of a node and of the job, in the form of `status --json`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use forebay_cache::{KindCounters, ObjectKind};
use serde_json::{Map, Value, json};

use crate::service::Service;

/// Metrics are not written more often than this: they are for graphs.
const INTERVAL_MIN: Duration = Duration::from_millis(100);

/// The job, as this node knows it.
pub(super) fn job(service: &Service) -> Value {
    let options = &service.options;
    let exports: Vec<_> = options.exports.iter().map(|export| export.to_string_lossy()).collect();
    let roots: Vec<u32> = service.forest.roots().map(|root| root.0).collect();
    json!({
        "name": options.job, "nodes": options.nodes.len(), "fan_out": options.fan_out,
        "stripe_fan_out": options.stripe_fan_out, "roots": roots, "exports": exports,
        "security": options.level.word(),
    })
}

/// This node's object in `status --json`.
pub(super) fn node(service: &Service) -> Value {
    let options = &service.options;
    let core = service.core();
    let (counters, kept_bytes, inodes) = (core.counters(), core.kept_bytes(), core.inode_count());
    let (allowed_bytes, aside_bytes) = (core.allowed_bytes(), core.aside_bytes());
    let bypassed: Vec<u32> = core.suspects().iter().map(|rank| rank.0).collect();
    let kinds =
        [ObjectKind::Attributes, ObjectKind::Listings, ObjectKind::Chunks].map(|kind| kind_counts(core.kept(kind)));
    let prefill = json!({
        "state": if core.is_prefilling() { "filling" } else if counters.parcels > 0 { "filled" } else { "none" },
        "parcels": counters.parcels, "failed": counters.parcels_failed, "chunks": counters.prefilled,
        "recorded": core.recorded_count(), "path": service.prefill().path(),
        "ahead_bytes": service.prefill().ahead_bytes(),
    });
    drop(core);
    let [attributes, listings, chunks] = kinds;
    let parents = parents(service);
    json!({
        "rank": options.rank.0,
        "host": options.nodes[options.rank.0 as usize].host,
        "pid": std::process::id(),
        "keeper_pid": options.kept.keeper_pid,
        "restarts": options.kept.restarts,
        "replaced": options.kept.replaced,
        "state": "ready",
        "view": options.view.to_string_lossy(),
        "uptime_ms": service.started.elapsed().as_millis() as u64,
        "parents": parents,
        "bypassed": bypassed,
        "memory_bytes": resident_bytes(),
        "budget_bytes": options.budget_bytes,
        "allowed_bytes": allowed_bytes,
        "aside_bytes": aside_bytes,
        "cache": {
            "attributes": attributes, "listings": listings, "chunks": chunks,
            "negative_hits": counters.negative_hits, "bytes": kept_bytes, "inodes": inodes,
        },
        "kernel": kernel(service),
        "overlay": overlay(service, &counters),
        "backing": backing(service),
        "prefill": prefill,
    })
}

/// Whom this node asks in any tree, that of the first tree first; each once.
fn parents(service: &Service) -> Vec<u32> {
    let mut parents = Vec::new();
    for parent in service.forest.trees().filter_map(|tree| tree.parent(service.options.rank)) {
        if !parents.contains(&parent.0) {
            parents.push(parent.0);
        }
    }
    parents
}

/// Sums of all numbers of the nodes, by the same names.
pub(super) fn totals(nodes: &[Value]) -> Value {
    let mut totals = json!({});
    for node in nodes {
        for section in ["cache", "kernel", "overlay", "backing", "prefill"] {
            add(&mut totals[section], &node[section]);
        }
        add(&mut totals["memory_bytes"], &node["memory_bytes"]);
    }
    totals
}

/// Writes this node's object as a line to `file` every `interval`, as long as the daemon runs.
pub(super) async fn write_regularly(service: Arc<Service>, file: Option<PathBuf>, interval: Duration) {
    let Some(file) = file else { return };
    let path = file.with_extension(format!("{}.jsonl", service.options.rank));
    let mut ticks = tokio::time::interval(interval.max(INTERVAL_MIN));
    loop {
        ticks.tick().await;
        let (line, to) = (format!("{}\n", node(&service)), path.clone());
        let written = tokio::task::spawn_blocking(move || append(&to, &line)).await;
        if let Ok(Err(error)) = written {
            tracing::warn!(path = %path.display(), %error, "writing metrics failed; no more are written");
            return;
        }
    }
}

fn append(path: &Path, line: &str) -> std::io::Result<()> {
    std::fs::OpenOptions::new().create(true).append(true).open(path)?.write_all(line.as_bytes())
}

fn kind_counts(counts: KindCounters) -> Value {
    let KindCounters { entries, bytes, hits, misses, evicted } = counts;
    json!({"entries": entries, "bytes": bytes, "hits": hits, "misses": misses, "evicted": evicted})
}

fn kernel(service: &Service) -> Value {
    let Some(session) = service.session() else {
        return json!({"messages": {}, "bytes_read": 0});
    };
    let counts = session.message_counts();
    let messages: Map<String, Value> = counts.iter().map(|(name, count)| (name.to_owned(), json!(count))).collect();
    json!({"messages": messages, "bytes_read": counts.bytes_read()})
}

fn overlay(service: &Service, counters: &forebay_node::Counters) -> Value {
    let sent = service.endpoint().map(forebay_transport::Endpoint::counters).unwrap_or_default();
    json!({
        "requests_sent": sent.requests_sent, "requests_served": sent.requests_served, "coalesced": counters.coalesced,
        "bytes_sent": sent.bytes_sent, "bytes_received": sent.bytes_received, "connections": sent.connections,
        "refused": sent.refused, "corrupt_frames": sent.corrupt_frames,
        "checksum_failures": sent.checksum_failures, "timed_out": counters.timed_out,
        "reparented": counters.reparented, "hedged": counters.hedged,
        "asked_early": counters.asked_early, "early_used": counters.early_used,
        "promoted": counters.promoted,
    })
}

fn backing(service: &Service) -> Value {
    let counts = service.opened_store().map(|store| store.counters()).unwrap_or_default();
    json!({
        "listings": counts.listings, "stats": counts.stats, "opens": counts.opens, "reads": counts.reads,
        "bytes": counts.bytes, "errors": counts.errors,
    })
}

/// Adds `from` to `to`, number by number, object by object; what is neither is left out.
fn add(to: &mut Value, from: &Value) {
    match from {
        Value::Number(number) => {
            let sum = to.as_u64().unwrap_or(0) + number.as_u64().unwrap_or(0);
            *to = json!(sum);
        }
        Value::Object(fields) => fields.iter().for_each(|(name, value)| add(&mut to[name], value)),
        _ => {}
    }
}

/// Memory of this process that is in RAM, bytes (`VmRSS` of proc(5)); 0 where it cannot be read.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|rest| rest.split_whitespace().next()).and_then(|number| number.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_sums_by_name() {
        let node = json!({"backing": {"reads": 2}, "kernel": {"messages": {"read": 3}}, "memory_bytes": 5});
        let totals = totals(&[node.clone(), node, json!({"rank": 2, "state": "unreachable"})]);
        assert_eq!(totals["backing"]["reads"], 4);
        assert_eq!(totals["kernel"]["messages"]["read"], 6);
        assert_eq!(totals["memory_bytes"], 10);
    }
}
