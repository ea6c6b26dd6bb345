//! The burst tier of a job.

use std::time::Duration;

use serde_json::Value;

use super::fields::{number, text};

/// The write path.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Writes {
    /// The directory that programs see, and where it lands.
    pub dir: String,
    pub backing: String,
    /// `--drain`.
    pub drain: String,
    /// Whether the node that leads the tree has answered: where not, only the stores' contents are known.
    pub has_leader: bool,
    /// Bytes that are committed and have not landed, and the files that have them: a file counts until it has landed whole. `drain` and
    /// `landed` mean the same.
    pub left_bytes: u64,
    pub left_files: u64,
    /// Bytes that programs have written and not committed: nothing lands of them until `close`, `fsync` or much more.
    pub uncommitted_bytes: u64,
    /// Changes that the backing file system has not followed.
    pub steps: u64,
    /// Bytes that have landed since the leader's daemon began.
    pub landed_bytes: u64,
    /// Whether something is being sent.
    pub is_sending: bool,
    /// How fast it lands; `None` where too little has landed to know.
    pub bytes_per_s: Option<u64>,
    /// How long the rest takes; `None` where that is not known.
    pub time_left: Option<Duration>,
    /// Whether the rest lands before the job's time is over; `None` without a time limit.
    pub is_in_time: Option<bool>,
    /// How long the job has.
    pub ends_in: Option<Duration>,
    /// The obstacle that keeps anything from landing.
    pub why: Option<String>,
    /// Bytes that only silent nodes have.
    pub lost_bytes: u64,
    /// Bytes in the stores, copies included, and the bytes that they can hold.
    pub store_bytes: u64,
    pub capacity_bytes: u64,
    /// Nodes on which programs wait for room, and nodes on which a write was refused for want of it just now.
    pub waiting_nodes: Vec<u64>,
    pub refusing_nodes: Vec<u64>,
    /// Nodes on which an `fsync` failed just now because their partner had no room.
    pub uncopied_nodes: Vec<u64>,
    /// Copies at partners.
    pub copies: Copies,
    /// How long programs' changes are still refused, since a `down` has begun.
    pub refused_for: Option<Duration>,
}

/// The state of the copies that partners have.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Copies {
    /// No node has a partner.
    #[default]
    None,
    /// All partners have everything.
    UpToDate,
    /// So many bytes are still to be copied.
    Behind(u64),
    /// The partners of these nodes do not answer.
    Missing(Vec<u64>),
}

/// How long ago a write was refused that counts as now: a program that was refused often tries again.
const JUST_NOW_MS: u64 = 60_000;

/// The same where there is room again.
const JUST_NOW_WITH_ROOM_MS: u64 = 5_000;

/// A store has room again when so many parts of a hundred of it are free: a program that was refused more than that tries again.
const ROOM_PERCENT: u64 = 10;

impl Writes {
    pub(super) fn of(nodes: &[Value]) -> Option<Self> {
        let with_burst: Vec<&Value> = nodes.iter().filter(|node| node.get("burst").is_some()).collect();
        let first = with_burst.first()?;
        let total = |pointer: &str| with_burst.iter().map(|node| number(node, pointer)).sum::<u64>();
        let ranks = |is_so: &dyn Fn(&Value) -> bool| -> Vec<u64> {
            with_burst.iter().filter(|node| is_so(node)).map(|node| number(node, "/rank")).collect()
        };
        let of_programs = total("/burst/dirty_bytes") + total("/burst/committed_bytes");
        let leader = with_burst.iter().find(|node| node.pointer("/burst/landed_bytes").is_some());
        let of_leader = |pointer: &str| leader.and_then(|node| node.pointer(pointer));
        let count = |pointer: &str| of_leader(pointer).and_then(Value::as_u64);
        let time = |pointer: &str| count(pointer).map(Duration::from_millis);
        Some(Self {
            dir: text(first, "/burst/dir").unwrap_or_default(),
            backing: text(first, "/burst/backing").unwrap_or_default(),
            drain: text(first, "/burst/drain").unwrap_or_default().to_lowercase(),
            has_leader: leader.is_some(),
            left_bytes: count("/burst/left_bytes").unwrap_or(of_programs),
            uncommitted_bytes: total("/burst/dirty_bytes"),
            left_files: count("/burst/left_files").unwrap_or(0),
            steps: count("/burst/steps_to_land").unwrap_or(0),
            landed_bytes: count("/burst/landed_bytes").unwrap_or(0),
            is_sending: count("/burst/draining_bytes").is_some_and(|bytes| bytes > 0),
            bytes_per_s: count("/burst/drain_bytes_per_s").filter(|rate| *rate > 0),
            time_left: time("/burst/time_left_ms"),
            is_in_time: of_leader("/burst/is_in_time").and_then(Value::as_bool),
            ends_in: time("/burst/ends_in_ms"),
            why: leader.and_then(|node| text(node, "/burst/why")),
            lost_bytes: count("/burst/lost_bytes").unwrap_or(0),
            store_bytes: of_programs + total("/burst/copies_bytes"),
            capacity_bytes: total("/burst/capacity_bytes"),
            waiting_nodes: ranks(&|node| number(node, "/burst/waiting_writers") > 0),
            refusing_nodes: ranks(&|node| {
                let ago = node.pointer("/burst/refused_ms_ago").and_then(Value::as_u64);
                let since = if has_room(node) { JUST_NOW_WITH_ROOM_MS } else { JUST_NOW_MS };
                ago.is_some_and(|ago| ago < since)
            }),
            uncopied_nodes: ranks(&|node| {
                let ago = node.pointer("/burst/copies_refused_ms_ago").and_then(Value::as_u64);
                ago.is_some_and(|ago| ago < JUST_NOW_MS) && number(node, "/burst/uncopied_bytes") > 0
            }),
            copies: Copies::of(&with_burst),
            refused_for: with_burst
                .iter()
                .filter_map(|node| node.pointer("/burst/changes_refused_ms")?.as_u64())
                .max()
                .map(Duration::from_millis),
        })
    }

    /// Whether everything has landed, as far as is known.
    pub fn has_landed(&self) -> bool {
        self.steps == 0 && self.left_bytes == 0 && self.uncommitted_bytes == 0
    }

    /// Whether what is closed lands only when `drain` or `down` is run.
    pub fn waits_for_drain(&self) -> bool {
        matches!(self.drain.as_str(), "manual" | "end")
    }

    /// Whether what is closed lands now.
    pub fn lands(&self) -> bool {
        !self.waits_for_drain() || self.is_sending || self.refused_for.is_some()
    }
}

fn has_room(node: &Value) -> bool {
    let free = node.pointer("/burst/free_bytes").and_then(Value::as_u64);
    free.is_some_and(|free| free * 100 > number(node, "/burst/capacity_bytes") * ROOM_PERCENT)
}

impl Copies {
    fn of(nodes: &[&Value]) -> Self {
        let with: Vec<&&Value> = nodes
            .iter()
            .filter(|node| node.pointer("/burst/partner").is_some_and(|partner| !partner.is_null()))
            .collect();
        if with.is_empty() {
            return Self::None;
        }
        let behind = |node: &Value| node.pointer("/burst/uncopied_bytes").and_then(Value::as_u64);
        let missing: Vec<u64> =
            with.iter().filter(|node| behind(node).is_none()).map(|node| number(node, "/rank")).collect();
        if !missing.is_empty() {
            return Self::Missing(missing);
        }
        match with.iter().filter_map(|node| behind(node)).sum() {
            0 => Self::UpToDate,
            bytes => Self::Behind(bytes),
        }
    }
}
