//! A node's numbers as metrics in text: OpenMetrics 1.0, or the text format 0.0.4 of Prometheus, which files for node_exporter have.
//!
//! Both are made from the node's object of `status --json`, so that they never differ from it: the table says which number is which metric.

use std::fmt::Write;

use forebay_latency::Latency;
use serde_json::Value;

use crate::options::JobLabels;

/// The two formats.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// `application/openmetrics-text`, version 1.0.0.
    OpenMetrics,
    /// `text/plain`, version 0.0.4.
    Prometheus,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// A metric, and where its samples stand in a node's status.
struct Metric {
    name: &'static str,
    kind: Kind,
    help: &'static str,
    samples: &'static [Sample],
}

/// A label of its own with its value, a place in the status, and how often its unit is in the metric's.
type Sample = (&'static str, &'static str, f64);

const fn gauge(name: &'static str, help: &'static str, samples: &'static [Sample]) -> Metric {
    Metric { name, kind: Kind::Gauge, help, samples }
}

/// Its name ends in `_total` where a sample stands, and in the table.
const fn counter(name: &'static str, help: &'static str, samples: &'static [Sample]) -> Metric {
    Metric { name, kind: Kind::Counter, help, samples }
}

const MS: f64 = 0.001;

/// A metric of one number.
macro_rules! one {
    ($kind:ident, $name:literal, $place:literal, $scale:expr, $help:literal) => {
        $kind($name, $help, &[("", $place, $scale)])
    };
}

/// A metric of each cache.
macro_rules! of_caches {
    ($kind:ident, $name:literal, $what:literal, $help:literal) => {
        $kind(
            $name,
            $help,
            &[
                ("kind=\"attributes\"", concat!("/cache/attributes/", $what), 1.0),
                ("kind=\"listings\"", concat!("/cache/listings/", $what), 1.0),
                ("kind=\"chunks\"", concat!("/cache/chunks/", $what), 1.0),
            ],
        )
    };
}

#[rustfmt::skip] // A table: a metric a line.
const METRICS: &[Metric] = &[
    one!(gauge, "forebay_uptime_seconds", "/uptime_ms", MS, "Time since the node's daemon began."),
    one!(counter, "forebay_daemon_restarts_total", "/restarts", 1.0, "Times that the node's daemon died and was started again."),
    one!(gauge, "forebay_memory_bytes", "/memory_bytes", 1.0, "Memory of the daemon that is resident."),
    one!(gauge, "forebay_threads", "/threads", 1.0, "Threads of the daemon."),
    one!(gauge, "forebay_cache_budget_bytes", "/budget_bytes", 1.0, "Memory that the caches may take."),
    one!(gauge, "forebay_cache_allowed_bytes", "/allowed_bytes", 1.0, "The part of the budget that the machine's memory has room for."),
    of_caches!(gauge, "forebay_cache_bytes", "bytes", "Contents of the caches."),
    of_caches!(gauge, "forebay_cache_entries", "entries", "Entries of the caches."),
    of_caches!(counter, "forebay_cache_hits_total", "hits", "Requests that the caches answered."),
    of_caches!(counter, "forebay_cache_misses_total", "misses", "Requests that the caches could not answer."),
    of_caches!(counter, "forebay_cache_evicted_total", "evicted", "Entries that were removed to make room."),
    one!(counter, "forebay_view_read_bytes_total", "/kernel/bytes_read", 1.0, "Bytes that programs have read from the view, without those that the kernel had."),
    counter("forebay_backing_requests_total", "Requests to the backing file system.", &[
        ("kind=\"listing\"", "/backing/listings", 1.0),
        ("kind=\"stat\"", "/backing/stats", 1.0),
        ("kind=\"open\"", "/backing/opens", 1.0),
        ("kind=\"read\"", "/backing/reads", 1.0),
    ]),
    one!(counter, "forebay_backing_read_bytes_total", "/backing/bytes", 1.0, "Bytes read from the backing file system for the view."),
    one!(counter, "forebay_backing_errors_total", "/backing/errors", 1.0, "Requests to the backing file system that failed, absent names among them."),
    counter("forebay_peer_requests_total", "Requests between nodes.", &[
        ("direction=\"sent\"", "/overlay/requests_sent", 1.0),
        ("direction=\"served\"", "/overlay/requests_served", 1.0),
    ]),
    counter("forebay_peer_bytes_total", "Bytes between nodes.", &[
        ("direction=\"sent\"", "/overlay/bytes_sent", 1.0),
        ("direction=\"received\"", "/overlay/bytes_received", 1.0),
    ]),
    one!(gauge, "forebay_peer_connections", "/overlay/connections", 1.0, "Connections to other nodes."),
    one!(counter, "forebay_peer_timeouts_total", "/overlay/timed_out", 1.0, "Requests to other nodes that got no answer in time."),
    one!(counter, "forebay_peer_failovers_total", "/overlay/failovers", 1.0, "Requests that went to another node since the first did not answer."),
    one!(counter, "forebay_peer_checksum_failures_total", "/overlay/checksum_failures", 1.0, "Bodies of other nodes whose bytes were spoiled on their way."),
    one!(counter, "forebay_prefetches_total", "/overlay/prefetch_issued", 1.0, "Requests that were sent before a program wanted their answers."),
    one!(counter, "forebay_prefetches_used_total", "/overlay/prefetch_used", 1.0, "Those of them that a program then wanted."),
    one!(gauge, "forebay_cache_store_capacity_bytes", "/cache_store/capacity_bytes", 1.0, "Room that the node's cache store may take."),
    one!(gauge, "forebay_cache_store_used_bytes", "/cache_store/used_bytes", 1.0, "Room that it takes."),
    one!(counter, "forebay_cache_store_hits_total", "/cache_store/hits", 1.0, "Chunks of large files that it had."),
    one!(counter, "forebay_cache_store_misses_total", "/cache_store/misses", 1.0, "Chunks of large files that it did not have."),
    one!(counter, "forebay_cache_store_hit_bytes_total", "/cache_store/hit_bytes", 1.0, "Bytes read from it instead of the backing file system."),
    one!(counter, "forebay_cache_store_damaged_total", "/cache_store/damaged", 1.0, "Chunks in it whose bytes had changed."),
    one!(counter, "forebay_cache_store_refused_total", "/cache_store/refused", 1.0, "Chunks that it did not take."),
    one!(counter, "forebay_cache_store_unsettled_total", "/cache_store/unsettled", 1.0, "Chunks that it did not take because their files had just changed."),
    one!(gauge, "forebay_burst_capacity_bytes", "/burst/capacity_bytes", 1.0, "Size of the node's burst store."),
    one!(gauge, "forebay_burst_dirty_bytes", "/burst/dirty_bytes", 1.0, "Bytes that programs have written and that are not committed."),
    one!(gauge, "forebay_burst_committed_bytes", "/burst/committed_bytes", 1.0, "Bytes that are committed and not on the backing file system."),
    one!(gauge, "forebay_burst_copies_bytes", "/burst/copies_bytes", 1.0, "Copies of other nodes' writes in this node's store, bytes."),
    one!(gauge, "forebay_burst_uncopied_bytes", "/burst/uncopied_bytes", 1.0, "Bytes that the node's partner does not have."),
    one!(gauge, "forebay_burst_steps_to_land", "/burst/steps_to_land", 1.0, "Changes that the backing file system has not followed."),
    one!(gauge, "forebay_burst_draining_bytes", "/burst/draining_bytes", 1.0, "Bytes of the file that is landing that are not verified on the backing file system. By the leader."),
    one!(counter, "forebay_burst_landed_bytes_total", "/burst/landed_bytes", 1.0, "Bytes that have landed since the leader's daemon began."),
    one!(gauge, "forebay_burst_drain_bytes_per_second", "/burst/drain_bytes_per_s", 1.0, "How fast bytes have landed lately."),
    one!(gauge, "forebay_burst_time_left_seconds", "/burst/time_left_ms", MS, "How long the rest takes at that rate."),
    one!(gauge, "forebay_burst_lost_bytes", "/burst/lost_bytes", 1.0, "Bytes that only nodes have which do not answer."),
];

/// A histogram's name, its help, and where its requests went.
type HistogramOf = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

/// The histograms: `latency` has their parts by where requests went, each with a label of its own.
const HISTOGRAMS: [HistogramOf; 4] = [
    (
        "forebay_program_request_seconds",
        "Time until a program's request was answered, by mount and kind.",
        &[("view", "mount=\"view\""), ("burst", "mount=\"burst\"")],
    ),
    ("forebay_peer_request_seconds", "Time until the answer of another node began.", &[("peers", "")]),
    ("forebay_backing_request_seconds", "Time that a call on the backing file system took.", &[("backing", "")]),
    ("forebay_log_seconds", "Time that appends to the burst store's log and its syncs took.", &[("log", "")]),
];

/// Ends of the buckets that are exported: powers of two that are ends of recorded buckets too, so that counts are exact. From 16 µs to 34 s.
const BUCKET_ENDS_NS: [u64; 8] = [1 << 14, 1 << 17, 1 << 20, 1 << 23, 1 << 26, 1 << 29, 1 << 32, 1 << 35];

/// The metrics of these nodes (`nodes` of `status --json`); those that do not answer have `forebay_up` only.
#[must_use]
pub fn encode(nodes: &[Value], labels: &JobLabels, format: Format) -> String {
    let nodes: Vec<_> = nodes.iter().map(|node| (node, labels_of(node, labels))).collect();
    let mut text = Text { text: String::new(), format };
    text.head("forebay_up", Kind::Gauge, "Whether the node's daemon answers.");
    for (node, labels) in &nodes {
        text.sample("forebay_up", labels, "", if node["state"] == "ready" { 1.0 } else { 0.0 });
    }
    for metric in METRICS {
        let found = nodes.iter().flat_map(|node| metric.samples.iter().map(move |sample| (node, sample)));
        let found = found.filter_map(|((node, labels), (own, pointer, scale))| {
            Some((labels, *own, node.pointer(pointer)?.as_f64()? * scale))
        });
        text.family((metric.name, metric.kind, metric.help), found);
    }
    text.messages(&nodes);
    text.waiting(&nodes);
    for histogram in &HISTOGRAMS {
        text.histogram(histogram, &nodes);
    }
    if format == Format::OpenMetrics {
        text.text.push_str("# EOF\n");
    }
    text.text
}

fn labels_of(node: &Value, labels: &JobLabels) -> String {
    let JobLabels { job, user, allocation } = labels;
    let (job, user, allocation) = (escaped(job), escaped(user), escaped(allocation));
    let host = escaped(node["host"].as_str().unwrap_or_default());
    format!("job=\"{job}\",user=\"{user}\",allocation=\"{allocation}\",node=\"{}\",host=\"{host}\"", node["rank"])
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// A node's status, and the labels of its samples.
type LabelledNode<'a> = (&'a Value, String);

struct Text {
    text: String,
    format: Format,
}

impl Text {
    /// A whole metric, unless it has no sample.
    fn family<'a>(
        &mut self,
        (name, kind, help): (&str, Kind, &str),
        samples: impl Iterator<Item = (&'a String, &'a str, f64)>,
    ) {
        let mut samples = samples.peekable();
        if samples.peek().is_some() {
            self.head(name, kind, help);
        }
        samples.for_each(|(labels, own, value)| self.sample(name, labels, own, value));
    }

    fn head(&mut self, name: &str, kind: Kind, help: &str) {
        // In OpenMetrics a counter's name lacks what its samples end in.
        let name = match self.format {
            Format::OpenMetrics => name.strip_suffix("_total").unwrap_or(name),
            Format::Prometheus => name,
        };
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {kind}"));
    }

    fn sample(&mut self, name: &str, labels: &str, own: &str, value: f64) {
        let comma = if own.is_empty() { "" } else { "," };
        self.line(format_args!("{name}{{{labels}{comma}{own}}} {value}"));
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to text does not fail.
        let _ = writeln!(self.text, "{line}");
    }

    /// The kernel's messages by kind: those that never came are left out.
    fn messages(&mut self, nodes: &[LabelledNode<'_>]) {
        let mut samples = Vec::new();
        for (node, labels) in nodes {
            for (kind, count) in node["kernel"]["messages"].as_object().into_iter().flatten() {
                if let Some(count) = count.as_f64().filter(|count| *count > 0.0) {
                    samples.push((labels, format!("kind=\"{}\"", escaped(kind)), count));
                }
            }
        }
        let head = ("forebay_view_messages_total", Kind::Counter, "Messages of the kernel for the view.");
        self.family(head, samples.iter().map(|(labels, own, count)| (*labels, &**own, *count)));
    }

    fn waiting(&mut self, nodes: &[LabelledNode<'_>]) {
        let (mut in_flight, mut oldest) = (Vec::new(), Vec::new());
        for (node, labels) in nodes {
            for (by, waiting) in node["waiting"].as_object().into_iter().flatten() {
                let own = format!("by=\"{}\"", escaped(by));
                in_flight.extend(waiting["in_flight"].as_f64().map(|count| (labels, own.clone(), count)));
                oldest.push((labels, own, waiting["oldest_ms"].as_f64().unwrap_or(0.0) * MS));
            }
        }
        let families = [
            ("forebay_requests_in_flight", "Requests that have no answer yet, by where they go.", in_flight),
            ("forebay_oldest_request_seconds", "For how long the oldest of them waits; 0 where none does.", oldest),
        ];
        for (name, help, samples) in &families {
            let samples = samples.iter().map(|(labels, own, value)| (*labels, &**own, *value));
            self.family((name, Kind::Gauge, help), samples);
        }
    }

    fn histogram(&mut self, (name, help, parts): &HistogramOf, nodes: &[LabelledNode<'_>]) {
        let mut has_head = false;
        for (node, labels) in nodes {
            for (by, own) in *parts {
                for (kind, latency) in node["latency"][by].as_object().into_iter().flatten() {
                    let Ok(latency) = serde_json::from_value::<Latency>(latency.clone()) else { continue };
                    if !std::mem::replace(&mut has_head, true) {
                        self.head(name, Kind::Histogram, help);
                    }
                    let comma = if own.is_empty() { "" } else { "," };
                    self.buckets(name, &format!("{labels},{own}{comma}kind=\"{}\"", escaped(kind)), &latency);
                }
            }
        }
    }

    fn buckets(&mut self, name: &str, labels: &str, latency: &Latency) {
        for end_ns in BUCKET_ENDS_NS {
            let (end_s, below) = (end_ns as f64 / 1e9, latency.count_below(end_ns));
            self.line(format_args!("{name}_bucket{{{labels},le=\"{end_s}\"}} {below}"));
        }
        self.line(format_args!("{name}_bucket{{{labels},le=\"+Inf\"}} {}", latency.count));
        self.line(format_args!("{name}_sum{{{labels}}} {}", latency.sum_us as f64 / 1e6));
        self.line(format_args!("{name}_count{{{labels}}} {}", latency.count));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;

    fn labels() -> JobLabels {
        JobLabels { job: "train".to_owned(), user: "m\"e\\".to_owned(), allocation: "4711".to_owned() }
    }

    fn node() -> Value {
        let latency = json!({"count": 3, "sum_us": 1500, "buckets": [[3, 2], [40, 1]]});
        json!({
            "rank": 1, "host": "n1", "state": "ready", "uptime_ms": 1500, "backing": {"reads": 7},
            "kernel": {"messages": {"read": 2, "write": 0}},
            "burst": {"committed_bytes": 9, "uncopied_bytes": null},
            "waiting": {"view": {"in_flight": 1, "oldest_ms": 250}},
            "latency": {"view": {"read": latency}},
        })
    }

    #[test]
    fn samples_have_the_labels_of_job_and_node() {
        let text = encode(&[node()], &labels(), Format::Prometheus);
        let common = r#"job="train",user="m\"e\\",allocation="4711",node="1",host="n1""#;
        for line in [
            "# TYPE forebay_backing_requests_total counter".to_owned(),
            format!("forebay_up{{{common}}} 1"),
            format!("forebay_uptime_seconds{{{common}}} 1.5"),
            format!("forebay_backing_requests_total{{{common},kind=\"read\"}} 7"),
            format!("forebay_burst_committed_bytes{{{common}}} 9"),
            format!("forebay_view_messages_total{{{common},kind=\"read\"}} 2"),
            format!("forebay_oldest_request_seconds{{{common},by=\"view\"}} 0.25"),
            format!(
                "forebay_program_request_seconds_bucket{{{common},mount=\"view\",kind=\"read\",le=\"0.000016384\"}} 2"
            ),
            format!("forebay_program_request_seconds_bucket{{{common},mount=\"view\",kind=\"read\",le=\"+Inf\"}} 3"),
            format!("forebay_program_request_seconds_sum{{{common},mount=\"view\",kind=\"read\"}} 0.0015"),
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\nin\n{text}");
        }
        assert!(!text.contains("uncopied") && !text.contains("EOF"), "{text}");
    }

    #[test]
    fn metrics_of_several_nodes_stand_together() {
        let silent = json!({"rank": 2, "host": "n2", "state": "unreachable", "why": "it is silent"});
        let text = encode(&[node(), node(), silent], &labels(), Format::OpenMetrics);
        assert!(text.ends_with("\n# EOF\n"));
        assert!(
            text.contains("# TYPE forebay_backing_requests counter\n") && text.contains("node=\"2\",host=\"n2\"} 0\n")
        );
        let heads: Vec<_> = text.lines().filter(|line| line.starts_with("# TYPE")).collect();
        assert_eq!(heads.iter().collect::<BTreeSet<_>>().len(), heads.len(), "each metric once");
        // Samples of a metric follow its head.
        let mut name = "";
        for line in text.lines().filter(|line| !line.starts_with("# HELP") && !line.starts_with("# EOF")) {
            match line.strip_prefix("# TYPE ") {
                Some(head) => name = head.split(' ').next().unwrap(),
                None => assert!(line.starts_with(name), "{line} below {name}"),
            }
        }
    }
}
