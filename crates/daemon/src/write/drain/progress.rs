//! How far the backing file system has followed the tree, as whoever drains is told.

use serde::{Deserialize, Serialize};

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Progress {
    /// Steps that the backing file system has not followed.
    pub steps: usize,
    /// The obstacle to the first of them, if any.
    pub why: Option<String>,
    /// Whether unsynced changes of programs are lost, and no `fsync` has told of them.
    #[serde(default)]
    pub has_lost_changes: bool,
    /// Whether waiting changes nothing of that.
    pub is_final: bool,
    /// Steps that it has followed since the tree began.
    pub landed_steps: u64,
    /// Bytes of the first step that are verified in this attempt, or were in the last one.
    pub attempt_bytes: u64,
    /// Bytes that the backing file system does not have.
    #[serde(default)]
    pub bytes: u64,
    /// Files that have such bytes.
    #[serde(default)]
    pub files: u64,
    /// Bytes that were sent and verified since the leader's daemon began.
    #[serde(default)]
    pub landed_bytes: u64,
    /// How fast that went lately; `None` where too little was sent.
    #[serde(default)]
    pub bytes_per_s: Option<u64>,
    /// How long the rest takes; `None` where that is not known.
    #[serde(default)]
    pub time_left_ms: Option<u64>,
}
