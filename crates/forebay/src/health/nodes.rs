//! A node of a job.

use std::time::Duration;

use forebay_keeper::device::IN_NAMESPACE;
use serde_json::Value;

use super::amounts::{span, time_of_day};
use super::fields::{number, text};

/// How long after a restart a node stands among those with trouble.
const RECENT: Duration = Duration::from_secs(600);

/// A node.
#[derive(Clone, PartialEq, Debug)]
pub struct Node {
    /// Its rank.
    pub rank: u64,
    /// Its host.
    pub host: String,
    /// `ready`, `unreachable`, or `missing` where the job came up without it.
    pub state: String,
    /// Why it does not answer.
    pub why: Option<String>,
    /// Whether it reads the backing file system for others.
    pub is_root: bool,
    /// Memory of its daemon, and bytes that it may use for its caches.
    pub memory_bytes: u64,
    pub budget_bytes: u64,
    /// How long its daemon has served.
    pub up_for: Duration,
    /// Bytes that it has read from the backing file system.
    pub read_bytes: u64,
    /// Bytes of its programs that have not landed; `None` without a burst tier.
    pub to_land_bytes: Option<u64>,
    /// How many of its daemons have died, and how the last one did.
    pub restarts: u64,
    pub last_death: Option<Death>,
    /// Nodes that it does not ask any more.
    pub bypassed: usize,
    /// Nodes that it finds far slower than others, and asks for no chunks.
    pub slow: Vec<u64>,
    /// Whether its view is in a user namespace, where programs of `forebay run` alone see it.
    pub is_for_run_alone: bool,
}

/// The death of a daemon.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Death {
    /// When, milliseconds since 1970.
    pub at_unix_ms: u64,
    /// `killed by SIGKILL`, `ended with status 101`.
    pub how: String,
    /// The same in a word: `SIGKILL`.
    pub word: String,
    /// Whether a lack of memory may be the reason.
    pub may_be_memory: bool,
    /// How long programs waited for the next daemon.
    pub back_after: Option<Duration>,
}

impl Node {
    pub(super) fn of(node: &Value, roots: &[u64]) -> Self {
        let rank = number(node, "/rank");
        let why = text(node, "/why").or_else(|| text(node, "/error"));
        let own = format!("node {rank} ");
        Self {
            rank,
            host: text(node, "/host").unwrap_or_default(),
            state: text(node, "/state").unwrap_or_default(),
            why: why.map(|why| why.strip_prefix(&own).unwrap_or(&why).to_owned()),
            is_root: roots.contains(&rank),
            memory_bytes: number(node, "/memory_bytes"),
            budget_bytes: number(node, "/budget_bytes"),
            up_for: Duration::from_millis(number(node, "/uptime_ms")),
            read_bytes: number(node, "/backing/bytes"),
            to_land_bytes: node
                .get("burst")
                .map(|_| number(node, "/burst/dirty_bytes") + number(node, "/burst/committed_bytes")),
            restarts: number(node, "/restarts"),
            last_death: node.get("last_death").and_then(Death::of),
            bypassed: node["bypassed"].as_array().map_or(0, Vec::len),
            slow: node["slow"].as_array().into_iter().flatten().filter_map(Value::as_u64).collect(),
            is_for_run_alone: node["view_made_by"] == IN_NAMESPACE,
        }
    }

    /// Whether it answers.
    pub fn is_ready(&self) -> bool {
        self.state == "ready"
    }

    /// Whether the job came up with it, and it does not answer.
    pub fn is_silent(&self) -> bool {
        !self.is_ready() && self.state != "missing"
    }

    /// The order of nodes: the smallest is the worst.
    pub(super) fn concern(&self) -> u8 {
        match () {
            () if self.is_silent() => 0,
            () if !self.is_ready() => 1,
            () if self.restarts > 0 => 2,
            () if self.bypassed > 0 => 3,
            () => 4,
        }
    }

    /// A few words on it for a table.
    pub fn note(&self) -> String {
        if !self.is_ready() {
            return if self.is_silent() { "no answer".to_owned() } else { "failed to start".to_owned() };
        }
        let mut notes = vec![];
        if self.restarts > 0 {
            let times = if self.restarts == 1 { String::new() } else { format!(" {} times", self.restarts) };
            let death = self.last_death.as_ref();
            let last = death.map_or_else(String::new, |death| {
                format!(", {} {}", death.word, time_of_day(death.at_unix_ms).trim_end_matches(" UTC"))
            });
            notes.push(format!("daemon restarted{times}{last}"));
        }
        if self.bypassed > 0 {
            let plural = if self.bypassed == 1 { "" } else { "s" };
            notes.push(format!("bypasses {} node{plural}", self.bypassed));
        }
        if self.is_root && notes.is_empty() {
            notes.push("root".to_owned());
        }
        notes.join("; ")
    }

    /// Its story in a sentence; `log` is the path of its log on its host.
    pub fn story(&self, log: &str) -> Option<String> {
        let rank = self.rank;
        if let Some(why) = self.why.as_ref().filter(|_| !self.is_ready()) {
            return Some(format!("node {rank}: {why}"));
        }
        if self.restarts == 0 {
            return None;
        }
        let times = if self.restarts == 1 { "once".to_owned() } else { format!("{} times", self.restarts) };
        let Some(death) = &self.last_death else {
            return Some(format!("node {rank}: its daemon died and was started again {times}; log: {log}"));
        };
        let last = if self.restarts == 1 { String::new() } else { format!("restarted {times}, last ") };
        let memory = if death.may_be_memory { " (out of memory?)" } else { "" };
        let back = death.back_after.map_or_else(
            || "not back yet".to_owned(),
            |time| match time.as_millis() {
                ms @ 0..1000 => format!("back after {ms} ms"),
                _ => format!("back after {}", span(time)),
            },
        );
        let at = time_of_day(death.at_unix_ms);
        Some(format!("node {rank}: {last}{} at {at}{memory}, {back}; log: {log}", death.how))
    }

    /// Whether its daemon has died more than once, the last time just now.
    pub(super) fn restarts_repeatedly(&self) -> bool {
        self.restarts >= 3 && self.up_for < RECENT / 10
    }
}

impl Death {
    fn of(death: &Value) -> Option<Self> {
        let at_unix_ms = death["at_unix_ms"].as_u64()?;
        let signal = death["signal"].as_i64();
        let was_silent = death["was_silent"] == true;
        let (how, word) = match (signal, death["exit_status"].as_i64()) {
            _ if was_silent => ("killed by its keeper, since it said nothing".to_owned(), "silent".to_owned()),
            (Some(signal), _) => (format!("killed by {}", signal_name(signal)), signal_name(signal)),
            (None, Some(101)) => ("ended by a panic".to_owned(), "panic".to_owned()),
            (None, Some(status)) => (format!("ended with status {status}"), format!("status {status}")),
            (None, None) => ("died".to_owned(), "died".to_owned()),
        };
        let back_after = death["back_after_ms"].as_u64().map(Duration::from_millis);
        let may_be_memory = signal == Some(9) && !was_silent;
        Some(Self { at_unix_ms, how, word, may_be_memory, back_after })
    }
}

fn signal_name(number: i64) -> String {
    let name = match number {
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        15 => "SIGTERM",
        24 => "SIGXCPU",
        31 => "SIGSYS",
        _ => return format!("signal {number}"),
    };
    name.to_owned()
}
