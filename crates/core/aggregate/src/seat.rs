//! Where an aggregator sits, and where in its domain it begins.

/// The rank that aggregates a domain.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Seat {
    /// The rank.
    pub rank: usize,
    /// Its node.
    pub node: usize,
    /// The window that the first round takes; the others follow in the order of the file, and then those before it.
    pub first_window: usize,
}

impl Seat {
    /// On this rank of this node, from the domain's beginning on.
    #[must_use]
    pub fn new(rank: usize, node: usize) -> Self {
        Self { rank, node, first_window: 0 }
    }

    /// The window that a round takes, of so many.
    #[must_use]
    pub fn window(self, round: usize, rounds: usize) -> usize {
        (self.first_window + round) % rounds
    }
}
