//! Who waits for a question: what is asked for a program goes before what is asked ahead of one.

use serde::{Deserialize, Serialize};

/// How much depends on the answer to a question.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Urgency {
    /// No program waits for it yet: prefetch, prefill, what is anticipated.
    Ahead,
    /// A program waits for it, on this node or on one that asks this node for it.
    Demand,
}
