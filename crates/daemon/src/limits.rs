//! Limits of this crate that several of its modules, or others, need to know; each with its reason.

use std::time::Duration;

/// The least budget that works: some chunks in flight and the listings of a start-up, bytes.
pub const BUDGET_BYTES_MIN: u64 = 16 << 20;

/// How long nothing new must have been used before a start-up counts as over and is written down.
pub const START_UP_QUIET: Duration = Duration::from_secs(3);
