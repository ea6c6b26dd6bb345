//! How far the backing file system has followed the tree, as whoever drains is told.

use serde::{Deserialize, Serialize};

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Progress {
    /// Steps that the backing file system has not followed.
    pub steps: usize,
    /// The obstacle to the first of them, if any.
    pub why: Option<String>,
    /// Whether waiting changes nothing of that.
    pub is_final: bool,
    /// Steps that it has followed since the tree began.
    pub landed_steps: u64,
    /// Bytes of the first step that are verified in this attempt, or were in the last one.
    pub attempt_bytes: u64,
}
