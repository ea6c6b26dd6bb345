//! The answer to a query, before anybody has seen it: neither text nor JSON nor a plot.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use forebay_query::{Operator, State};

use crate::commands::query_column::Written;
use crate::commands::query_where::Makings;

/// What a query comes to.
pub struct Answer {
    pub operators: Vec<Operator>,
    pub files: usize,
    /// Of all files.
    pub state: State,
    /// Lines and bytes that bad rows cover.
    pub bad_extent: (u64, u64),
    /// Of the columns that were asked for.
    pub names: Vec<String>,
    /// Outputs, if a column was normalised, and who wrote them.
    pub normalised: Vec<(PathBuf, Written)>,
    pub makings: Makings,
    /// Whether it is to be shown who read, and why.
    pub explains: bool,
    pub took: Duration,
}

impl Answer {
    /// Bytes of the files whose values each node made; None is this host.
    pub fn values_made_by(&self) -> BTreeMap<Option<u32>, u64> {
        let mut all = BTreeMap::new();
        for (node, bytes) in self.normalised.iter().flat_map(|(_, written)| &written.made.bytes) {
            *all.entry(*node).or_default() += bytes;
        }
        all
    }

    /// Whether it was asked for.
    pub fn has(&self, operator: Operator) -> bool {
        self.operators.contains(&operator)
    }
}
