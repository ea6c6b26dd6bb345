//! Which node copies what another writes: one on another switch, else on another host, the same by every node's reckoning.
//!
//! Hosts are in the order of their switches. Each is copied by the host that stands as many places further on as the largest switch
//! has hosts: that one is on another switch, and no host copies more than one. Where more than half of all hosts are on one switch,
//! this cannot be: then the others share its hosts evenly. Of several nodes on a host each has another partner, as far as there are enough.

use std::collections::BTreeMap;

use forebay_types::NodeRank;

/// The nodes of a host.
struct Host {
    /// The order of its switch.
    switch: usize,
    nodes: Vec<NodeRank>,
}

/// The partner of each node of a job whose nodes are on these hosts and switches. Without `switches`, and where there is only one, a
/// partner is on the next host; in a job on one host it is the next node.
#[must_use]
pub fn partners(hosts: &[&str], switches: &[u32]) -> Vec<Option<NodeRank>> {
    let on = hosts_by_switch(hosts, switches);
    if let [host] = &on[..] {
        let next = |index: usize| host.nodes[(index + 1) % host.nodes.len()];
        return (0..host.nodes.len()).map(|index| Some(next(index)).filter(|_| host.nodes.len() > 1)).collect();
    }
    let mut partners = vec![None; hosts.len()];
    for (host, partner) in on.iter().zip(partner_hosts(&on)) {
        let of_partner = &on[partner].nodes;
        for (index, node) in host.nodes.iter().enumerate() {
            partners[node.0 as usize] = of_partner.get(index % of_partner.len()).copied();
        }
    }
    partners
}

/// All hosts, those of a switch beside each other; where no switches are told apart, each has its own.
fn hosts_by_switch(hosts: &[&str], switches: &[u32]) -> Vec<Host> {
    let are_told_apart = switches.len() == hosts.len() && switches.iter().any(|switch| *switch != switches[0]);
    let (mut places, mut orders) = (BTreeMap::new(), BTreeMap::new());
    let mut on: Vec<Host> = vec![];
    for (node, host) in hosts.iter().enumerate() {
        let place = *places.entry(host).or_insert(on.len());
        if place == on.len() {
            let order = orders.len();
            let switch = if are_told_apart { *orders.entry(switches[node]).or_insert(order) } else { place };
            on.push(Host { switch, nodes: vec![] });
        }
        on[place].nodes.push(NodeRank(node as u32));
    }
    on.sort_by_key(|host| host.switch);
    on
}

/// The partner of each of several hosts.
fn partner_hosts(on: &[Host]) -> Vec<usize> {
    let count = on.len();
    let sizes: Vec<usize> = on.chunk_by(|a, b| a.switch == b.switch).map(<[Host]>::len).collect();
    let largest = sizes.iter().copied().max().unwrap_or(1);
    if 2 * largest <= count {
        return (0..count).map(|host| (host + largest) % count).collect();
    }
    let mut first = 0;
    let of_switch = sizes.iter().flat_map(|size| {
        let after = first + size;
        first = after;
        (0..*size).map(move |index| (after + index % (count - size).max(1)) % count)
    });
    of_switch.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(hosts: &[&str], switches: &[u32]) -> Vec<Option<u32>> {
        partners(hosts, switches).into_iter().map(|partner| partner.map(|partner| partner.0)).collect()
    }

    #[test]
    fn they_are_on_other_hosts_and_spread() {
        assert_eq!(of(&["a", "b", "c"], &[]), [Some(1), Some(2), Some(0)]);
        assert_eq!(of(&["a", "a", "b", "b"], &[]), [Some(2), Some(3), Some(0), Some(1)]);
        assert_eq!(of(&["a", "a", "b"], &[]), [Some(2), Some(2), Some(0)]);
        assert_eq!(of(&["a", "a"], &[]), [Some(1), Some(0)]);
        assert_eq!(of(&["a"], &[]), [None]);
        assert_eq!(of(&[], &[]), []);
    }

    #[test]
    fn they_are_on_other_switches_where_those_are_known() {
        assert_eq!(of(&["a", "b", "c", "d"], &[7, 7, 3, 3]), [Some(2), Some(3), Some(0), Some(1)]);
        assert_eq!(of(&["a", "b", "c"], &[4, 4, 4]), [Some(1), Some(2), Some(0)], "there is only one");
        assert_eq!(of(&["a", "b", "c"], &[0, 0, 1]), [Some(2), Some(2), Some(0)], "most are on one");
        assert_eq!(of(&["a", "a", "b", "b"], &[0, 0, 1, 1]), [Some(2), Some(3), Some(0), Some(1)]);
    }

    /// Whatever the sizes of the switches: another switch always, and at most one copy a host where that can be.
    #[test]
    fn no_switch_copies_itself_and_no_host_copies_twice_if_that_can_be() {
        for sizes in [&[1, 1][..], &[3, 1], &[2, 4, 2], &[5, 3, 1], &[18; 256], &[1, 7, 2, 3], &[16, 2, 2]] {
            let switches: Vec<u32> =
                (0..).zip(sizes).flat_map(|(switch, size)| std::iter::repeat_n(switch, *size)).collect();
            let names: Vec<String> = (0..switches.len()).map(|host| format!("n{host}")).collect();
            let hosts: Vec<&str> = names.iter().map(String::as_str).collect();
            let mut copies = vec![0; hosts.len()];
            for (node, partner) in partners(&hosts, &switches).into_iter().enumerate() {
                let partner = partner.unwrap().0 as usize;
                assert_ne!(switches[node], switches[partner], "{sizes:?}: {node} and {partner}");
                copies[partner] += 1;
            }
            let (largest, count) = (*sizes.iter().max().unwrap(), hosts.len());
            let most = if 2 * largest <= count { 1 } else { largest.div_ceil(count - largest) + 1 };
            assert!(copies.iter().all(|of_host| *of_host <= most), "{sizes:?}: {copies:?}");
        }
    }
}
