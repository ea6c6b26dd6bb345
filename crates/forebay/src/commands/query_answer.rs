//! The answer to a query, before anybody has seen it: neither text nor JSON nor a plot.

use std::path::PathBuf;
use std::time::Duration;

use forebay_query::{Operator, State};

use crate::commands::query_where::Makings;

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
    /// Whether it is to be shown who read, and why.
    pub explains: bool,
    pub took: Duration,
}

impl Answer {
    /// Whether it was asked for.
    pub fn has(&self, operator: Operator) -> bool {
        self.operators.contains(&operator)
    }
}
