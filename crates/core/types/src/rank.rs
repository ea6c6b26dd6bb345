//! A daemon's index in the job.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The index of a node's daemon in the job's node list, counted from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeRank(pub u32);

impl fmt::Display for NodeRank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
