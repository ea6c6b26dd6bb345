//! The answer to a query, before anybody has seen it: neither text nor JSON nor a plot.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use forebay_query::{Operator, State};

/// What a query comes to.
pub struct Answer {
    pub operators: Vec<Operator>,
    pub files: usize,
    /// Of all files.
    pub state: State,
    /// Of the columns that were asked for.
    pub names: Vec<String>,
    /// Outputs, if a column was normalised.
    pub normalised: Vec<PathBuf>,
    pub makings: Makings,
    pub took: Duration,
}

/// Who read.
pub struct Makings {
    /// `host`, `data` or `split`.
    pub place: &'static str,
    /// Bytes that each node read, where some did; None is this host.
    pub bytes: BTreeMap<Option<u32>, u64>,
}

impl Answer {
    /// Whether it was asked for.
    pub fn has(&self, operator: Operator) -> bool {
        self.operators.contains(&operator)
    }
}
