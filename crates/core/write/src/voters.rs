//! The nodes that decide who leads the tree: few, on as many hosts as possible, the same on every node.

use std::collections::BTreeMap;

use forebay_types::NodeRank;

/// Nodes that decide.
const MEMBERS_MAX: usize = 5;

/// The voters of a job whose nodes have these hosts: the first node of each host, then the second of each, and so on.
#[must_use]
pub fn voters(hosts: &[&str]) -> Vec<NodeRank> {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let mut voters: Vec<(usize, NodeRank)> = vec![];
    for (rank, host) in (0..).map(NodeRank).zip(hosts) {
        let before = seen.entry(host).or_default();
        if *before < MEMBERS_MAX {
            voters.push((*before, rank));
        }
        *before += 1;
    }
    voters.sort();
    voters.into_iter().take(MEMBERS_MAX).map(|(_, rank)| rank).collect()
}

/// The node where a tree has its standby: the one of the voters after its owner.
#[must_use]
pub fn standby(voters: &[NodeRank], leader: NodeRank) -> Option<NodeRank> {
    let own = voters.iter().position(|voter| *voter == leader)?;
    voters.get((own + 1) % voters.len()).copied().filter(|second| *second != leader)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranks(voters: &[NodeRank]) -> Vec<u32> {
        voters.iter().map(|rank| rank.0).collect()
    }

    #[test]
    fn it_is_spread_over_hosts() {
        assert_eq!(ranks(&voters(&["a", "a", "a", "b", "b"])), [0, 3, 1, 4, 2]);
        assert_eq!(ranks(&voters(&["a"])), [0]);
        let hosts: Vec<String> = (0..5000).map(|node| format!("n{}", node / 2)).collect();
        let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
        assert_eq!(ranks(&voters(&hosts)), [0, 2, 4, 6, 8]);
    }

    #[test]
    fn the_standby_is_elsewhere() {
        let voters = voters(&["a", "a", "b"]);
        let second = |leader| standby(&voters, NodeRank(leader)).map(|second| second.0);
        assert_eq!((second(0), second(2), second(1)), (Some(2), Some(1), Some(0)));
        assert_eq!(standby(&[NodeRank(0)], NodeRank(0)), None);
        assert_eq!(standby(&voters, NodeRank(9)), None);
    }
}
