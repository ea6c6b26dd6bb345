//! Ownership of a burst tree: its owner, the history that others know, and how another node comes to own it.

use forebay_types::NodeRank;
use serde::{Deserialize, Serialize};

use crate::message::Checked;
use crate::write::Change;

/// Changes that a node keeps until the tree's second home has them.
pub const UNCONFIRMED_MAX: usize = 1 << 10;

/// The owner of a tree.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Owns {
    /// Owners of the tree before it.
    pub epoch: u64,
    /// The node.
    pub node: NodeRank,
}

/// Above the epochs of all owners: with one a second, nine million years pass before a tree gets there.
pub const EPOCHS_END: u64 = 1 << 48;

/// Above the counts of all histories: 146 years pass before one with a change a nanosecond gets there.
const COUNTS_END: u64 = 1 << 62;

impl Owns {
    /// The owner after this one, on `node`; `None` where there can be none.
    #[must_use]
    pub fn next(self, node: NodeRank) -> Option<Self> {
        Some(Self { epoch: self.epoch.checked_add(1)?, node }).filter(Self::is_within_limits)
    }
}

/// The owner's message to the council.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Renewal {
    /// The owner.
    pub owns: Owns,
    /// Its history (`Have`).
    pub line: u64,
    /// Which renewal of it this is: they may overtake each other.
    pub number: u64,
    /// Whether it waits for the tree's second home.
    pub is_followed: bool,
}

/// A node that would own the tree.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Bid {
    /// As its owner.
    pub owns: Owns,
    /// The history that it has followed.
    pub line: u64,
    /// Whether only is asked how the vote would be.
    pub is_trial: bool,
}

/// The fate of a bid.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Verdict {
    /// The node votes for it.
    Granted,
    /// The owner may still believe that it owns the tree.
    TooEarly,
    /// The bidder may lack what has happened.
    Behind,
    /// There is a newer owner.
    Newer(Owns),
}

/// Changes that a node hands to the tree's next owner, `UNCONFIRMED_MAX` at most.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Handed(pub Vec<(Have, Change)>);

/// How much of a stream a node has: of a tree's history, or of the records of another node's log.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Have {
    /// Each daemon of the node that leads begins another, since a cut of power may have taken the end of the one before.
    pub line: u64,
    /// How many entries.
    pub count: u64,
}

/// The owner's answer to the tree's second home.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Followed {
    /// Changes that were carried out after those which it has.
    Changes {
        /// Its history with them.
        have: Have,
        /// In their order, encoded; none when nothing happened for a time.
        changes: Vec<Vec<u8>>,
    },
    /// Parts of the tree itself: what it has is too old, or of another tree.
    Parts {
        /// The history that made the tree.
        have: Have,
        /// The first of these parts.
        first: u32,
        /// The one that comes after them, if there are more.
        next: Option<u32>,
        /// Encoded by the write core.
        tree: Vec<u8>,
    },
    /// No answer for now: another question is being answered, or this node does not own the tree any more.
    NotNow,
}

impl Checked for Owns {
    fn is_within_limits(&self) -> bool {
        self.epoch < EPOCHS_END
    }
}

impl Checked for Have {
    fn is_within_limits(&self) -> bool {
        self.count < COUNTS_END
    }
}

impl Checked for Result<(), Owns> {
    fn is_within_limits(&self) -> bool {
        self.as_ref().err().is_none_or(Owns::is_within_limits)
    }
}

impl Checked for Verdict {
    fn is_within_limits(&self) -> bool {
        !matches!(self, Self::Newer(owns) if !owns.is_within_limits())
    }
}

impl Checked for Handed {
    fn is_within_limits(&self) -> bool {
        let is_one = |(have, change): &(Have, Change)| have.is_within_limits() && change.is_within_limits();
        self.0.len() <= UNCONFIRMED_MAX && self.0.iter().all(is_one)
    }
}

impl Checked for Followed {
    fn is_within_limits(&self) -> bool {
        // For the rest, the owner sends what it has.
        match self {
            Self::Changes { have, .. } | Self::Parts { have, .. } => have.is_within_limits(),
            Self::NotNow => true,
        }
    }
}
