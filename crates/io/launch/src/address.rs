//! Where a node's daemon is reached, and what follows from the node list alone.
//!
//! Every daemon gets the same list and derives the same facts from it, so that nothing needs to be agreed on at start.

use std::fmt;
use std::path::{Path, PathBuf};

use forebay_types::NodeRank;
use serde::{Deserialize, Serialize};

/// First port of the range that `default_port` draws from: above the registered services, below the range from which
/// Linux takes the ports of outgoing connections by default (32768).
const PORT_FIRST: u16 = 20_000;

/// Ports in that range.
const PORT_COUNT: u64 = 12_768;

/// A host and the port its daemon listens on.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct NodeAddress {
    /// Name or IP address, without brackets.
    pub host: String,
    /// TCP port.
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

/// The port of all nodes of a job when the user names none. It depends on the job and the user, so that two jobs that
/// share hosts seldom meet; where they do, the daemon says that the port is taken and `--port` helps.
#[must_use]
pub fn default_port(job: &str, uid: u32) -> u16 {
    let offset = fnv1a(job.bytes().chain([0]).chain(uid.to_le_bytes())) % PORT_COUNT;
    PORT_FIRST + u16::try_from(offset).unwrap_or(0)
}

/// FNV-1a, 64 bits: the same on every host and in every build, which `std`'s hashers do not promise.
fn fnv1a(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
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
    fn the_port_depends_on_job_and_user_and_stays_in_its_range() {
        let port = default_port("train", 1000);
        assert_eq!(port, default_port("train", 1000));
        assert_ne!(port, default_port("train", 1001));
        assert_ne!(port, default_port("other", 1000));
        for uid in 0..2000 {
            assert!((20_000..32_768).contains(&default_port("job", uid)));
        }
    }

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
