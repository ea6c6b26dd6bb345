//! The checks of a history: each finding says which check made it.

use std::fmt;

/// A check.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Check {
    /// Bytes are those of the file's version, as many as it has.
    Contents,
    /// A name leads to what stood there, not before what the node must have forgotten.
    Floor,
    /// A directory lists what stood in it, with its attributes.
    Listing,
    /// An error has a cause at its node, path and time.
    Error,
    /// A request is answered in time.
    Stall,
    /// A refresh is completed, and names whom it did not reach.
    Refresh,
    /// No request is under way when all has ended.
    Settled,
    /// No more nodes read the backing file system than had nobody to ask.
    Reads,
    /// Second requests keep to their budget.
    Hedges,
}

impl fmt::Display for Check {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::Contents => "contents",
            Self::Floor => "floor",
            Self::Listing => "listing",
            Self::Error => "error",
            Self::Stall => "stall",
            Self::Refresh => "refresh",
            Self::Settled => "settled",
            Self::Reads => "reads",
            Self::Hedges => "hedges",
        })
    }
}
