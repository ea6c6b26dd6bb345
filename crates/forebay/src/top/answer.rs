//! An answer of `status`, as `top` needs it. The thread that asks makes it, so that the one that draws only draws.

use serde_json::Value;

use super::rates::Sample;
use crate::health::Overview;

/// Slow requests that are kept; the daemons send ten.
const SLOW_MAX: usize = 32;

/// Files to land that are kept; the leader names 16.
const FILES_MAX: usize = 32;

/// An answer.
#[derive(Clone, PartialEq, Debug)]
pub struct Answer {
    pub overview: Overview,
    pub(super) sample: Sample,
    /// The slowest first.
    pub(super) slow: Vec<Slow>,
    /// Requests of programs that have no answer yet, and for how long the oldest waits.
    pub(super) waiting: u64,
    pub(super) oldest_ms: u64,
    /// Of reads from the backing file system since the daemons began: 99 of a hundred are faster.
    pub(super) p99_us: Option<u64>,
    /// Width of the longest name of a host.
    pub(super) host_width: usize,
    /// The largest files that have not landed, with the bytes that have not, the most first.
    pub(super) files: Vec<(String, u64)>,
    /// Indices of nodes with bytes that have not landed, the most first.
    pub(super) to_land: Vec<usize>,
}

/// A slow request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Slow {
    pub rank: u64,
    pub by: String,
    pub kind: String,
    /// The path, or the inode where the path is not known.
    pub file: String,
    pub took_us: u64,
    pub ended_unix_ms: u64,
}

impl Answer {
    /// The answer with its overview.
    pub fn of(status: &Value, overview: Overview) -> Self {
        let number = |pointer: &str| status.pointer(pointer).and_then(Value::as_u64);
        let slow = status.pointer("/totals/slowest").and_then(Value::as_array);
        let has_to_land = |index: &usize| overview.nodes[*index].to_land_bytes.is_some_and(|bytes| bytes > 0);
        let mut to_land: Vec<usize> = (0..overview.nodes.len()).filter(has_to_land).collect();
        to_land.sort_by_key(|index| std::cmp::Reverse(overview.nodes[*index].to_land_bytes));
        let nodes = status["nodes"].as_array().into_iter().flatten();
        let files = nodes.filter_map(|node| node.pointer("/burst/largest_left")?.as_array()).flatten();
        let file = |file: &Value| Some((file["path"].as_str()?.to_owned(), file["bytes"].as_u64()?));
        Self {
            sample: Sample::of(status),
            files: files.filter_map(file).take(FILES_MAX).collect(),
            slow: slow.into_iter().flatten().take(SLOW_MAX).map(Slow::of).collect(),
            waiting: number("/totals/in_flight").unwrap_or(0),
            oldest_ms: number("/totals/oldest_ms").unwrap_or(0),
            p99_us: number("/totals/latency/backing/read/p99_us").filter(|time| *time > 0),
            host_width: overview.nodes.iter().map(|node| node.host.chars().count()).max().unwrap_or(0),
            to_land,
            overview,
        }
    }
}

impl Slow {
    fn of(slow: &Value) -> Self {
        let text = |key: &str| slow[key].as_str().map(str::to_owned);
        let number = |key: &str| slow[key].as_u64().unwrap_or(0);
        let file = || match number("inode") {
            0 => "-".to_owned(),
            inode => format!("inode {inode}"),
        };
        Self {
            rank: number("rank"),
            by: text("by").unwrap_or_default(),
            kind: text("kind").unwrap_or_default(),
            file: text("path").unwrap_or_else(file),
            took_us: number("took_us"),
            ended_unix_ms: number("ended_unix_ms"),
        }
    }
}
