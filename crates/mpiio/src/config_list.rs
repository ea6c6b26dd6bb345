//! ROMIO's `cb_config_list`: which hosts have aggregators, and how many. `*:1`, one on each host, is ROMIO's default; ours is to let the planner choose.
//!
//! Entries are `HOST` or `HOST:COUNT`, with `*` for all hosts that no earlier entry names, and `*` as a count for all
//! ranks of the host; without a count it is one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Entries in their order: a host, or all others, and how many of its ranks, or all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigList(Vec<(Option<String>, Option<u32>)>);

impl ConfigList {
    /// A list as the hint has it; `None` for anything else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let entry = |text: &str| {
            let (host, count) = text.trim().split_once(':').unwrap_or((text.trim(), "1"));
            let count = if count == "*" { None } else { Some(count.parse().ok()?) };
            match host {
                "" => None,
                "*" => Some((None, count)),
                host => Some((Some(host.to_owned()), count)),
            }
        };
        text.split(',').map(entry).collect::<Option<Vec<_>>>().map(Self)
    }

    /// The ranks that may aggregate, in the order in which they are taken: the first of every host before the second of any.
    /// Rank 0 alone where the list leaves nobody.
    #[must_use]
    pub fn candidates(&self, hosts: &[String]) -> Vec<usize> {
        let mut of_host: BTreeMap<&str, u32> = BTreeMap::new();
        let mut candidates = vec![];
        for (rank, host) in hosts.iter().enumerate() {
            let number = of_host.entry(host).or_default();
            if self.allowed(host).is_none_or(|allowed| *number < allowed) {
                candidates.push((*number, rank));
            }
            *number += 1;
        }
        candidates.sort_unstable();
        let ranks: Vec<usize> = candidates.into_iter().map(|(_, rank)| rank).collect();
        if ranks.is_empty() { vec![0] } else { ranks }
    }

    /// How many ranks of a host may aggregate; `None` for all of them.
    fn allowed(&self, host: &str) -> Option<u32> {
        let names = |name: &Option<String>| name.as_ref().is_some_and(|name| name == host);
        let entry =
            self.0.iter().find(|(name, _)| names(name)).or_else(|| self.0.iter().find(|(name, _)| name.is_none()));
        entry.map_or(Some(0), |(_, count)| *count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(text: &str) -> Vec<usize> {
        let hosts = ["a", "a", "a", "b", "b", "c"].map(str::to_owned);
        ConfigList::parse(text).unwrap().candidates(&hosts)
    }

    #[test]
    fn lists_choose_as_those_of_romio() {
        assert_eq!(candidates("*:1"), [0, 3, 5]);
        assert_eq!(candidates("*:2"), [0, 3, 5, 1, 4]);
        assert_eq!(candidates("*:*").len(), 6);
        assert_eq!(candidates("b:2"), [3, 4]);
        assert_eq!(candidates("b:0,*"), [0, 5]);
        assert_eq!(candidates("nowhere:3"), [0], "somebody has to");
        assert_eq!(ConfigList::parse(":1"), None);
        assert_eq!(ConfigList::parse("a:b"), None);
    }
}
