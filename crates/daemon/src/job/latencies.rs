//! How long a node's requests take, in `status --json`: by where they go, and by kind.

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::time::Instant;

use forebay_latency::{Latency, Oldest, Register, SLOWEST_MAX, SlowRequest, Subject};
use forebay_read::InodeId;
use serde::{Deserialize, Serialize};

use crate::read::ReadParts;
use crate::shared::node::Node;
use crate::write::WriteParts;

/// Requests of programs on the view.
pub const VIEW: &str = "view";

/// Requests of programs on the burst mount.
pub const BURST: &str = "burst";

/// A node's, or a job's.
#[derive(Serialize, Deserialize, Default)]
#[serde(default)]
pub struct RequestStatus {
    /// By where requests go (`view`, `burst`, `peers`, `backing`, `log`) and by their kind.
    pub latency: BTreeMap<String, BTreeMap<String, Latency>>,
    /// Requests of programs that have no answer yet.
    pub in_flight: u64,
    /// For how long the oldest of them waits; `null` where none does. Requests for locks that others hold do not count.
    pub oldest_ms: Option<u64>,
    /// The same by where they go.
    pub waiting: BTreeMap<String, WaitingStatus>,
    /// The slowest of the last 10 to 20 minutes, the slowest first.
    pub slowest: Vec<SlowStatus>,
}

/// Requests that have no answer yet.
#[derive(Serialize, Deserialize, Default)]
#[serde(default)]
pub struct WaitingStatus {
    pub in_flight: u64,
    pub oldest_ms: Option<u64>,
    /// The kind of the oldest.
    pub kind: Option<String>,
    /// Its file, where that is known.
    pub path: Option<String>,
}

/// A slow request.
#[derive(Clone, Serialize, Deserialize, Default)]
#[serde(default)]
pub struct SlowStatus {
    pub rank: u32,
    /// Where it went, as in `latency`.
    pub by: String,
    pub kind: String,
    /// `null` where it is not known any more; `inode` tells the files apart.
    pub path: Option<String>,
    /// By which programs of its node know the file; 0 for requests that are not theirs.
    pub inode: u64,
    pub took_us: u64,
    /// When it was over, milliseconds since 1970.
    pub ended_unix_ms: u64,
}

impl RequestStatus {
    pub fn of(node: &Node, read: &ReadParts, write: Option<&WriteParts>) -> Self {
        let mut status = Self::default();
        if let Some(session) = read.view.session() {
            status.add(VIEW, session.latencies(), &|inode| view_path(read, inode), node);
        }
        if let Some(endpoint) = node.endpoint() {
            status.add("peers", endpoint.latencies(), &|_| None, node);
        }
        status.add("backing", &read.backing.latencies, &|_| None, node);
        if let Some(write) = write {
            if let Some(latencies) = write.program_latencies() {
                status.add(BURST, latencies, &|inode| write.path_by_inode(inode), node);
            }
            status.add("backing", write.backing_latencies(), &|_| None, node);
            status.add("log", write.log_latencies(), &|_| None, node);
        }
        let programs = || [VIEW, BURST].into_iter().filter_map(|by| status.waiting.get(by));
        status.in_flight = programs().map(|waiting| waiting.in_flight).sum();
        status.oldest_ms = programs().filter_map(|waiting| waiting.oldest_ms).max();
        status
    }

    /// The requests of one register.
    fn add(&mut self, by: &str, register: &Register, path_of: &dyn Fn(u64) -> Option<String>, node: &Node) {
        self.latency.entry(by.to_owned()).or_default().extend(register.latencies());
        let (in_flight, oldest) = register.in_flight();
        *self.waiting.entry(by.to_owned()).or_default() += &WaitingStatus::of(in_flight, oldest, path_of);
        let slow = register.slowest().into_iter().filter_map(|slow| SlowStatus::of(by, slow, path_of, node));
        self.slowest.extend(slow);
        self.keep_slowest();
    }

    /// Names files of the burst tier, of which only the leader of the tree knows the paths.
    pub fn name_burst_files(&mut self, write: &WriteParts) {
        for slow in self.slowest.iter_mut().filter(|slow| slow.by == BURST && slow.path.is_none()) {
            slow.path = write.path_by_inode(slow.inode);
        }
    }

    fn keep_slowest(&mut self) {
        self.slowest.sort_by_key(|slow| std::cmp::Reverse(slow.took_us));
        self.slowest.truncate(SLOWEST_MAX);
    }
}

impl AddAssign<&Self> for RequestStatus {
    fn add_assign(&mut self, other: &Self) {
        for (by, kinds) in &other.latency {
            let sums = self.latency.entry(by.clone()).or_default();
            for (kind, latency) in kinds {
                *sums.entry(kind.clone()).or_default() += latency;
            }
        }
        for (by, waiting) in &other.waiting {
            *self.waiting.entry(by.clone()).or_default() += waiting;
        }
        self.in_flight += other.in_flight;
        self.oldest_ms = self.oldest_ms.max(other.oldest_ms);
        self.slowest.extend(other.slowest.iter().cloned());
        self.keep_slowest();
    }
}

impl WaitingStatus {
    fn of(in_flight: usize, oldest: Option<Oldest>, path_of: &dyn Fn(u64) -> Option<String>) -> Self {
        Self {
            in_flight: in_flight as u64,
            oldest_ms: oldest.map(|oldest| oldest.age.as_millis() as u64),
            kind: oldest.map(|oldest| oldest.kind.to_owned()),
            path: oldest.and_then(|oldest| path_of(oldest.node)),
        }
    }
}

impl AddAssign<&Self> for WaitingStatus {
    fn add_assign(&mut self, other: &Self) {
        self.in_flight += other.in_flight;
        if other.oldest_ms > self.oldest_ms {
            self.oldest_ms = other.oldest_ms;
            self.kind.clone_from(&other.kind);
            self.path.clone_from(&other.path);
        }
    }
}

impl SlowStatus {
    /// `None` for a request whose file is not known.
    fn of(by: &str, slow: SlowRequest, path_of: &dyn Fn(u64) -> Option<String>, node: &Node) -> Option<Self> {
        let (inode, path) = match slow.subject {
            Subject::Node(0) => return None,
            Subject::Node(inode) => (inode, path_of(inode)),
            Subject::Path(path) => (0, Some(path)),
        };
        let ago = Instant::now().saturating_duration_since(slow.ended);
        Some(Self {
            rank: node.rank().0,
            by: by.to_owned(),
            kind: slow.kind.to_owned(),
            path,
            inode,
            took_us: slow.took.as_micros() as u64,
            ended_unix_ms: node.environment.unix_time().saturating_sub(ago).as_millis() as u64,
        })
    }
}

/// The path of a file in the view, as long as the kernel knows the file.
fn view_path(read: &ReadParts, inode: u64) -> Option<String> {
    read.core.lock().path_of(InodeId(inode)).map(|path| path.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting_for(ms: u64) -> RequestStatus {
        let latency = Latency::new(vec![(3, 2), (40, 1)], 10_000, 6_000);
        let waiting = WaitingStatus { in_flight: 1, oldest_ms: Some(ms), ..WaitingStatus::default() };
        RequestStatus {
            latency: [(VIEW.to_owned(), [("read".to_owned(), latency)].into())].into(),
            in_flight: 1,
            oldest_ms: Some(ms),
            waiting: [(VIEW.to_owned(), waiting)].into(),
            slowest: (0..8).map(|index| SlowStatus { took_us: ms + index, ..SlowStatus::default() }).collect(),
        }
    }

    #[test]
    fn a_jobs_latencies_are_those_of_all_its_requests() {
        let mut sum = RequestStatus::default();
        sum += &waiting_for(100);
        sum += &waiting_for(200);
        let read = &sum.latency[VIEW]["read"];
        assert_eq!((read.count, &read.buckets[..]), (6, &[(3, 4), (40, 2)][..]));
        assert_eq!((sum.in_flight, sum.oldest_ms, sum.waiting[VIEW].oldest_ms), (2, Some(200), Some(200)));
        assert_eq!(sum.slowest.iter().map(|slow| slow.took_us).collect::<Vec<_>>()[..3], [207, 206, 205]);
        assert_eq!(sum.slowest.len(), SLOWEST_MAX);
    }
}
