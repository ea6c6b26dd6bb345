//! The outcome of `down`, as the report keeps it.

use serde::{Deserialize, Serialize};

/// The outcome of `down`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct End {
    /// Nodes that ended.
    pub ended: usize,
    /// Nodes that could not be asked, and may still run.
    pub missing: Vec<u32>,
    /// Changes of the burst tier that have not landed.
    pub not_landed: Vec<String>,
    /// Where they are kept, and how they land.
    pub kept: Option<String>,
    /// Nodes that did not say what of the burst tier has not landed.
    pub untold: Vec<u32>,
    /// Whether all that was to be staged out has been.
    pub is_staged_out: bool,
}
