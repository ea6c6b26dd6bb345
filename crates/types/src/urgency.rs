//! Who waits for a question: what is asked for a program goes before what is asked ahead of one.

/// How much depends on the answer to a question.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Urgency {
    /// No program waits for it yet: prefetch, prefill, what is anticipated.
    Ahead,
    /// A program waits for it, on this node or on one that asked this node.
    Demand,
}
