//! The nodes that decide who owns the tree: few, on as many hosts as possible, the same on every node.

use std::collections::BTreeMap;

use forebay_types::NodeRank;

/// Nodes that decide.
const MEMBERS_MAX: usize = 5;

/// The council of a job whose nodes have these hosts: the first node of each host, then the second of each, and so on.
#[must_use]
pub fn council(hosts: &[&str]) -> Vec<NodeRank> {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let mut members: Vec<(usize, NodeRank)> = vec![];
    for (rank, host) in (0..).map(NodeRank).zip(hosts) {
        let before = seen.entry(host).or_default();
        if *before < MEMBERS_MAX {
            members.push((*before, rank));
        }
        *before += 1;
    }
    members.sort();
    members.into_iter().take(MEMBERS_MAX).map(|(_, rank)| rank).collect()
}

/// The node where a tree has its second home: the one of the council after its owner.
#[must_use]
pub fn second_home(council: &[NodeRank], owner: NodeRank) -> Option<NodeRank> {
    let own = council.iter().position(|member| *member == owner)?;
    council.get((own + 1) % council.len()).copied().filter(|second| *second != owner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranks(council: &[NodeRank]) -> Vec<u32> {
        council.iter().map(|rank| rank.0).collect()
    }

    #[test]
    fn it_is_spread_over_hosts() {
        assert_eq!(ranks(&council(&["a", "a", "a", "b", "b"])), [0, 3, 1, 4, 2]);
        assert_eq!(ranks(&council(&["a"])), [0]);
        let hosts: Vec<String> = (0..5000).map(|node| format!("n{}", node / 2)).collect();
        let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
        assert_eq!(ranks(&council(&hosts)), [0, 2, 4, 6, 8]);
    }

    #[test]
    fn the_second_home_is_elsewhere() {
        let council = council(&["a", "a", "b"]);
        let second = |owner| second_home(&council, NodeRank(owner)).map(|second| second.0);
        assert_eq!((second(0), second(2), second(1)), (Some(2), Some(1), Some(0)));
        assert_eq!(second_home(&[NodeRank(0)], NodeRank(0)), None);
        assert_eq!(second_home(&council, NodeRank(9)), None);
    }
}
