//! The order of the nodes: those that are near each other stand beside each other.
//!
//! The trees follow from this order alone (`forebay_overlay`): a stretch of it lies in few subtrees, and roots are
//! spread over it. So no daemon needs to know a switch; the list that it is given is in order already. Knowledge of the
//! network comes from Slurm, from a file of the same form as Slurm's `topology.conf`, or from names of hosts that say where
//! they are.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;

use forebay_types::{Switches, SwitchesError};

use crate::launchers::scontrol;
use crate::{LaunchError, NodeAddress};

/// Nodes below which the order does not matter: each asks the first one.
const NODES_MIN: usize = 3;

/// Where the order comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TopologySource {
    /// From Slurm within an allocation, else from the names of the hosts, where either tells.
    Auto,
    /// The nodes stay in the order in which they were listed.
    Off,
    /// From this text, which came from that file.
    File {
        /// The file's name, as given.
        name: String,
        /// Its contents.
        text: String,
    },
}

/// Puts nodes into the order of the network. Returns a remark for the user, if there is one.
///
/// # Errors
/// `Topology` for a file that contradicts itself or does not place all nodes. They keep their order then. The topology of Slurm is
/// used if it can be, and is no reason to fail.
pub fn in_order(
    nodes: &mut [NodeAddress],
    source: &TopologySource,
    is_in_slurm: bool,
) -> Result<Option<String>, LaunchError> {
    match source {
        TopologySource::File { name, text } => {
            let switches = Switches::parse(text).map_err(|error| in_file(name, error))?;
            sort(&switches, nodes, name)
        }
        TopologySource::Auto if nodes.len() >= NODES_MIN => {
            let told = if is_in_slurm { told_by_slurm() } else { None };
            let switches = told.and_then(|text| Switches::parse(&text).ok());
            let by_slurm = switches.is_some_and(|switches| sort(&switches, nodes, "scontrol").is_ok());
            if !by_slurm {
                sort_by_names(nodes);
            }
            Ok(None)
        }
        TopologySource::Auto | TopologySource::Off => Ok(None),
    }
}

/// The switches that nodes are on, by numbers; from names of hosts, their chassis. Empty where nothing tells.
#[must_use]
pub fn switches_of(nodes: &[NodeAddress], source: &TopologySource, is_in_slurm: bool) -> Vec<u32> {
    let text = match source {
        TopologySource::File { text, .. } => Some(text.clone()),
        TopologySource::Auto if is_in_slurm => told_by_slurm(),
        TopologySource::Auto | TopologySource::Off => None,
    };
    let named = text.and_then(|text| Switches::parse(&text).ok()).and_then(|switches| {
        let placed = switches.hosts();
        let of: HashMap<&str, usize> = placed.iter().rev().map(|placed| (placed.host, placed.switch)).collect();
        nodes.iter().map(|node| names_of(node).into_iter().find_map(|name| of.get(name)).map(|of| *of as u32)).collect()
    });
    let chassis = || {
        let places =
            nodes.iter().map(|node| place_in_cabinets(&node.host).map(|[cabinet, chassis, ..]| (cabinet, chassis)));
        let places: Vec<(u32, u32)> = places.collect::<Option<_>>()?;
        let known: BTreeSet<(u32, u32)> = places.iter().copied().collect();
        Some(places.iter().map(|place| known.range(..place).count() as u32).collect())
    };
    named.or_else(|| if *source == TopologySource::Auto { chassis() } else { None }).unwrap_or_default()
}

/// The error in a line of the file.
fn in_file(file: &str, SwitchesError { line, problem }: SwitchesError) -> LaunchError {
    LaunchError::Topology { file: file.to_owned(), line, problem }
}

/// Sorts `nodes` by where they are on the switches.
fn sort(switches: &Switches, nodes: &mut [NodeAddress], file: &str) -> Result<Option<String>, LaunchError> {
    let named = switches.hosts();
    let line = |switch: usize| switches.all()[switch].line;
    let places: HashMap<&str, usize> =
        named.iter().enumerate().rev().map(|(place, placed)| (placed.host, place)).collect();
    let place = |node: &NodeAddress| names_of(node).into_iter().find_map(|name| places.get(name)).copied();
    let of_job: HashSet<&str> = nodes.iter().flat_map(names_of).collect();
    let stranger = named.iter().find(|placed| !of_job.contains(placed.host));
    if let Some(lost) = nodes.iter().find(|node| place(node).is_none()) {
        return Err(LaunchError::Topology {
            file: file.to_owned(),
            line: stranger.map_or(0, |placed| line(placed.switch)),
            problem: problem_of(lost, stranger.map(|placed| placed.host)),
        });
    }
    nodes.sort_by_key(place);
    let note = stranger.map(|placed| {
        let (line, name) = (line(placed.switch), placed.host);
        format!("{file}, line {line}: {name} is not a node of this job; such names are ignored")
    });
    Ok(note)
}

/// A host's name as it is listed, and without its domain.
fn names_of(node: &NodeAddress) -> [&str; 2] {
    [&node.host, node.host.split('.').next().unwrap_or_default()]
}

fn problem_of(lost: &NodeAddress, stranger: Option<&str>) -> String {
    let named = stranger.map(|name| format!("{name} is not a node of this job, and ")).unwrap_or_default();
    let host = &lost.host;
    format!("{named}the job's node {host} is on no switch; name it as the list of nodes does, or leave --topology out")
}

/// Slurm's own topology: lines in the form of `topology.conf`. `None` where it has none.
fn told_by_slurm() -> Option<String> {
    // Where it has no switches it says so in a sentence.
    scontrol(&["show", "topology"]).map(|text| if text.contains('=') { text } else { String::new() })
}

/// Sorts by names that say where a host is, if all do: `x3000c0s1b0n0` of HPE Cray EX is a cabinet, chassis, slot, board
/// and node, and the hosts of a dragonfly group are cabinets beside each other.
fn sort_by_names(nodes: &mut [NodeAddress]) {
    let places: Option<Vec<[u32; 5]>> = nodes.iter().map(|node| place_in_cabinets(&node.host)).collect();
    if places.is_some() {
        nodes.sort_by_key(|node| place_in_cabinets(&node.host));
    }
}

fn place_in_cabinets(host: &str) -> Option<[u32; 5]> {
    let mut rest = host.split('.').next()?;
    let mut place = [0; 5];
    for (letter, number) in ['x', 'c', 's', 'b', 'n'].into_iter().zip(&mut place) {
        rest = rest.strip_prefix(letter)?;
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        *number = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
    }
    rest.is_empty().then_some(place)
}

/// Reads the file of a topology.
///
/// # Errors
/// `Io` when it cannot be read.
pub fn topology_file(path: &Path) -> Result<TopologySource, LaunchError> {
    let text = std::fs::read_to_string(path).map_err(|error| LaunchError::io("read", path, error))?;
    Ok(TopologySource::File { name: path.display().to_string(), text })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: &str = "# a site\nSwitchName=top Switches=s[1-2]\nSwitchName=s2 Nodes=n[1,3,5] LinkSpeed=9\n\
                        SwitchName=s1 \\\n  Nodes=n[2,4,6]\n";

    fn nodes(hosts: &[&str]) -> Vec<NodeAddress> {
        hosts.iter().map(|host| NodeAddress { host: (*host).to_owned(), port: 7 }).collect()
    }

    fn ordered(text: &str, hosts: &[&str]) -> Result<(Vec<String>, Option<String>), String> {
        let source = TopologySource::File { name: "net.conf".into(), text: text.into() };
        let mut nodes = nodes(hosts);
        let note = in_order(&mut nodes, &source, false).map_err(|error| error.to_string())?;
        Ok((nodes.into_iter().map(|node| node.host).collect(), note))
    }

    #[test]
    fn a_switchs_nodes_stand_beside_each_other() {
        let (order, note) = ordered(TREE, &["n1", "n2", "n3", "n4", "n5", "n6"]).unwrap();
        assert_eq!(order, ["n2", "n4", "n6", "n1", "n3", "n5"]);
        assert_eq!(note, None);
        let (order, note) = ordered(TREE, &["n1.site", "n2.site", "n3.site"]).unwrap();
        assert_eq!(order, ["n2.site", "n1.site", "n3.site"]);
        assert!(note.unwrap().contains("line 4: n4 is not a node of this job"));
    }

    #[test]
    fn nodes_are_on_the_switches_that_something_tells_of() {
        let of = |source: &TopologySource, hosts: &[&str]| {
            let nodes: Vec<NodeAddress> =
                hosts.iter().map(|host| NodeAddress { host: (*host).into(), port: 1 }).collect();
            switches_of(&nodes, source, false)
        };
        let file = TopologySource::File { name: "file".into(), text: TREE.into() };
        let switches = of(&file, &["n2", "n4.site", "n1"]);
        assert!(switches[0] == switches[1] && switches[1] != switches[2], "{switches:?}");
        assert!(of(&file, &["n2", "elsewhere"]).is_empty(), "not all are named");
        let chassis = ["x3000c0s1b0n0", "x3000c0s7b0n1", "x3000c1s1b0n0", "x3001c0s1b0n0"];
        assert_eq!(of(&TopologySource::Auto, &chassis), [0, 0, 1, 2]);
        assert!(of(&TopologySource::Auto, &["n1", "n2"]).is_empty());
        assert!(of(&TopologySource::Off, &chassis).is_empty());
    }

    #[test]
    fn slurm_lists_nodes_of_upper_switches_again() {
        let text = "SwitchName=s0 Level=0 LinkSpeed=1 Nodes=n[2-3]\nSwitchName=s1 Level=0 LinkSpeed=1 Nodes=n[0-1]\n\
                    SwitchName=s2 Level=1 LinkSpeed=1 Nodes=n[0-3] Switches=s[0-1]\n";
        assert_eq!(ordered(text, &["n0", "n1", "n2", "n3"]).unwrap().0, ["n2", "n3", "n0", "n1"]);
    }

    #[test]
    fn a_bad_file_is_named_with_its_line_and_what_to_do() {
        let message = |text: &str, hosts: &[&str]| ordered(text, hosts).unwrap_err();
        let misspelt = message("SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=m3\n", &["n1", "n2", "n3"]);
        assert_eq!(
            misspelt,
            "net.conf, line 2: m3 is not a node of this job, and the job's node n3 is on no switch; name it as the list of \
             nodes does, or leave --topology out"
        );
        let lacking = message("SwitchName=a Nodes=n1\n", &["n1", "n2"]);
        assert!(lacking.starts_with("net.conf: the job's node n2 is on no switch"), "{lacking}");
        for (text, part) in [
            ("SwitchName=a Nodes=n1\nSwitchName=b Switches=a,c\n", "line 2: b names the switch c, which has no line"),
            ("SwitchName=a Switches=b\nSwitchName=b Switches=a\n", "line 1: the switch a is below itself"),
            ("SwitchName=a Nodes=n1\nSwitchName=a Nodes=n2\n", "line 2: a is on line 1 already"),
            ("\nNodes=n1\n", "line 2: it has no SwitchName"),
            ("SwitchName=a Nodes=n[1\n", "line 1: the host list 'n[1' cannot be read"),
            ("SwitchName=a nodes\n", "line 1: 'nodes' is not KEY=VALUE"),
            ("", "the job's node n1 is on no switch"),
        ] {
            let message = message(text, &["n1"]);
            assert!(message.contains(part), "{text}: {message}");
        }
    }

    #[test]
    fn names_of_cabinets_are_an_order() {
        let mut hosts = nodes(&["x1001c0s0b0n1", "x1000c7s10b0n0", "x1000c7s9b1n0", "x1000c7s9b0n0"]);
        in_order(&mut hosts, &TopologySource::Auto, false).unwrap();
        let order: Vec<&str> = hosts.iter().map(|node| node.host.as_str()).collect();
        assert_eq!(order, ["x1000c7s9b0n0", "x1000c7s9b1n0", "x1000c7s10b0n0", "x1001c0s0b0n1"]);
        let listed = nodes(&["login2", "x1000c0s0b0n0", "a"]);
        let mut hosts = listed.clone();
        in_order(&mut hosts, &TopologySource::Auto, false).unwrap();
        assert_eq!(hosts, listed, "one of them tells nothing");
    }

    #[test]
    fn off_leaves_the_order() {
        let mut hosts = nodes(&["x2c0s0b0n0", "x1c0s0b0n0", "x0c0s0b0n0"]);
        in_order(&mut hosts, &TopologySource::Off, false).unwrap();
        assert_eq!(hosts[0].host, "x2c0s0b0n0");
    }
}
