//! For fuzzing and for its corpus: what is made of lists of hosts, of networks, and of what processes of a job leave for each
//! other.

use std::collections::BTreeSet;
use std::fmt::Debug;

use forebay_types::{Switches, check_host_name, expand_host_list, limits};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::gathered::Line;
use crate::{
    JobRecord, NodeAddress, NodeRecord, Ports, TopologySource, ViewLayout, in_order, parse_hostfile, switches_of,
};

/// Hosts that are written down and read again: more cost time and find nothing.
const HOSTS_AGAIN_MAX: usize = 1000;

/// Which kinds of text something is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Read {
    /// A list of hosts in Slurm's notation.
    pub is_list: bool,
    /// A host file.
    pub is_hostfile: bool,
    /// The switches of a network.
    pub is_network: bool,
}

/// Reads a text as each of them, and checks what must hold then.
///
/// # Panics
/// When something does not hold.
#[must_use]
pub fn read_hosts(text: &str) -> Read {
    Read { is_list: read_list(text), is_hostfile: read_hostfile(text), is_network: read_network(text) }
}

fn read_list(text: &str) -> bool {
    let Ok(hosts) = expand_host_list(text) else { return false };
    assert!(!hosts.is_empty() && hosts.len() <= limits::NODES_MAX);
    assert!(hosts.iter().all(|host| check_host_name(host).is_ok()));
    if hosts.len() <= HOSTS_AGAIN_MAX {
        assert_eq!(expand_host_list(&hosts.join(",")).as_ref(), Ok(&hosts));
    }
    true
}

fn read_hostfile(text: &str) -> bool {
    let read = |text: &str| parse_hostfile(text, "hosts", 7000).map_err(|error| error.to_string());
    let Ok(nodes) = read(text) else { return false };
    assert!(!nodes.is_empty() && nodes.len() <= limits::NODES_MAX);
    let lines: Vec<String> = nodes.iter().map(ToString::to_string).collect();
    assert_eq!(read(&lines.join("\n")), Ok(nodes));
    true
}

fn read_network(text: &str) -> bool {
    let Ok(switches) = Switches::parse(text) else { return false };
    let (all, above, hosts) = (switches.all(), switches.above(), switches.hosts());
    assert!(hosts.iter().all(|placed| all[placed.switch].hosts.iter().any(|host| host == placed.host)));
    assert_eq!(hosts.len(), all.iter().map(|switch| switch.hosts.len()).sum::<usize>(), "each is walked once");
    for index in 0..all.len() {
        let mut way = std::iter::successors(Some(index), |index| above[*index]);
        assert!(way.by_ref().take(all.len() + 1).count() <= all.len(), "a switch is below itself");
    }
    let names: BTreeSet<&str> = hosts.iter().map(|placed| placed.host).take(HOSTS_AGAIN_MAX).collect();
    let listed: Vec<NodeAddress> =
        names.into_iter().map(|host| NodeAddress { host: host.to_owned(), port: 1 }).collect();
    let source = TopologySource::File { name: "network".to_owned(), text: text.to_owned() };
    let mut nodes = listed.clone();
    assert!(in_order(&mut nodes, &source, false).is_ok(), "all of them are listed");
    assert_eq!(switches_of(&nodes, &source, false).len(), nodes.len());
    nodes.sort();
    assert_eq!(nodes, listed);
    true
}

/// Reads bytes as what processes of a job leave for each other; how many kinds of that they are.
///
/// # Panics
/// When something does not hold.
#[must_use]
pub fn read_record(bytes: &[u8]) -> usize {
    let addressed = |bytes: &[u8]| {
        let is_list = comes_back::<Vec<NodeAddress>>(bytes);
        is_list || comes_back::<Ports>(bytes) || comes_back::<ViewLayout>(bytes)
    };
    let kinds = [job_record, comes_back::<NodeRecord>, read_line, addressed];
    kinds.iter().filter(|is_one| is_one(bytes)).count()
}

fn comes_back<T: DeserializeOwned + Serialize + PartialEq + Debug>(bytes: &[u8]) -> bool {
    let Ok(record) = serde_json::from_slice::<T>(bytes) else { return false };
    let text = serde_json::to_vec(&record).unwrap_or_default();
    assert_eq!(serde_json::from_slice::<T>(&text).ok(), Some(record));
    true
}

/// All but the settings: a number in them may have another last digit when it is read again.
fn job_record(bytes: &[u8]) -> bool {
    let Ok(record) = serde_json::from_slice::<JobRecord>(bytes) else { return false };
    let record = JobRecord { settings: serde_json::Value::Null, ..record };
    comes_back::<JobRecord>(&serde_json::to_vec(&record).unwrap_or_default())
}

/// A line of a starter, which any program on another host may have printed.
fn read_line(bytes: &[u8]) -> bool {
    let Some(line) = Line::read(bytes) else { return false };
    if let Line::Gathered(gathered) = line {
        assert!(gathered.missing_ranks().count() <= limits::NODES_MAX);
        assert!(gathered.reasons().len() <= gathered.troubles.len());
    }
    true
}
