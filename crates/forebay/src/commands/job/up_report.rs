//! Messages of `up`: its progress, its outcome, and which nodes are missing why.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_keeper::device::RUN_ONLY;
use forebay_keeper::own_paths::only_at;
use forebay_launch::{JobDirectory, JobRecord, NodeAddress, Ports, Started};
use forebay_types::NodeRank;
use serde_json::{Value, json};

use crate::output::{quoted_path, say, shown_path, tell};
use crate::profiles;
use crate::settings::Settings;
use crate::settings::values::{StorePlace, show_duration};

/// Hosts that a message names of nodes that have one reason.
const HOSTS_NAMED_MAX: usize = 8;

/// A job that has come up.
pub struct Report<'a> {
    /// Its record.
    pub record: &'a JobRecord,
    /// Its directory.
    pub directory: &'a JobDirectory,
    /// Its settings.
    pub settings: &'a Settings,
    /// Where its nodes listen that name no port of their own.
    pub ports: &'a Ports,
    /// The nodes' reports.
    pub started: &'a Started,
    /// Where its nodes have the burst tier; programs of `forebay run` see it at its own directory.
    pub burst_mounts: Vec<PathBuf>,
    /// The command whose profile it uses, or the file that is its profile.
    pub profile: Option<String>,
    /// Whether more is told.
    pub is_verbose: bool,
    /// How long it took before anything was started.
    pub prepare: Duration,
    /// How long it took in all.
    pub took: Duration,
}

impl Report<'_> {
    /// Prints it.
    pub fn print(&self, as_json: bool) {
        for note in lines(by_rank(&self.started.notes), &self.record.nodes) {
            tell!("forebay: note: {note}");
        }
        self.say_missing();
        if as_json {
            return say!("{}", self.json());
        }
        let Self { record, directory, settings, started, took, .. } = self;
        let job = &record.job;
        let (count, missing) = (record.nodes.len() - started.missing.len(), started.missing.len());
        let of_all = if missing == 0 { String::new() } else { format!(" of {}", record.nodes.len()) };
        let plural = if count == 1 && missing == 0 { "" } else { "s" };
        say!("job {job}: {count}{of_all} node{plural} ready in {} ({})", show_duration(*took), self.phases());
        // A node's note says why.
        let is_hidden = started.notes.iter().any(|(_, note)| note.starts_with(RUN_ONLY));
        let only = if is_hidden { " (under forebay run alone)" } else { "" };
        say!("views:   {}{only}", shown_views(&record.views));
        if let Some(pair) = settings.burst.first() {
            let (mount, dir) = (shown_views(&self.burst_mounts), shown_path(&pair.dir));
            // A node's note says where that is not so.
            let is_shown = !started.notes.iter().any(|(_, note)| *note == only_at(&pair.dir, &pair.backing));
            let shown = if is_shown { dir } else { shown_path(&pair.backing) };
            // The kernel changes no file whose owner or group has no number in the user namespace.
            let own = if is_hidden { "; files of other users and groups cannot be changed in it" } else { "" };
            say!("burst:   {mount} (forebay run shows it at {shown}{own})");
        }
        if let (Some(StorePlace::At(store)), false) = (&settings.burst_store, settings.burst.is_empty()) {
            say!("store:   {}", shown_path(store));
        }
        say!("logs:    {}", shown_path(&directory.logs()));
        if let Some(profile) = &self.profile {
            if !profiles::is_of_a_shell(settings, profile) {
                say!("profile: {profile}");
            }
            if self.is_verbose
                && let Some(recording) = profiles::recording(settings)
            {
                say!("         {recording}");
            }
        }
        let export = settings.export.first();
        let export = export.map_or_else(|| Path::new("/usr/bin"), |export| export.as_path());
        let first = record.views.iter().zip(0..).find(|(_, rank)| !started.missing.contains_key(&NodeRank(*rank)));
        let view = first.map_or(&record.views[0], |(view, _)| view);
        let mut lines = vec![format!("forebay run --job {job} -- ls {}", quoted_path(export))];
        if !is_hidden {
            lines.insert(0, format!("ls {}", quoted_path(&view.join(export.strip_prefix("/").unwrap_or(export)))));
        }
        lines.extend(["status", "down"].map(|command| format!("forebay {command} --job {job}")));
        lines
            .iter()
            .zip(["try:"].into_iter().chain(std::iter::repeat("")))
            .for_each(|(line, name)| say!("{name:<8} {line}"));
    }

    /// The exit status does not tell: whoever asked for it must be able to see it.
    fn say_missing(&self) {
        let (missing, nodes) = (&self.started.missing, &self.record.nodes);
        if !missing.is_empty() {
            let (count, all) = (missing.len(), nodes.len());
            let which = below("", lines(missing, nodes));
            tell!("forebay: the job goes on without {count} of its {all} nodes (--on-missing continue):{which}");
        }
    }

    fn json(&self) -> Value {
        let Self { record, directory, started, .. } = self;
        let ms = |time: Duration| time.as_secs_f64() * 1000.0;
        let notes: Vec<_> = started.notes.iter().map(|(rank, note)| json!({"rank": rank, "note": note})).collect();
        let ranks = (0..).map(NodeRank).zip(&record.nodes).zip(&record.views);
        let is_here = |rank: &NodeRank| !started.missing.contains_key(rank);
        let nodes: Vec<_> = ranks
            .filter(|((rank, _), _)| is_here(rank))
            .map(|((rank, node), view)| {
                let ports = self.ports.of(node);
                // Which of several is the node's own, only the node knows.
                let port = if let [port] = ports { Some(port) } else { None };
                json!({"rank": rank, "host": node.host, "port": port, "ports": ports, "view": view})
            })
            .collect();
        let missing: Vec<_> = started
            .missing
            .iter()
            .map(|(rank, why)| json!({"rank": rank, "host": host(&record.nodes, *rank), "why": why}))
            .collect();
        json!({
            "job": record.job, "took_ms": self.took.as_millis() as u64, "job_directory": directory.path(),
            "nodes": nodes, "missing": missing, "notes": notes, "lines_heard": started.lines_count,
            "profile": self.profile,
            "phases": {"prepare_ms": ms(self.prepare), "launch_ms": ms(started.launch), "gather_ms": ms(started.gather)},
            "slowest": started.slowest,
        })
    }

    /// Where the time went.
    fn phases(&self) -> String {
        let Started { launch, gather, slowest, .. } = self.started;
        let [prepare, launch, gather] = [self.prepare, *launch, *gather].map(show_duration);
        let slowest = slowest.filter(|_| self.record.nodes.len() > 1).map(|slowest| {
            let took = show_duration(Duration::from_millis(slowest.took_ms.into()));
            format!(", the slowest node, {}, {took}", slowest.rank)
        });
        format!("prepare {prepare}, launch {launch}, until all were ready {gather}{}", slowest.unwrap_or_default())
    }
}

fn host(nodes: &[NodeAddress], rank: NodeRank) -> &str {
    nodes.get(rank.0 as usize).map_or("", |node| node.host.as_str())
}

/// `DIR/0 to DIR/15` for many, all for few.
fn shown_views(views: &[PathBuf]) -> String {
    match views {
        [] => String::new(),
        [first, rest @ ..] if rest.iter().all(|view| view == first) => {
            let on = if rest.is_empty() { "" } else { " on every node" };
            format!("{}{on}", shown_path(first))
        }
        [first, .., last] => format!("{} to {}", shown_path(first), shown_path(last)),
        [only] => shown_path(only),
    }
}

/// `node 0-1: reason` for each reason, with the nodes that have it. Reasons that differ by the node's own name alone are one.
pub fn lines<'a>(told: impl IntoIterator<Item = (&'a NodeRank, &'a String)>, nodes: &[NodeAddress]) -> Vec<String> {
    let mut by_cause: Vec<(String, &str, Vec<NodeRank>)> = Vec::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    for (rank, reason) in told {
        let cause = cause(reason, *rank, host(nodes, *rank));
        match known.get(&cause) {
            Some(at) => by_cause[*at].2.push(*rank),
            None => {
                known.insert(cause.clone(), by_cause.len());
                by_cause.push((cause, reason, vec![*rank]));
            }
        }
    }
    let has_hosts = nodes.iter().any(|node| node.host != nodes[0].host);
    let line = |(cause, reason, ranks): &(String, &str, Vec<NodeRank>)| {
        let reason = if ranks.len() == 1 { reason } else { cause.as_str() };
        let hosts = if has_hosts { shown_hosts(ranks, nodes) } else { String::new() };
        format!("node {}{hosts}: {reason}", shown_ranks(ranks))
    };
    by_cause.iter().map(line).collect()
}

/// The reason with `HOST` for the node's host, `I` for its rank, and `ADDRESS` for addresses.
fn cause(reason: &str, rank: NodeRank, host: &str) -> String {
    let is_of_name = |letter: &char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '_' | ':');
    let (own, short) = (rank.to_string(), host.split('.').next().unwrap_or(host));
    let letters: Vec<char> = reason.chars().collect();
    let mut shown = String::with_capacity(reason.len());
    for word in letters.chunk_by(|one, next| is_of_name(one) == is_of_name(next)) {
        let word: String = word.iter().collect();
        let bare = word.trim_end_matches([':', '.']);
        let other = match bare {
            _ if bare == own && shown.ends_with("node ") => "I",
            _ if !bare.is_empty() && (bare == host || bare == short) => "HOST",
            _ if is_address(bare) => "ADDRESS",
            _ => bare,
        };
        shown += other;
        shown += &word[bare.len()..];
    }
    shown
}

/// `10.0.0.3`, `10.0.0.3:20007`.
fn is_address(word: &str) -> bool {
    let address = word.split_once(':').map_or(word, |(address, _)| address);
    address.parse::<std::net::Ipv4Addr>().is_ok()
}

/// Notes are kept as they were heard.
pub fn by_rank(notes: &[(NodeRank, String)]) -> impl Iterator<Item = (&NodeRank, &String)> {
    let mut notes: Vec<_> = notes.iter().map(|(rank, note)| (rank, note)).collect();
    notes.sort();
    notes.into_iter()
}

/// Lines below a first one.
pub fn below(what: &str, lines: Vec<String>) -> String {
    lines.iter().map(|line| format!("\n  {what}{line}")).collect()
}

/// ` (n1, n2 and 7 more)`.
fn shown_hosts(ranks: &[NodeRank], nodes: &[NodeAddress]) -> String {
    let hosts: Vec<&str> = ranks.iter().map(|rank| host(nodes, *rank)).collect();
    format!(" ({})", named(&hosts))
}

/// `n1, n2 and 7 more`.
pub fn named(hosts: &[impl AsRef<str>]) -> String {
    let first: Vec<&str> = hosts.iter().take(HOSTS_NAMED_MAX).map(AsRef::as_ref).collect();
    match hosts.len() - first.len() {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

/// `0-3,7`.
pub fn shown_ranks(ranks: &[NodeRank]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for NodeRank(rank) in ranks {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *rank => *last = *rank,
            _ => ranges.push((*rank, *rank)),
        }
    }
    let shown =
        ranges.iter().map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") });
    shown.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn hosts_with_one_cause_are_one_line() {
        let nodes: Vec<NodeAddress> =
            (0..60).map(|index| NodeAddress { host: format!("h{index}.cluster"), port: 1 }).collect();
        let dead = |rank: u32| {
            let host = format!("h{rank}.cluster");
            format!(
                "not ready after 4 s; ssh to {host} gave no answer; try: ssh {host} true; its last words:\n    ssh: connect to host \
                 {host} port 22: timed out (5 ms, 10.0.0.{rank}:20007, node {rank})"
            )
        };
        let told: BTreeMap<NodeRank, String> = (0..60).map(|rank| (NodeRank(rank), dead(rank))).collect();
        let shown = lines(&told, &nodes);
        assert_eq!(shown.len(), 1, "{shown:?}");
        assert!(shown[0].contains("ssh to HOST gave no answer; try: ssh HOST true"), "{shown:?}");
        assert!(shown[0].contains("host HOST port 22: timed out (5 ms, ADDRESS, node I)"), "{shown:?}");
        let one = BTreeMap::from([(NodeRank(3), dead(3))]);
        assert!(lines(&one, &nodes)[0].contains("ssh to h3.cluster gave no answer"), "one keeps its name");
    }

    #[test]
    fn hosts_are_named_where_there_are_several() {
        let nodes: Vec<_> = (1..=12).map(|host| NodeAddress { host: format!("n{host}"), port: 1 }).collect();
        let reasons =
            |ranks: std::ops::Range<u32>| -> Vec<_> { ranks.map(|rank| (NodeRank(rank), "late".into())).collect() };
        let heard: Vec<_> = reasons(2..4).into_iter().rev().collect();
        assert_eq!(lines(by_rank(&heard), &nodes), ["node 2-3 (n3, n4): late"]);
        assert_eq!(
            lines(by_rank(&reasons(0..11)), &nodes),
            ["node 0-10 (n1, n2, n3, n4, n5, n6, n7, n8 and 3 more): late"]
        );
    }

    #[test]
    fn views_are_shown_briefly() {
        let views = |names: &[&str]| shown_views(&names.iter().map(PathBuf::from).collect::<Vec<_>>());
        assert_eq!(views(&["/v"]), "/v");
        assert_eq!(views(&["/v", "/v"]), "/v on every node");
        assert_eq!(views(&["/v/0", "/v/1", "/v/2"]), "/v/0 to /v/2");
    }
}
