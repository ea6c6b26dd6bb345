//! Where a node's daemon is reached, and what follows from the node list alone.
//!
//! Every daemon gets the same list and derives the same facts from it, so that nothing needs to be agreed on at start.

use std::fmt;
use std::path::{Path, PathBuf};

use forebay_types::NodeRank;
use serde::{Deserialize, Serialize};

/// A host and the port its daemon listens on.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct NodeAddress {
    /// Name or IP address, without brackets.
    pub host: String,
    /// TCP port; where it is the first of the job's candidates, it stands for all of them.
    pub port: u16,
}

impl fmt::Display for NodeAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// Where the nodes of a job have their views, below the directory that was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ViewLayout {
    /// That directory itself for a node that has its host alone, else as `Numbered`.
    ByHost,
    /// The rank's directory in it, however many nodes there are: a script that starts N nodes on one machine finds
    /// them alike for N = 1.
    Numbered,
}

impl ViewLayout {
    /// The mount point of `rank`'s view below `view`.
    #[must_use]
    pub fn view(self, view: &Path, nodes: &[NodeAddress], rank: NodeRank) -> PathBuf {
        let own = nodes.get(rank.0 as usize).map(|node| &node.host);
        let shares_host = || nodes.iter().filter(|node| Some(&node.host) == own).count() > 1;
        if self == Self::Numbered || shares_host() { view.join(rank.to_string()) } else { view.to_path_buf() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_that_share_a_host_have_views_of_their_own() {
        let node = |host: &str, port| NodeAddress { host: host.into(), port };
        let nodes = [node("a", 1), node("b", 1), node("a", 2)];
        let view = |rank| ViewLayout::ByHost.view(Path::new("/v"), &nodes, NodeRank(rank));
        assert_eq!(view(0), Path::new("/v/0"));
        assert_eq!(view(1), Path::new("/v"));
        assert_eq!(view(2), Path::new("/v/2"));
    }

    #[test]
    fn numbered_views_are_so_for_a_single_node_too() {
        let nodes = [NodeAddress { host: "a".into(), port: 1 }];
        let view = |layout: ViewLayout| layout.view(Path::new("/v"), &nodes, NodeRank(0));
        assert_eq!(view(ViewLayout::Numbered), Path::new("/v/0"));
        assert_eq!(view(ViewLayout::ByHost), Path::new("/v"));
    }
}
