//! The switches of a network as Slurm writes them: `topology.conf` and what `scontrol show topology` prints.
//!
//! Lines such as `SwitchName=s1 Nodes=n[1-4]` and `SwitchName=top Switches=s[1-2]`; blocks of the plugin `topology/block`
//! (`BlockName=b1 Nodes=n[1-4]`) are switches beside each other. Other settings are passed over. A parsed network is consistent:
//! switches that are named have lines, and none is below itself.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::{expand_host_list, limits};

/// Names in a file, all lines together: `scontrol` lists a host again at every switch above it.
const NAMES_MAX: usize = 8 * limits::NODES_MAX;

/// The error of a line.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("line {line}: {problem}")]
pub struct SwitchesError {
    /// Counted from 1.
    pub line: usize,
    /// The error, and its subject.
    pub problem: String,
}

/// A switch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Switch {
    /// Its name.
    pub name: String,
    /// The line that it is on, counted from 1.
    pub line: usize,
    /// Hosts on it, as listed; those on switches below it may be listed again.
    pub hosts: Vec<String>,
    /// Switches below it, by their places in `Switches::all`.
    pub below: Vec<usize>,
}

/// Where a host is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placed<'s> {
    /// Its name, as listed.
    pub host: &'s str,
    /// The lowest switch that lists it, by its place in `Switches::all`.
    pub switch: usize,
}

/// All switches of a network.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Switches {
    all: Vec<Switch>,
}

/// A line that was read, the switches below still by name.
struct Line {
    switch: Switch,
    below: Vec<String>,
}

impl Switches {
    /// Reads them.
    ///
    /// # Errors
    /// `SwitchesError` for the first line that cannot be read or contradicts another.
    pub fn parse(text: &str) -> Result<Self, SwitchesError> {
        let mut lines: Vec<Line> = Vec::new();
        let mut by_name: BTreeMap<String, usize> = BTreeMap::new();
        let mut names = 0;
        for (number, text) in whole_lines(text) {
            let fail = |problem| SwitchesError { line: number, problem };
            let Some(line) = parse_line(number, &text).map_err(fail)? else { continue };
            names += line.switch.hosts.len() + line.below.len();
            if names > NAMES_MAX {
                return Err(fail(format!("up to here more than {NAMES_MAX} names are listed")));
            }
            let name = &line.switch.name;
            if let Some(other) = by_name.insert(name.clone(), lines.len()) {
                return Err(fail(format!("{name} is on line {} already", lines[other].switch.line)));
            }
            lines.push(line);
        }
        let mut all = Vec::with_capacity(lines.len());
        for Line { mut switch, below } in lines {
            for name in &below {
                let Some(index) = by_name.get(name) else {
                    let problem = format!("{} names the switch {name}, which has no line of its own", switch.name);
                    return Err(SwitchesError { line: switch.line, problem });
                };
                switch.below.push(*index);
            }
            all.push(switch);
        }
        let switches = Self { all };
        match switches.walk().seen.iter().position(|seen| !seen) {
            Some(index) => {
                let Switch { line, name, .. } = &switches.all[index];
                Err(SwitchesError { line: *line, problem: format!("the switch {name} is below itself") })
            }
            None => Ok(switches),
        }
    }

    /// All, in the order of their lines.
    #[must_use]
    pub fn all(&self) -> &[Switch] {
        &self.all
    }

    /// All hosts from the top down, a switch's beside each other; one that several switches list stands first where it
    /// belongs, at the lowest.
    #[must_use]
    pub fn hosts(&self) -> Vec<Placed<'_>> {
        self.walk().hosts
    }

    /// The switch above each; none above those at the top. Of several the first from the top down.
    #[must_use]
    pub fn above(&self) -> Vec<Option<usize>> {
        self.walk().above
    }

    /// From each switch that is below no other. A circle is never entered.
    fn walk(&self) -> Walk<'_> {
        let mut is_below = vec![false; self.all.len()];
        self.all.iter().flat_map(|switch| &switch.below).for_each(|below| is_below[*below] = true);
        let mut walk = Walk { hosts: vec![], above: vec![None; self.all.len()], seen: vec![false; self.all.len()] };
        (0..self.all.len()).filter(|index| !is_below[*index]).for_each(|top| walk.down(&self.all, top));
        walk
    }
}

/// A walk through the switches from the top.
struct Walk<'s> {
    hosts: Vec<Placed<'s>>,
    above: Vec<Option<usize>>,
    seen: Vec<bool>,
}

impl<'s> Walk<'s> {
    /// Hosts of the switches below come first: a switch above may list them again.
    fn down(&mut self, all: &'s [Switch], top: usize) {
        self.seen[top] = true;
        let mut way = vec![(top, 0)];
        while let Some((index, done)) = way.pop() {
            let switch = &all[index];
            match switch.below.get(done) {
                Some(below) => {
                    way.push((index, done + 1));
                    if !std::mem::replace(&mut self.seen[*below], true) {
                        self.above[*below] = Some(index);
                        way.push((*below, 0));
                    }
                }
                None => self.hosts.extend(switch.hosts.iter().map(|host| Placed { host, switch: index })),
            }
        }
    }
}

/// A line's switch; none on a line of other settings.
fn parse_line(number: usize, text: &str) -> Result<Option<Line>, String> {
    let text = text.split('#').next().unwrap_or_default();
    let mut switch = Switch { name: String::new(), line: number, hosts: vec![], below: vec![] };
    let (mut below, mut is_other) = (vec![], false);
    for word in text.split_whitespace() {
        let Some((key, value)) = word.split_once('=') else { return Err(format!("'{word}' is not KEY=VALUE")) };
        let list = || expand_host_list(value).map_err(|error| error.to_string());
        match key.to_ascii_lowercase().as_str() {
            "switchname" | "blockname" => value.clone_into(&mut switch.name),
            "nodes" => switch.hosts = list()?,
            "switches" => below = list()?,
            // The aggregate of blocks is no switch that one could know by name.
            "aggregatedblock" => is_other = true,
            _ => {}
        }
    }
    if is_other || (switch.name.is_empty() && switch.hosts.is_empty() && below.is_empty()) {
        return Ok(None);
    }
    if switch.name.is_empty() { Err("it has no SwitchName".to_owned()) } else { Ok(Some(Line { switch, below })) }
}

/// The lines, counted from 1, with those joined that end in a backslash.
fn whole_lines(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    let mut goes_on = false;
    for (number, line) in text.lines().enumerate() {
        let (rest, joins) = line.trim_end().strip_suffix('\\').map_or((line, false), |rest| (rest, true));
        match lines.last_mut().filter(|_| goes_on) {
            Some((_, before)) => before.push_str(rest),
            None => lines.push((number + 1, rest.to_owned())),
        }
        goes_on = joins;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(text: &str) -> Vec<(String, String)> {
        let switches = Switches::parse(text).unwrap();
        let named = switches.hosts().into_iter();
        named.map(|placed| (placed.host.to_owned(), switches.all()[placed.switch].name.clone())).collect()
    }

    fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
        list.iter().map(|(host, switch)| ((*host).to_owned(), (*switch).to_owned())).collect()
    }

    #[test]
    fn a_host_is_on_the_lowest_switch_that_lists_it() {
        let told = "SwitchName=s0 Level=0 LinkSpeed=1 Nodes=n[2-3]\nSwitchName=s1 Level=0 LinkSpeed=1 Nodes=n1\n\
                    SwitchName=s2 Level=1 LinkSpeed=1 Nodes=n[1-3] Switches=s[0-1]\n";
        let first = &hosts(told)[..3];
        assert_eq!(first, pairs(&[("n2", "s0"), ("n3", "s0"), ("n1", "s1")]));
        assert_eq!(Switches::parse(told).unwrap().above(), [Some(2), Some(2), None]);
    }

    #[test]
    fn comments_lines_that_go_on_and_other_settings() {
        let text = "# a site\nSwitchName=s2 \\\n  Nodes=n[1,3] LinkSpeed=9 # fast\n\nBlockSizes=2,4\n";
        assert_eq!(hosts(text), pairs(&[("n1", "s2"), ("n3", "s2")]));
    }

    #[test]
    fn blocks_are_switches_beside_each_other() {
        let text = "BlockName=b0 BlockIndex=0 Nodes=n[1-2] BlockSize=2\nBlockName=b1 BlockIndex=1 Nodes=n3 BlockSize=2\n\
                    AggregatedBlock=b[0-1] BlockIndex=2 Nodes=n[1-3] BlockSize=4\n";
        assert_eq!(hosts(text), pairs(&[("n1", "b0"), ("n2", "b0"), ("n3", "b1")]));
    }

    #[test]
    fn a_bad_line_is_named() {
        for (text, said) in [
            (
                "SwitchName=a Nodes=n1\nSwitchName=b Switches=a,c\n",
                "line 2: b names the switch c, which has no line of its own",
            ),
            ("SwitchName=a Switches=b\nSwitchName=b Switches=a\n", "line 1: the switch a is below itself"),
            ("SwitchName=t Switches=t Nodes=n1\n", "line 1: the switch t is below itself"),
            ("SwitchName=a Nodes=n1\nSwitchName=a Nodes=n2\n", "line 2: a is on line 1 already"),
            ("\nNodes=n1\n", "line 2: it has no SwitchName"),
            (
                "SwitchName=a \\\n Nodes=n[1\n",
                "line 1: the host list 'n[1' cannot be read: the bracket at character 2 is not closed",
            ),
            ("SwitchName=a nodes\n", "line 1: 'nodes' is not KEY=VALUE"),
        ] {
            assert_eq!(Switches::parse(text).unwrap_err().to_string(), said);
        }
    }
}
