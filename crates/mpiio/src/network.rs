//! The network that aggregators are placed in: as a file describes it, else as Slurm or the names of the hosts tell of switches, else
//! one switch.
//!
//! Slurm tells every task which switches its host is below (`SLURM_TOPOLOGY_ADDR`), so nobody has to be asked. Names say it where they
//! have several numbers: `r3n12` is host 12 of rack 3. A tree of switches is taken to be a fat tree whose switches carry all that is
//! below them; neither source says what they really carry. Without a file every host has a way of its own to the file system, beside
//! its own place.

use std::collections::BTreeMap;

use forebay_aggregate::{
    Case, CaseDescription, FatTreeLevel, IoNode, RankDescription, RanksDescription, Serves, TopologyDescription,
};
use serde::{Deserialize, Serialize};

/// Bytes a second of a host's link and of its way to the file system: 100 Gbit/s. Without another rate to compare with, it
/// weighs against the latency alone.
const LINK_BYTES_PER_S: f64 = 12.5e9;

/// Seconds to the next switch, as with that link.
const LINK_LATENCY_S: f64 = 1e-6;

/// Places of a tree of switches for each host: two are needed, and the rest is room for switches of uneven sizes. Each place has
/// links, which every plan goes through.
const PLACES_OF_HOST_MAX: usize = 16;

/// Levels of switches that are told apart; Slurm's clusters have two or three.
const LEVELS_MAX: usize = 5;

/// The contents of a network file: the network of a case of `forebay plan`, and which host is which node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NetworkFile {
    topology: TopologyDescription,
    #[serde(default = "link_bytes_per_s")]
    link_bytes_per_s: f64,
    #[serde(default = "link_latency_s")]
    link_latency_s: f64,
    /// Without any, every host has a way of its own to the file system.
    #[serde(default)]
    io_nodes: Vec<IoNode>,
    /// The host of each node, from the first one on. Not needed where the topology names hosts itself.
    #[serde(default)]
    hosts: Vec<String>,
}

impl NetworkFile {
    /// The file that it names for Slurm's switches, whose text is to be put in its place.
    pub fn switches_file(&mut self) -> Option<(&str, &mut String)> {
        let TopologyDescription::Slurm(switches) = &mut self.topology else { return None };
        let file = switches.file.as_deref().filter(|_| switches.text.is_empty())?;
        Some((file, &mut switches.text))
    }
}

const fn link_bytes_per_s() -> f64 {
    LINK_BYTES_PER_S
}

const fn link_latency_s() -> f64 {
    LINK_LATENCY_S
}

/// A network, and where in it the hosts of a job are.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// Its shape.
    pub topology: TopologyDescription,
    /// Rate of its links.
    pub link_bytes_per_s: f64,
    /// Latency of its links.
    pub link_latency_s: f64,
    /// Nodes that ranks may be on, from the first one on.
    pub nodes: usize,
    /// Where bytes leave it.
    pub io_nodes: Vec<IoNode>,
    /// The node of each host.
    pub node_of: Vec<usize>,
    /// Where this is known from, in the words of the record.
    pub source: &'static str,
}

impl Network {
    /// One switch, where nothing is known.
    #[must_use]
    pub fn one_switch(hosts: usize) -> Self {
        Self::fat_tree(vec![FatTreeLevel { down: 2 * hosts, up: 1 }], (0..hosts).collect(), hosts, "one switch")
    }

    /// As a file says it. A network that it returns is one that can be planned for.
    ///
    /// # Errors
    /// Why it is not to be used: a host that it does not have, or what the planner says against it.
    pub fn of_file(file: &NetworkFile, hosts: &[&str]) -> Result<Self, String> {
        let unknown = || "it does not say which host is which node (`hosts`)".to_owned();
        let listed = match &file.hosts[..] {
            // No node has a number in the file: nodes are the job's hosts, in the order of their ranks.
            [] if file.io_nodes.is_empty() => hosts.iter().map(|host| (*host).to_owned()).collect(),
            [] => file.topology.hosts().map_err(|error| error.to_string())?.ok_or_else(unknown)?,
            listed => listed.to_vec(),
        };
        let topology = match file.topology.on_hosts(&listed).map_err(|error| error.to_string())? {
            Some(topology) => topology,
            None if file.hosts.is_empty() => return Err(unknown()),
            None => file.topology.clone(),
        };
        let numbers: BTreeMap<&str, usize> = listed.iter().map(String::as_str).zip(0..).collect();
        let node = |host: &&str| {
            let number = numbers.get(host).or_else(|| numbers.get(host.split('.').next().unwrap_or_default()));
            number.copied().ok_or_else(|| format!("it does not cover the job: host {host} is not there"))
        };
        let node_of: Vec<usize> = hosts.iter().map(node).collect::<Result<_, _>>()?;
        let own =
            |node: &usize| IoNode { node: *node, bytes_per_s: LINK_BYTES_PER_S, serves: Serves::Range(*node, *node) };
        let io_nodes = if file.io_nodes.is_empty() { node_of.iter().map(own).collect() } else { file.io_nodes.clone() };
        let network = Self {
            topology,
            link_bytes_per_s: file.link_bytes_per_s,
            link_latency_s: file.link_latency_s,
            nodes: listed.len(),
            io_nodes,
            node_of,
            source: "file",
        };
        network.check().map(|()| network)
    }

    /// Whether the planner takes it, for a job that has bytes on every host.
    fn check(&self) -> Result<(), String> {
        let rank = |node: &usize| RankDescription { node: *node, bytes: 1, extents: None };
        let case = CaseDescription {
            topology: self.topology.clone(),
            link_bytes_per_s: self.link_bytes_per_s,
            link_latency_s: self.link_latency_s,
            nodes: self.nodes,
            io_nodes: self.io_nodes.clone(),
            ranks: RanksDescription::Each(self.node_of.iter().map(rank).collect()),
            aggregators: None,
            rounds: None,
            aggregator_memory_bytes: 1,
            buffer_bytes: 1,
            buffers: 2,
            stripe_bytes: 1,
            nvme: None,
        };
        Case::new(case).map(drop).map_err(|error| error.to_string())
    }

    /// By the switches above each host, from the top down. `None` where they tell nothing: no or one switch, uneven depths, or more
    /// places than a fat tree of the widest switches may have.
    #[must_use]
    pub fn of_switches(above: &[Vec<&str>], source: &'static str) -> Option<Self> {
        let depth = above.first()?.len();
        if depth == 0 || depth > LEVELS_MAX || above.iter().any(|names| names.len() != depth) {
            return None;
        }
        // The number of each switch among those below the same one, and how many each level has there at most.
        let mut widths = vec![0; depth + 1];
        let mut below: BTreeMap<&[&str], usize> = BTreeMap::new();
        let mut numbers: BTreeMap<&[&str], usize> = BTreeMap::new();
        let mut places = Vec::with_capacity(above.len());
        for names in above {
            let mut place = vec![];
            for level in 0..depth {
                let number = *numbers.entry(&names[..=level]).or_insert_with(|| take(&mut below, &names[..level]));
                widths[level] = widths[level].max(number + 1);
                place.push(number);
            }
            let number = take(&mut below, names);
            widths[depth] = widths[depth].max(number + 1);
            place.push(number);
            places.push(place);
        }
        // Half of the places below a switch are those of the hosts' ways to the file system.
        widths[depth] *= 2;
        let count = widths.iter().try_fold(1usize, |count, width| count.checked_mul(*width))?;
        if numbers.values().len() < 2 || count > PLACES_OF_HOST_MAX * above.len().max(4) {
            return None;
        }
        let place = |place: &Vec<usize>| place.iter().zip(&widths).fold(0, |at, (number, width)| at * width + number);
        let levels = widths.iter().rev().map(|width| FatTreeLevel { down: *width, up: *width }).collect();
        Some(Self::fat_tree(levels, places.iter().map(place).collect(), widths[depth] / 2, source))
    }

    /// With hosts at these places, and their ways to the file system so many places further.
    fn fat_tree(levels: Vec<FatTreeLevel>, node_of: Vec<usize>, further: usize, source: &'static str) -> Self {
        let io_node = |host: &usize| IoNode {
            node: host + further,
            bytes_per_s: LINK_BYTES_PER_S,
            serves: Serves::Range(*host, *host),
        };
        Self {
            topology: TopologyDescription::FatTree { levels },
            link_bytes_per_s: LINK_BYTES_PER_S,
            link_latency_s: LINK_LATENCY_S,
            nodes: node_of.iter().max().map_or(1, |last| last + 1),
            io_nodes: node_of.iter().map(io_node).collect(),
            node_of,
            source,
        }
    }
}

fn take<'a>(below: &mut BTreeMap<&'a [&'a str], usize>, switch: &'a [&'a str]) -> usize {
    let count = below.entry(switch).or_default();
    *count += 1;
    *count - 1
}

/// The switches in an address of Slurm's, such as `spine.leaf3.n12` by the pattern `switch.switch.node`.
#[must_use]
pub fn switches_of_address<'a>(address: &'a str, pattern: &str) -> Vec<&'a str> {
    let count = pattern.split('.').filter(|part| *part == "switch").count();
    address.splitn(count + 1, '.').take(count).collect()
}

/// The switches that names of hosts tell of: one for each number but the last. Empty if the names are not alike.
#[must_use]
pub fn switches_of_names<'a>(hosts: &[&'a str]) -> Vec<Vec<&'a str>> {
    let letters = |host: &str| host.replace(|c: char| c.is_ascii_digit(), "");
    let are_alike = hosts.windows(2).all(|pair| letters(pair[0]) == letters(pair[1]));
    if are_alike { hosts.iter().map(|host| numbered_prefixes(host)).collect() } else { vec![] }
}

/// The prefix before each number but the last, with the number: `r3` of `r3n12`. A domain is ignored.
fn numbered_prefixes(host: &str) -> Vec<&str> {
    let name = host.split('.').next().unwrap_or_default();
    let is_digit = |at: usize| name.as_bytes().get(at).is_some_and(u8::is_ascii_digit);
    let ends: Vec<usize> = (1..=name.len()).filter(|end| is_digit(end - 1) && !is_digit(*end)).collect();
    ends.split_last().map_or(vec![], |(_, ends)| ends.iter().map(|end| &name[..*end]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levels(network: &Network) -> Vec<usize> {
        let TopologyDescription::FatTree { levels } = &network.topology else { unreachable!("a fat tree") };
        levels.iter().map(|level| level.down).collect()
    }

    #[test]
    fn hosts_of_a_switch_are_beside_each_other() {
        let names = ["r1n1", "r2n1", "r1n2", "r2n2", "r1n3"];
        let network = Network::of_switches(&switches_of_names(&names), "names").unwrap();
        // Two switches with room for three hosts and their ways to the file system.
        assert_eq!((levels(&network), &network.node_of[..]), (vec![6, 2], &[0, 6, 1, 7, 2][..]));
        assert_eq!(network.io_nodes[3].node, 10);
    }

    #[test]
    fn addresses_of_slurm_name_switches() {
        assert_eq!(switches_of_address("top.leaf[0-1].n3.example", "switch.switch.node"), ["top", "leaf[0-1]"]);
        assert!(switches_of_address("n3", "node").is_empty());
        let above = [vec!["top", "a"], vec!["top", "b"], vec!["top", "b"]];
        let network = Network::of_switches(&above, "slurm").unwrap();
        assert_eq!((levels(&network), &network.node_of[..]), (vec![4, 2, 1], &[0, 4, 5][..]));
    }

    #[test]
    fn names_that_tell_no_switches_tell_nothing() {
        for names in [&["n1", "n2"][..], &["login", "r1n2"], &["vm"], &["r1n1", "r1n2"]] {
            assert_eq!(Network::of_switches(&switches_of_names(names), "names"), None, "{names:?}");
        }
        assert_eq!(
            switches_of_names(&["x3000c0s1b0n0.site7", "x3000c0s1b1n0.site7"])[1],
            ["x3000", "x3000c0", "x3000c0s1", "x3000c0s1b1"]
        );
    }

    #[test]
    fn a_file_that_lacks_a_host_says_which() {
        let text = r#"{"topology": {"torus": [4]}, "hosts": ["a", "b", "c"], "ranks": {"per_node": 1, "bytes": 1}}"#;
        let file: NetworkFile = serde_json::from_str(text).unwrap();
        assert_eq!(Network::of_file(&file, &["c", "a"]).unwrap().node_of, [2, 0]);
        assert_eq!(Network::of_file(&file, &["c", "d"]).unwrap_err(), "it does not cover the job: host d is not there");
    }

    fn of_text(text: &str, hosts: &[&str]) -> Result<Network, String> {
        Network::of_file(&serde_json::from_str(text).unwrap(), hosts)
    }

    /// Each of these would be refused at the first exchange.
    #[test]
    fn a_file_that_cannot_be_planned_for_is_refused_at_once() {
        let refused = |text: &str, why: &str| {
            let error = of_text(text, &["a", "b"]).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        };
        refused(r#"{"topology": {"torus": [1]}, "hosts": ["a", "b"]}"#, "it has 1 places and the job 2 nodes");
        refused(r#"{"topology": {"torus": [2]}, "hosts": ["a", "b"], "link_bytes_per_s": 0}"#, "link_bytes_per_s");
        let io = |node: usize, serves: &str| {
            format!(
                r#"{{"topology": {{"torus": [2]}}, "hosts": ["a", "b"],
                     "io_nodes": [{{"node": {node}, "bytes_per_s": 1e9, "serves": {serves}}}]}}"#
            )
        };
        refused(&io(9, "\"any\""), "node 9 is not in the topology");
        refused(&io(1, "[0, 0]"), "none serves node 1");
        refused(r#"{"topology": {"torus": [2]}}"#, "which host is which node");
        refused(r#"{"topology": {"slurm": {"text": "SwitchName=s Nodes=a"}}}"#, "the host b is on no switch");
    }

    #[test]
    fn switches_of_slurm_and_names_are_read_as_by_the_command() {
        let slurm = r#"{"slurm": {"text": "SwitchName=s1 Nodes=n[1-2]\nSwitchName=s2 Nodes=n[3-4]\nSwitchName=t Switches=s[1-2]"}}"#;
        let hosts = ["n3.cluster", "n1.cluster"];
        let network = of_text(&format!(r#"{{"topology": {slurm}}}"#), &hosts).unwrap();
        assert_eq!((network.nodes, &network.node_of[..]), (2, &[0, 1][..]), "the job's hosts alone");
        let io = r#""io_nodes": [{"node": 3, "bytes_per_s": 1e9, "serves": "any"}]"#;
        let network = of_text(&format!(r#"{{"topology": {slurm}, {io}}}"#), &hosts).unwrap();
        assert_eq!((network.nodes, &network.node_of[..]), (4, &[2, 0][..]), "the I/O node counts all that are listed");
        let given = r#""hosts": ["n1", "n2", "n3", "n4"]"#;
        let network = of_text(&format!(r#"{{"topology": {slurm}, {io}, {given}}}"#), &hosts).unwrap();
        assert_eq!(network.node_of, [2, 0]);
        let names = r#"{"topology": {"host_names": {"pattern": "r#/n#", "hosts": ""}}}"#;
        assert_eq!(of_text(names, &["r1n1", "r2n1"]).unwrap().node_of, [0, 1]);
        assert!(of_text(names, &["r1n1", "login"]).unwrap_err().contains("login does not match"));
    }
}
