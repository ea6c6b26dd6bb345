//! Reports that a launcher gets while a job starts: lines of JSON, most of them from the one node that speaks for all.

use std::collections::BTreeMap;

use forebay_types::{NodeRank, limits};
use serde::{Deserialize, Serialize};

use crate::ports;

/// The lines that count on a starter's standard output.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Line {
    /// How far the job is.
    Gathered(Gathered),
    /// A node is ready. The job may not be.
    Ready { rank: NodeRank },
    /// A node will not come up.
    Failed { rank: NodeRank, message: String },
    /// A node found something worth telling.
    Note { rank: NodeRank, message: String },
}

impl Line {
    /// Reads one. Anything else may be printed on another host, too, and what says the impossible is none.
    pub(crate) fn read(line: &[u8]) -> Option<Self> {
        let line: Self = serde_json::from_slice(line).ok()?;
        let is_possible = !matches!(&line, Self::Gathered(gathered) if !gathered.is_within_limits());
        is_possible.then_some(line)
    }
}

/// How far a job is, as the node knows that nobody stands above.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub struct Gathered {
    /// The reporting node: the root, or the node that stands in for it.
    pub by: NodeRank,
    /// How many nodes are ready.
    #[serde(rename = "ready")]
    pub ready_count: usize,
    /// Whether nothing follows: the job is up, without those that are missing.
    pub is_last: bool,
    /// The first and the last of each run of nodes that are not ready.
    pub missing: Vec<(NodeRank, NodeRank)>,
    /// Whether there are more.
    pub is_cut: bool,
    /// Errors that nodes met with those that they cannot reach.
    pub troubles: Vec<Trouble>,
    /// The ready node that took longest to start.
    pub slowest: Option<Slowest>,
}

/// A node that another cannot reach.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub struct Trouble {
    /// The node that cannot be reached.
    pub rank: NodeRank,
    /// The one that tried.
    pub by: NodeRank,
    /// Why.
    pub why: String,
}

/// A node and how long it took from the start of its process until its view answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Slowest {
    /// Which.
    pub rank: NodeRank,
    /// Milliseconds.
    pub took_ms: u32,
}

impl Gathered {
    /// Whether all nodes are ready.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.missing.is_empty() && !self.is_cut
    }

    /// Whether a job can have so many nodes: they are looked at one by one.
    fn is_within_limits(&self) -> bool {
        let counts = self.missing.iter().map(|(first, last)| u64::from(last.0.saturating_sub(first.0)) + 1);
        counts.sum::<u64>() <= limits::NODES_MAX as u64
    }

    /// The nodes that are known not to be ready.
    pub fn missing_ranks(&self) -> impl Iterator<Item = NodeRank> + '_ {
        self.missing.iter().flat_map(|(first, last)| (first.0..=last.0).map(NodeRank))
    }

    /// Whether `later` tells more: a node that stood in for a late root falls silent when the root speaks. One that is cut
    /// off from all others speaks for itself alone, and its last word is not the job's.
    pub(crate) fn gives_way_to(&self, later: &Self) -> bool {
        later.by == self.by || later.ready_count >= self.ready_count
    }

    /// Reports of others about the nodes that are missing.
    pub(crate) fn reasons(&self) -> BTreeMap<NodeRank, String> {
        let missing: std::collections::BTreeSet<NodeRank> = self.missing_ranks().collect();
        let told = self.troubles.iter().filter(|trouble| missing.contains(&trouble.rank));
        told.map(|Trouble { rank, by, why }| (*rank, format!("node {by} cannot reach it: {why}{}", advice(why))))
            .collect()
    }
}

/// Errors of a host that answers nothing, or in whose place a router refuses: a firewall does both.
const SILENCES: [&str; 3] = ["timed out", "No route to host", "did not answer"];

/// Advice about a node that cannot be reached for this reason.
fn advice(why: &str) -> String {
    if !SILENCES.iter().any(|silence| why.contains(silence)) {
        return String::new();
    }
    let (first, last) = ports::RANGE;
    format!("; a firewall? Open TCP {first}-{last} between nodes, or fix one port: --port P --interface I")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_no_job_has_is_none() {
        let line = |missing: &str| {
            let line = format!(
                r#"{{"gathered":{{"by":0,"ready":5,"is_last":false,"missing":{missing},"is_cut":false,"troubles":[]}}}}"#
            );
            Line::read(line.as_bytes()).is_some()
        };
        assert!(line("[[0,1048575]]") && line("[]") && line("[[7,3]]"));
        assert!(!line("[[0,4294967295]]") && !line("[[0,1048574],[1,1],[2,2]]"));
        assert!(Line::read(b"Welcome!").is_none());
    }

    #[test]
    fn a_line_of_a_daemon_is_understood() {
        let line = r#"{"gathered":{"by":0,"ready":5,"is_last":false,"missing":[[2,3],[7,7]],"is_cut":false,
            "troubles":[{"rank":3,"by":9,"why":"refused"},{"rank":1,"by":5,"why":"late"}],
            "slowest":{"rank":4,"took_ms":12}}}"#;
        let Line::Gathered(gathered) = serde_json::from_str(line).unwrap() else { panic!("another line") };
        assert_eq!(gathered.missing_ranks().map(|rank| rank.0).collect::<Vec<_>>(), [2, 3, 7]);
        assert!(!gathered.is_complete());
        let reasons = BTreeMap::from([(NodeRank(3), "node 9 cannot reach it: refused".to_owned())]);
        assert_eq!(gathered.reasons(), reasons, "of those that are missing");
        let line = line.replace("\"refused\"", "\"node 3 cannot be reached at 10.0.0.3:20007: timed out\"");
        let Line::Gathered(gathered) = serde_json::from_str(&line).unwrap() else { panic!("another line") };
        let advice =
            "timed out; a firewall? Open TCP 20000-32767 between nodes, or fix one port: --port P --interface I";
        assert!(gathered.reasons()[&NodeRank(3)].ends_with(advice), "{:?}", gathered.reasons());
    }
}
