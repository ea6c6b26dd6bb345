//! The number of a refresh.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Up to which refresh a node has forgotten. Refreshes are numbered upwards by whoever leads them; a job starts at
/// `Epoch::START`. Requests about names carry the epoch of the node that asks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(pub u64);

impl Epoch {
    /// Before the first refresh.
    pub const START: Self = Self(0);
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
