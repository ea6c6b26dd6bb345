//! The outcome of `down`, or of an end without it, as the report keeps it.

use serde::{Deserialize, Serialize};

use crate::health::amounts::time_of_day;

/// Nodes that are named at most.
const NODES_NAMED_MAX: usize = 6;

/// The part of a job that is known where no daemon answered at its end: the last statuses that they had kept.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Known {
    /// Whether the last node of a host made the report, without `down`.
    pub by_node: bool,
    /// Nodes of which a status was kept on the host, and all nodes of the job.
    pub known: usize,
    pub nodes: usize,
    /// Nodes that did not end in order, with the time of the last status, milliseconds since 1970.
    pub killed: Vec<(u32, u64)>,
}

/// The outcome of `down`, or of an end without it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct End {
    /// Nodes that ended.
    pub ended: usize,
    /// Nodes that could not be asked, and may still run.
    pub missing: Vec<u32>,
    /// Changes of the burst tier that have not landed.
    pub not_landed: Vec<String>,
    /// Where they are kept, and how they land.
    pub kept: Option<String>,
    /// Nodes that did not say what of the burst tier has not landed.
    pub untold: Vec<u32>,
    /// Whether all that was to be staged out has been.
    pub is_staged_out: bool,
}

impl Known {
    /// `made when the last node of this host ended, without forebay down; known of 2 of 3 nodes; as of 12:33:01 UTC for node 1, which was killed`.
    pub fn line(&self) -> String {
        let Self { by_node, known, nodes, killed } = self;
        let (made, fate) = match by_node {
            true => ("made when the last node of this host ended, without forebay down", "was killed"),
            false => ("no daemon answered; made of what the nodes of this host had kept", "did not end in order"),
        };
        let as_of = killed.iter().take(NODES_NAMED_MAX);
        let as_of = as_of.map(|(node, at)| format!("; as of {} for node {node}, which {fate}", time_of_day(*at)));
        let more = match killed.len().saturating_sub(NODES_NAMED_MAX) {
            0 => String::new(),
            more => format!("; the same of {more} more nodes"),
        };
        format!(
            "{made}; known of {known} of {nodes} node{}{}{more}",
            if *nodes == 1 { "" } else { "s" },
            as_of.collect::<String>()
        )
    }

    /// Whether all nodes are known, and ended in order.
    pub fn is_whole(&self) -> bool {
        self.killed.is_empty() && self.known >= self.nodes
    }
}
