//! Trees of switches from what is known of a cluster: what Slurm says of its switches, or where hosts' names say they are.
//!
//! Neither says how many cables a switch has upwards. They are taken to carry all that its hosts send, divided by the
//! oversubscription. Hosts that are not the job's count too: their links are there, and nobody else uses them.

use std::collections::{BTreeMap, BTreeSet};

use forebay_types::{Switches, SwitchesError, expand_host_list};

use super::tree::Tree;
use crate::error::CaseError;
use crate::limits;

/// The tree of a job's hosts (all, if none are named) on Slurm's switches. `file` is where the text came from.
///
/// # Errors
/// `CaseError` with the line, or the host that is nowhere.
pub fn from_slurm(text: &str, file: &str, hosts: Option<&str>, oversubscription: f64) -> Result<Tree, CaseError> {
    let switches = parse(text, file)?;
    let listed = switches.hosts();
    if listed.is_empty() {
        return Err(CaseError::NoSwitches { file: file.to_owned() });
    }
    let mut switch_of: BTreeMap<&str, usize> = BTreeMap::new();
    let mut on_switch = vec![0; switches.all().len()];
    for placed in &listed {
        switch_of.entry(placed.host).or_insert_with(|| {
            on_switch[placed.switch] += 1;
            placed.switch
        });
    }
    let place = |host: &str| {
        let found = switch_of.get(host).or_else(|| switch_of.get(without_domain(host)));
        found.copied().ok_or_else(|| CaseError::OnNoSwitch { file: file.to_owned(), host: host.to_owned() })
    };
    let places: Vec<usize> = match hosts {
        Some(list) => distinct(list)?.iter().map(|host| place(host)).collect::<Result<_, _>>()?,
        None => {
            let mut seen = BTreeSet::new();
            listed.iter().filter(|placed| seen.insert(placed.host)).map(|placed| switch_of[placed.host]).collect()
        }
    };
    tree(&places, &switches.above(), &on_switch, oversubscription)
}

/// The tree that hosts' names tell by a pattern: `#` stands for a number, `/` ends the name of a switch, anything else for
/// itself. `r#/n#` has a switch for each rack.
///
/// # Errors
/// `CaseError` with the host that does not match.
pub fn from_host_names(pattern: &str, hosts: &str, oversubscription: f64) -> Result<Tree, CaseError> {
    if !pattern.contains('#') || !pattern.contains('/') || pattern.ends_with('/') {
        return Err(CaseError::Pattern { pattern: pattern.to_owned() });
    }
    let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
    let (mut places, mut above, mut on_switch) = (vec![], vec![], vec![]);
    for host in distinct(hosts)? {
        let names = matched(pattern, without_domain(&host));
        let names = names.ok_or_else(|| CaseError::NotMatched { pattern: pattern.to_owned(), host: host.clone() })?;
        let mut switch = None;
        for name in names {
            let next = above.len();
            let number = *numbers.entry(name).or_insert(next);
            if number == next {
                above.push(switch);
                on_switch.push(0);
            }
            switch = Some(number);
        }
        let lowest = switch.ok_or_else(|| CaseError::Pattern { pattern: pattern.to_owned() })?;
        places.push(lowest);
        on_switch[lowest] += 1;
    }
    tree(&places, &above, &on_switch, oversubscription)
}

/// The names of a host's switches, from the top down; none if the host does not match.
fn matched(pattern: &str, host: &str) -> Option<Vec<String>> {
    let (mut at, mut names) = (0, vec![]);
    for part in pattern.chars() {
        let rest = &host[at..];
        at += match part {
            '/' => {
                names.push(host[..at].to_owned());
                0
            }
            '#' => Some(rest.bytes().take_while(u8::is_ascii_digit).count()).filter(|digits| *digits > 0)?,
            part => rest.starts_with(part).then_some(part.len_utf8())?,
        };
    }
    (at == host.len()).then_some(names)
}

fn without_domain(host: &str) -> &str {
    host.split('.').next().unwrap_or_default()
}

/// All hosts on Slurm's switches, in the order in which they are listed.
///
/// # Errors
/// `CaseError` with the line.
pub fn listed(text: &str, file: &str) -> Result<Vec<String>, CaseError> {
    let switches = parse(text, file)?;
    let mut seen = BTreeSet::new();
    let hosts = switches.hosts().into_iter().map(|placed| placed.host.to_owned());
    Ok(hosts.filter(|host| seen.insert(host.clone())).collect())
}

fn parse(text: &str, file: &str) -> Result<Switches, CaseError> {
    let read = Switches::parse(text);
    read.map_err(|SwitchesError { line, problem }| CaseError::Switches { file: file.to_owned(), line, problem })
}

/// The hosts of a list, none of them twice.
///
/// # Errors
/// `CaseError` with what cannot be read, or the host that is there twice.
pub fn distinct(list: &str) -> Result<Vec<String>, CaseError> {
    let hosts = expand_host_list(list).map_err(CaseError::HostList)?;
    let mut seen = BTreeSet::new();
    match hosts.iter().find(|host| !seen.insert(host.as_str())) {
        Some(twice) => Err(CaseError::HostTwice { host: twice.clone() }),
        None => Ok(hosts),
    }
}

/// A tree of places on switches, of which some are below others; what has none above it is below one top.
fn tree(
    places: &[usize],
    above: &[Option<usize>],
    on_switch: &[usize],
    oversubscription: f64,
) -> Result<Tree, CaseError> {
    let mut below: Vec<usize> = vec![0; above.len()];
    for (lowest, hosts) in on_switch.iter().enumerate() {
        let mut at = Some(lowest);
        for _ in 0..=limits::SWITCH_LEVELS_MAX {
            let Some(switch) = at else { break };
            below[switch] += hosts;
            at = above[switch];
        }
        if at.is_some() {
            return Err(CaseError::TooLarge { what: "topology: levels of switches", max: limits::SWITCH_LEVELS_MAX });
        }
    }
    let top = above.len();
    let width = |switch: usize| below[switch] as f64 / oversubscription;
    let mut switches: Vec<(usize, f64)> =
        above.iter().enumerate().map(|(switch, above)| (above.unwrap_or(top), width(switch))).collect();
    switches.push((top, 1.0));
    Ok(Tree::new(places, &switches))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SITE: &str =
        "SwitchName=a Nodes=n[1-4]\nSwitchName=b Nodes=n[5-6]\nSwitchName=top Switches=a,b Nodes=n[1-6]\n";

    #[test]
    fn slurms_switches_with_all_hosts_or_the_jobs() {
        let all = from_slurm(SITE, "site", None, 1.0).unwrap();
        assert_eq!((all.node_count(), all.hop_count(0, 1), all.hop_count(0, 5)), (6, 2, 4));
        let job = from_slurm(SITE, "site", Some("n6,n[1-2].cluster"), 1.0).unwrap();
        assert_eq!((job.node_count(), job.hop_count(1, 2), job.hop_count(0, 1)), (3, 2, 4));
    }

    #[test]
    fn a_switch_carries_what_its_hosts_send_over_the_oversubscription() {
        let tree = from_slurm(SITE, "site", Some("n[1,5]"), 8.0).unwrap();
        let widths: Vec<f64> = tree.widths().skip(4).take(2).collect();
        assert_eq!(widths, [0.5, 0.25], "of all hosts on it, whoever has them");
        assert!((tree.width(0, 1) - 0.25).abs() < 1e-12);
    }

    #[test]
    fn switches_without_one_above_are_below_one_top() {
        let tree = from_slurm("BlockName=x Nodes=n1\nBlockName=y Nodes=n2\n", "blocks", None, 1.0).unwrap();
        assert_eq!(tree.hop_count(0, 1), 4);
    }

    #[test]
    fn names_tell_racks() {
        let tree = from_host_names("r#/n#", "r[1-2]n[1-2]", 1.0).unwrap();
        assert_eq!([(0, 1), (0, 2)].map(|(from, to)| tree.hop_count(from, to)), [2, 4]);
        let cray = from_host_names("x#/c#/s#b#n#", "x1000c0s[0-1]b0n0,x1000c1s0b0n0,x1001c0s0b0n0.site", 1.0).unwrap();
        assert_eq!([1, 2, 3].map(|to| cray.hop_count(0, to)), [2, 4, 6]);
    }

    #[test]
    fn levels_have_a_limit() {
        let lines: Vec<String> =
            (0..40).map(|level| format!("SwitchName=s{level} Switches=s{}\n", level + 1)).collect();
        let text = lines.concat() + "SwitchName=s40 Nodes=n1\n";
        let error = from_slurm(&text, "site", None, 1.0).unwrap_err().to_string();
        assert!(error.contains("levels of switches"), "{error}");
    }
}
