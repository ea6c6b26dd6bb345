//! Priorities: requests that a program waits for go before prefetches.

use serde::{Deserialize, Serialize};

/// How much depends on the answer to a request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Priority {
    /// No program waits for it yet: prefetch, prefill, read-ahead.
    Prefetch,
    /// A program waits for it, on this node or on one that asks this node for it.
    Demand,
}
