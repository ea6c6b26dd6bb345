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
        true
    }
}

impl Checked for Result<(), Owns> {
    fn is_within_limits(&self) -> bool {
        true
    }
}

impl Checked for Verdict {
    fn is_within_limits(&self) -> bool {
        true
    }
}

impl Checked for Handed {
    fn is_within_limits(&self) -> bool {
        self.0.len() <= UNCONFIRMED_MAX && self.0.iter().all(|(_, change)| change.is_within_limits())
    }
}

impl Checked for Followed {
    fn is_within_limits(&self) -> bool {
        // The owner's, which sends what it has.
        true
    }
}
