//! The numbers of a node and of the job, in the form of `status --json`. Fields are added, never renamed: what reads them
//! is not ours.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use forebay_cache::{KindCounters, ObjectKind};
use forebay_keeper::Death;
use forebay_types::Errno;
use serde::{Deserialize, Serialize};

use super::latencies::RequestStatus;
use super::summed::Summed;
use crate::read::ReadParts;
use crate::shared::node::{MetricsPlaces, Node};
use crate::write::{BurstStatus, WriteParts};

/// The whole job.
#[derive(Serialize, Default)]
pub struct Status {
    pub job: JobStatus,
    pub totals: Totals,
    pub nodes: Vec<NodeStatus>,
}

/// The job, as a node knows it.
#[derive(Serialize, Deserialize, Default)]
pub struct JobStatus {
    name: String,
    nodes: usize,
    fan_out: u32,
    stripe_fan_out: u32,
    roots: Vec<u32>,
    /// How many nodes are home of a share of the large files; 0 where the roots read these, too.
    #[serde(default)]
    homes: usize,
    exports: Vec<String>,
    security: String,
}

/// A node of the job.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
pub enum NodeStatus {
    Ready(Box<ReadyNode>),
    Unreachable(UnreachableNode),
}

/// A node that does not answer.
#[derive(Serialize, Deserialize)]
pub struct UnreachableNode {
    pub rank: u32,
    pub host: String,
    /// `missing` where the job came up without it, else `unreachable`.
    pub state: String,
    pub why: String,
}

/// A node that answers. Fields that a daemon of another build does not send in a section are empty.
#[derive(Serialize, Deserialize, Default)]
pub struct ReadyNode {
    rank: u32,
    host: String,
    pid: u32,
    keeper_pid: u32,
    restarts: u32,
    replaced: u32,
    /// The last death of a daemon of this node, `null` where none died.
    #[serde(default)]
    last_death: Option<Death>,
    state: String,
    view: String,
    /// How that was made: `mount(2)`, `fusermount3`, `fusermount`, or `mount(2) in a user namespace`.
    #[serde(default)]
    view_made_by: Option<String>,
    uptime_ms: u64,
    /// Whom this node asks in any tree, that of the first tree first; each once.
    parents: Vec<u32>,
    bypassed: Vec<u32>,
    /// Nodes that take far longer than others for chunks, and in whose place this node asks others.
    #[serde(default)]
    slow: Vec<u32>,
    memory_bytes: u64,
    /// Of the daemon.
    #[serde(default)]
    threads: u64,
    budget_bytes: u64,
    allowed_bytes: u64,
    /// Bytes of these that are held beside the caches.
    aside_bytes: u64,
    cache: CacheStatus,
    kernel: KernelStatus,
    overlay: OverlayStatus,
    backing: BackingStatus,
    prefill: PrefillStatus,
    #[serde(flatten)]
    requests: RequestStatus,
    /// Where its metrics are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metrics: Option<MetricsPlaces>,
    /// Its part of the burst tier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    burst: Option<BurstStatus>,
    /// Its cache store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cache_store: Option<CacheStoreStatus>,
    /// Of this node and those below it, on its way up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    summed: Option<Summed>,
}

/// Sums over the nodes, by the same names.
#[derive(Serialize, Default)]
pub struct Totals {
    cache: CacheStatus,
    kernel: KernelStatus,
    overlay: OverlayStatus,
    backing: BackingStatus,
    prefill: PrefillStatus,
    #[serde(flatten)]
    requests: RequestStatus,
    memory_bytes: u64,
    /// Of the nodes that have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_store: Option<CacheStoreStatus>,
    #[serde(flatten)]
    summed: Summed,
}

/// The kernel's requests.
#[derive(Serialize, Deserialize, Default)]
#[serde(default)]
struct KernelStatus {
    messages: BTreeMap<String, u64>,
    bytes_read: u64,
}

/// Numbers that are summed by name; other fields of a total stay empty.
macro_rules! summed {
    ($(#[doc = $doc:literal])+ $name:ident { $($sum:ident: $kind:ty),+ $(,)? } $(other { $($other:ident: $other_kind:ty),+ })?) => {
        $(#[doc = $doc])+
        #[derive(Serialize, Deserialize, Default)]
        #[serde(default)]
        struct $name {
            $($sum: $kind,)+
            $($($other: $other_kind,)+)?
        }

        impl AddAssign<&Self> for $name {
            fn add_assign(&mut self, other: &Self) {
                $(add(&mut self.$sum, &other.$sum);)+
            }
        }
    };
}

fn add<T: for<'a> AddAssign<&'a T>>(to: &mut T, from: &T) {
    *to += from;
}

summed! {
    /// Cached entries of one kind.
    KindStatus { entries: u64, bytes: u64, hits: u64, misses: u64, evicted: u64 }
}

summed! {
    /// Cached entries.
    CacheStatus {
        attributes: KindStatus, listings: KindStatus, chunks: KindStatus, negative_hits: u64, bytes: u64, inodes: u64,
    }
}

summed! {
    /// Messages between nodes.
    OverlayStatus {
        requests_sent: u64, requests_served: u64, coalesced: u64, bytes_sent: u64, bytes_received: u64,
        connections: u64, refused: u64, corrupt_frames: u64, checksum_failures: u64, timed_out: u64,
        failovers: u64, reparented: u64, hedged: u64, prefetch_issued: u64, prefetch_used: u64, asked_early: u64,
        early_used: u64, promoted: u64, refreshes_missed: u64,
    }
}

summed! {
    /// Requests to the backing file system.
    BackingStatus {
        listings: u64, stats: u64, opens: u64, reads: u64, bytes: u64, errors: u64, errors_by_kind: ByKind, absent_names: u64,
    }
}

/// Numbers by their kinds, as `EACCES`.
#[derive(Serialize, Deserialize, Default)]
#[serde(transparent)]
struct ByKind(BTreeMap<String, u64>);

impl AddAssign<&Self> for ByKind {
    fn add_assign(&mut self, other: &Self) {
        for (kind, count) in &other.0 {
            *self.0.entry(kind.clone()).or_default() += count;
        }
    }
}

summed! {
    /// The cache store on the node's own disk. Capacity, room and chunks are those of all jobs that use it.
    CacheStoreStatus {
        capacity_bytes: u64, used_bytes: u64, chunks: u64, hits: u64, misses: u64, damaged: u64, refused: u64,
        hit_bytes: u64, unsettled: u64,
    }
}

summed! {
    /// Prefilled contents.
    PrefillStatus { parcels: u64, failed: u64, chunks: u64, recorded: u64, ahead_bytes: u64 }
    other { state: Option<String>, path: Option<String> }
}

impl From<(forebay_chunk_store::Counters, u64)> for CacheStoreStatus {
    fn from((counters, unsettled): (forebay_chunk_store::Counters, u64)) -> Self {
        let forebay_chunk_store::Counters {
            capacity_bytes,
            used_bytes,
            chunks,
            hits,
            misses,
            damaged,
            refused,
            hit_bytes,
        } = counters;
        Self { capacity_bytes, used_bytes, chunks, hits, misses, damaged, refused, hit_bytes, unsettled }
    }
}

impl AddAssign<&Self> for KernelStatus {
    fn add_assign(&mut self, other: &Self) {
        for (name, count) in &other.messages {
            *self.messages.entry(name.clone()).or_default() += count;
        }
        self.bytes_read += other.bytes_read;
    }
}

impl JobStatus {
    pub fn node_count(&self) -> usize {
        self.nodes
    }

    pub fn of(node: &Node) -> Self {
        let options = &node.options;
        Self {
            name: options.job.clone(),
            nodes: options.nodes.len(),
            fan_out: options.fan_out,
            stripe_fan_out: options.stripe_fan_out,
            roots: node.forest.roots().map(|root| root.0).collect(),
            homes: if node.forest.has_homes() { options.nodes.len() } else { 0 },
            exports: options.exports.iter().map(|export| export.to_string_lossy().into_owned()).collect(),
            security: options.level.word().to_owned(),
        }
    }
}

impl NodeStatus {
    /// This node's.
    pub fn of(node: &Node, read: &ReadParts, write: Option<&WriteParts>) -> Self {
        Self::Ready(Box::new(ReadyNode::of(node, read, write)))
    }

    /// Names files that only the leader of the burst tree knows, where that is this node.
    pub fn name_burst_files(&mut self, write: &WriteParts) {
        if let Self::Ready(node) = self {
            node.requests.name_burst_files(write);
        }
    }

    /// Gives it the figures of which only sums are shown.
    pub fn set_summed(&mut self, summed: Option<Summed>) {
        if let Self::Ready(node) = self {
            node.summed = summed;
        }
    }

    /// Takes them out of all, as one sum.
    pub fn take_summed(nodes: &mut [Self]) -> Option<Summed> {
        let ready = nodes.iter_mut().filter_map(|node| if let Self::Ready(node) = node { Some(node) } else { None });
        ready.filter_map(|node| node.summed.take()).reduce(|mut sum, summed| {
            sum.merge(summed);
            sum
        })
    }

    /// 0 of a node that does not answer.
    pub fn uptime_ms(&self) -> u64 {
        if let Self::Ready(node) = self { node.uptime_ms } else { 0 }
    }

    pub fn rank(&self) -> u32 {
        match self {
            Self::Ready(node) => node.rank,
            Self::Unreachable(node) => node.rank,
        }
    }
}

impl Totals {
    /// The sums over `nodes`, out of which it takes what only sums are shown of.
    pub fn of(nodes: &mut [NodeStatus]) -> Self {
        let summed = NodeStatus::take_summed(nodes).unwrap_or_default();
        let mut totals = Self { summed, ..Self::default() };
        for node in nodes {
            let NodeStatus::Ready(node) = node else { continue };
            totals.cache += &node.cache;
            totals.kernel += &node.kernel;
            totals.overlay += &node.overlay;
            totals.backing += &node.backing;
            totals.prefill += &node.prefill;
            totals.requests += &node.requests;
            totals.memory_bytes += node.memory_bytes;
            if let Some(store) = &node.cache_store {
                *totals.cache_store.get_or_insert_default() += store;
            }
        }
        totals
    }
}

impl ReadyNode {
    fn of(node: &Node, read: &ReadParts, write: Option<&WriteParts>) -> Self {
        let options = &node.options;
        let core = read.core.lock();
        let (allowed_bytes, aside_bytes) = (core.allowed_bytes(), core.aside_bytes());
        let (suspects, slow) = (core.suspects(), core.slow_nodes(node.now()));
        drop(core);
        Self {
            rank: options.rank.0,
            host: node.host(options.rank).to_owned(),
            pid: std::process::id(),
            keeper_pid: options.kept.keeper_pid,
            restarts: options.kept.restarts,
            replaced: options.kept.replaced,
            last_death: node.last_death(),
            state: "ready".to_owned(),
            view: options.view.to_string_lossy().into_owned(),
            view_made_by: node.view_made_by.get().cloned(),
            uptime_ms: node.uptime().as_millis() as u64,
            parents: parents(node),
            bypassed: suspects.iter().map(|rank| rank.0).collect(),
            slow: slow.iter().map(|rank| rank.0).collect(),
            memory_bytes: resident_bytes(),
            threads: own_status("Threads:"),
            budget_bytes: options.budget_bytes,
            allowed_bytes,
            aside_bytes,
            cache: cache(read),
            kernel: kernel(read),
            overlay: overlay(node, read),
            backing: backing(read),
            prefill: prefill(read),
            requests: RequestStatus::of(node, read, write),
            metrics: node.metrics_places.get().cloned(),
            burst: write.map(WriteParts::status),
            cache_store: read.cache.counters().map(CacheStoreStatus::from),
            summed: None,
        }
    }
}

fn parents(node: &Node) -> Vec<u32> {
    let mut parents = Vec::new();
    // Of large files each node is a home, which all others ask.
    for parent in node.forest.trees_of_roots().filter_map(|tree| tree.parent(node.rank())) {
        if !parents.contains(&parent.0) {
            parents.push(parent.0);
        }
    }
    parents
}

fn cache(read: &ReadParts) -> CacheStatus {
    let core = read.core.lock();
    let kind = |kind: ObjectKind| {
        let KindCounters { entries, bytes, hits, misses, evicted } = core.kept(kind);
        KindStatus { entries, bytes, hits, misses, evicted }
    };
    CacheStatus {
        attributes: kind(ObjectKind::Attributes),
        listings: kind(ObjectKind::Listings),
        chunks: kind(ObjectKind::Chunks),
        negative_hits: core.counters().negative_hits,
        bytes: core.kept_bytes(),
        inodes: core.inode_count() as u64,
    }
}

fn kernel(read: &ReadParts) -> KernelStatus {
    let Some(session) = read.view.session() else { return KernelStatus::default() };
    let counts = session.message_counts();
    let messages = counts.iter().map(|(name, count)| (name.to_owned(), count)).collect();
    KernelStatus { messages, bytes_read: counts.bytes_read() }
}

fn overlay(node: &Node, read: &ReadParts) -> OverlayStatus {
    let sent = node.endpoint().map(forebay_transport::Endpoint::counters).unwrap_or_default();
    let core = read.core.lock().counters();
    OverlayStatus {
        requests_sent: sent.requests_sent,
        requests_served: sent.requests_served,
        coalesced: core.dispatch.coalesced,
        bytes_sent: sent.bytes_sent,
        bytes_received: sent.bytes_received,
        connections: sent.connections,
        refused: sent.refused,
        corrupt_frames: sent.corrupt_frames,
        checksum_failures: sent.checksum_failures,
        timed_out: core.dispatch.timed_out,
        failovers: core.dispatch.failovers,
        // As scripts of before know it.
        reparented: core.dispatch.failovers,
        hedged: core.dispatch.hedged,
        prefetch_issued: core.prefetch_issued,
        prefetch_used: core.prefetch_used,
        asked_early: core.prefetch_issued,
        early_used: core.prefetch_used,
        promoted: core.dispatch.promoted,
        refreshes_missed: core.refreshes_missed,
    }
}

fn backing(read: &ReadParts) -> BackingStatus {
    let forebay_store::Counters { listings, stats, opens, reads, bytes, errors, absent_names, .. } =
        read.backing.counters();
    let kind = |errno: Errno| errno.symbol().map_or_else(|| format!("errno {}", errno.number()), str::to_owned);
    let by_kind = read.backing.errors_by_kind().into_iter().map(|(errno, count)| (kind(errno), count));
    let errors_by_kind = ByKind(by_kind.collect());
    BackingStatus { listings, stats, opens, reads, bytes, errors, errors_by_kind, absent_names }
}

fn prefill(read: &ReadParts) -> PrefillStatus {
    let core = read.core.lock();
    let counters = core.counters();
    let state = match core.is_prefilling() {
        true => "filling",
        false if counters.parcels > 0 => "filled",
        false => "none",
    };
    PrefillStatus {
        parcels: counters.parcels,
        failed: counters.parcels_failed,
        chunks: counters.prefilled,
        recorded: core.recorded_count() as u64,
        ahead_bytes: read.prefill.ahead_bytes(),
        state: Some(state.to_owned()),
        path: read.prefill.path(),
    }
}

/// Memory of this process that is in RAM, bytes (`VmRSS` of proc(5)); 0 where it cannot be read.
fn resident_bytes() -> u64 {
    own_status("VmRSS:") * 1024
}

/// A number that proc(5) has of this process; 0 where it cannot be read.
fn own_status(field: &str) -> u64 {
    let status = std::fs::read("/proc/self/status").unwrap_or_default();
    // The program's name, which is in it, need not be text.
    let status = String::from_utf8_lossy(&status);
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let number = line.and_then(|rest| rest.split_whitespace().next()).and_then(|number| number.parse::<u64>().ok());
    number.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::{Value, json};

    use super::*;

    /// Fields that programs may rely on. A field is added here with the field, and never taken away.
    const FIELDS: &str = "\
        job: exports fan_out homes name nodes roots security stripe_fan_out
        node: allowed_bytes aside_bytes backing budget_bytes bypassed cache host in_flight keeper_pid kernel last_death latency memory_bytes \
              oldest_ms overlay parents pid prefill rank replaced restarts slow slowest state threads uptime_ms view view_made_by waiting
        unreachable: host rank state why
        totals: absent_in backing cache history in_flight kernel latency memory_bytes most_read oldest_ms overlay prefill slowest \
              waiting
        cache: attributes bytes chunks inodes listings negative_hits
        kind: bytes entries evicted hits misses
        kernel: bytes_read messages
        overlay: asked_early bytes_received bytes_sent checksum_failures coalesced connections corrupt_frames \
              early_used failovers hedged prefetch_issued prefetch_used promoted refreshes_missed refused reparented \
              requests_sent requests_served timed_out
        backing: absent_names bytes errors errors_by_kind listings opens reads stats
        prefill: ahead_bytes chunks failed parcels path recorded state";

    fn fields(value: &impl Serialize) -> BTreeSet<String> {
        let value = serde_json::to_value(value).unwrap();
        value.as_object().unwrap().keys().cloned().collect()
    }

    #[test]
    fn memory_is_read_whatever_the_program_is_called() {
        std::fs::write("/proc/self/comm", b"w\xff").unwrap();
        assert!(resident_bytes() > 0);
    }

    #[test]
    fn fields_are_those_that_programs_rely_on() {
        let unreachable = UnreachableNode { rank: 1, host: String::new(), state: String::new(), why: String::new() };
        let found = [
            ("job", fields(&JobStatus::default())),
            ("node", fields(&ReadyNode::default())),
            ("unreachable", fields(&unreachable)),
            ("totals", fields(&Totals::default())),
            ("cache", fields(&CacheStatus::default())),
            ("kind", fields(&KindStatus::default())),
            ("kernel", fields(&KernelStatus::default())),
            ("overlay", fields(&OverlayStatus::default())),
            ("backing", fields(&BackingStatus::default())),
            ("prefill", fields(&PrefillStatus::default())),
        ];
        for (line, (name, found)) in FIELDS.lines().zip(found) {
            let (named, expected) = line.trim().split_once(": ").unwrap();
            assert_eq!(named, name);
            assert_eq!(found, expected.split_whitespace().map(str::to_owned).collect(), "{name}");
        }
        assert_eq!(fields(&Status::default()), ["job", "nodes", "totals"].map(str::to_owned).into());
    }

    #[test]
    fn totals_are_sums_by_name() {
        let node = || {
            let mut node = ReadyNode { memory_bytes: 5, ..ReadyNode::default() };
            node.backing.reads = 2;
            node.cache.chunks.hits = 1;
            node.kernel.messages.insert("read".to_owned(), 3);
            node.prefill.state = Some("filled".to_owned());
            let history = json!({"slot_ms": 250, "from_unix_ms": 0, "slots": [vec![1; 8]]});
            node.summed = serde_json::from_value(json!({"history": history})).ok();
            NodeStatus::Ready(Box::new(node))
        };
        let silent: NodeStatus =
            serde_json::from_value(json!({"rank": 2, "host": "a", "state": "unreachable", "why": "b"})).unwrap();
        assert!(matches!(silent, NodeStatus::Unreachable(_)));
        let travelled = |node: NodeStatus| serde_json::from_str(&serde_json::to_string(&node).unwrap()).unwrap();
        let totals = serde_json::to_value(Totals::of(&mut [travelled(node()), travelled(node()), silent])).unwrap();
        assert_eq!(totals["backing"]["reads"], 4);
        assert_eq!(totals["cache"]["chunks"]["hits"], 2);
        assert_eq!(totals["kernel"]["messages"]["read"], 6);
        assert_eq!(totals["memory_bytes"], 10);
        assert_eq!(totals["prefill"]["state"], Value::Null);
        assert_eq!(totals["history"]["slots"], json!([[2, 2, 2, 2, 2, 2, 2, 2]]));
    }
}
