//! The figures of a node of which `status` shows only the sum over the job: its history, and the paths that its programs want most. Each
//! node adds those below it to its own on their way up, so an answer has them once, however many nodes it tells of.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::history::History;
use crate::read::{Amounts, INODES_MAX, ReadParts};

/// See the module.
#[derive(Serialize, Deserialize, Default, Clone, PartialEq, Debug)]
#[serde(default)]
pub struct Summed {
    pub history: Option<History>,
    /// The directories in which programs looked for most absent names, by lookups.
    pub absent_in: Vec<PathAmount>,
    /// The files of which programs read most, by bytes.
    pub most_read: Vec<PathAmount>,
}

/// A path, and its amount.
#[derive(Serialize, Deserialize, Default, Clone, PartialEq, Debug)]
#[serde(default)]
pub struct PathAmount {
    pub path: String,
    pub amount: u64,
    /// The part of it that is of names of libraries, and of Python.
    #[serde(skip_serializing_if = "is_zero")]
    pub libraries: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub python: u64,
}

fn is_zero(amount: &u64) -> bool {
    *amount == 0
}

impl Summed {
    /// Of this node.
    pub fn of(history: History, read: &ReadParts) -> Self {
        let paths = |amounts: Vec<Amounts>| ranked(amounts.iter().filter_map(|amounts| PathAmount::of(amounts, read)));
        Self { history: Some(history), absent_in: paths(read.absent()), most_read: paths(read.most_read()) }
    }

    /// Adds those of other nodes.
    pub fn merge(&mut self, other: Self) {
        match (&mut self.history, other.history) {
            (Some(sum), Some(history)) => sum.merge(history),
            (sum, history) => *sum = sum.take().or(history),
        }
        let both =
            |one: &mut Vec<PathAmount>, other: Vec<PathAmount>| ranked(std::mem::take(one).into_iter().chain(other));
        self.absent_in = both(&mut self.absent_in, other.absent_in);
        self.most_read = both(&mut self.most_read, other.most_read);
    }
}

impl PathAmount {
    /// `None` for a file that the kernel has forgotten.
    fn of(amounts: &Amounts, read: &ReadParts) -> Option<Self> {
        let path = read.core.lock().path_of(amounts.inode)?.to_string();
        let [libraries, python, other] = amounts.by_sort;
        let amount = libraries.saturating_add(python).saturating_add(other);
        Some(Self { path, amount, libraries, python })
    }
}

/// One of each path, the largest first, within the limit.
fn ranked(amounts: impl Iterator<Item = PathAmount>) -> Vec<PathAmount> {
    let mut by_path = BTreeMap::<String, PathAmount>::new();
    for PathAmount { path, amount, libraries, python } in amounts {
        let sum = by_path.entry(path.clone()).or_insert_with(|| PathAmount { path, ..PathAmount::default() });
        sum.amount = sum.amount.saturating_add(amount);
        sum.libraries = sum.libraries.saturating_add(libraries);
        sum.python = sum.python.saturating_add(python);
    }
    let mut ranked: Vec<PathAmount> = by_path.into_values().filter(|of| of.amount > 0).collect();
    ranked.sort_by_key(|of| std::cmp::Reverse(of.amount));
    ranked.truncate(INODES_MAX);
    ranked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_nodes_are_added_ranked_and_bounded() {
        let of =
            |path: &str, amount| PathAmount { path: path.to_owned(), amount, python: amount, ..PathAmount::default() };
        let many = (0..200).map(|index| of(&format!("/many/{index:03}"), 1)).collect();
        let mut sum = Summed { absent_in: vec![of("/b", 5), of("/a", 3)], ..Summed::default() };
        sum.merge(Summed { absent_in: vec![of("/a", 4), of("/none", 0)], most_read: many, ..Summed::default() });
        assert_eq!(sum.absent_in, [of("/a", 7), of("/b", 5)]);
        assert_eq!(sum.most_read.len(), INODES_MAX);
        let text = serde_json::to_string(&sum).unwrap();
        assert_eq!(serde_json::from_str::<Summed>(&text).unwrap(), sum);
        assert!(text.contains("\"history\":null") && text.contains("{\"path\":\"/a\",\"amount\":7,\"python\":7}"));
    }
}
