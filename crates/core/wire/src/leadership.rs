//! Ownership of a burst tree: its owner, the history that others know, and how another node comes to own it.

use forebay_types::NodeRank;
use serde::{Deserialize, Serialize};

use crate::message::Checked;
use crate::write::Change;

/// Changes that a node keeps until the standby has them.
pub const UNREPLICATED_MAX: usize = 1 << 10;

/// The leader.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Leadership {
    /// Leaders of the tree before it.
    pub term: u64,
    /// The node.
    pub leader: NodeRank,
}

/// Above the epochs of all leaders: with one a second, nine million years pass before a tree gets there.
pub const EPOCHS_END: u64 = 1 << 48;

/// Above the counts of all histories: 146 years pass before one with a change a nanosecond gets there.
const COUNTS_END: u64 = 1 << 62;

impl Leadership {
    /// The leader after this one, on `node`; `None` where there can be none.
    #[must_use]
    pub fn next(self, node: NodeRank) -> Option<Self> {
        Some(Self { term: self.term.checked_add(1)?, leader: node }).filter(Self::is_within_limits)
    }
}

/// The leader's message to the voters.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Renewal {
    /// The leader.
    pub leadership: Leadership,
    /// Its history (`ReplicatedIndex`).
    pub incarnation: u64,
    /// Which renewal of it this is: they may overtake each other.
    pub number: u64,
    /// Whether it waits for the standby.
    pub is_followed: bool,
}

/// A node that would lead the tree.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct VoteRequest {
    /// As its owner.
    pub leadership: Leadership,
    /// The history that it has followed.
    pub incarnation: u64,
    /// Whether only is asked how the vote would be.
    pub is_trial: bool,
}

/// The fate of a vote request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum VoteReply {
    /// The node votes for it.
    Granted,
    /// The leader may still believe that it leads the tree.
    TooEarly,
    /// The bidder may lack what has happened.
    Behind,
    /// There is a newer leader.
    Newer(Leadership),
}

/// Changes that a node hands to the tree's next leader, `UNREPLICATED_MAX` at most.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Replayed(pub Vec<(ReplicatedIndex, Change)>);

/// How much of a stream a node has: of a tree's history, or of the records of another node's log.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct ReplicatedIndex {
    /// Each daemon of the node that leads begins another, since a cut of power may have taken the end of the one before.
    pub incarnation: u64,
    /// How many entries.
    pub count: u64,
}

/// The leader's answer to the standby.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Followed {
    /// Changes that were carried out after those which it has.
    Changes {
        /// Its history with them.
        have: ReplicatedIndex,
        /// In their order, encoded; none when nothing happened for a time.
        changes: Vec<Vec<u8>>,
    },
    /// Parts of the tree itself: what it has is too old, or of another tree.
    Parts {
        /// The history that made the tree.
        have: ReplicatedIndex,
        /// The first of these parts.
        first: u32,
        /// The one that comes after them, if there are more.
        next: Option<u32>,
        /// Encoded by the write core.
        tree: Vec<u8>,
    },
    /// No answer for now: another question is being answered, or this node does not lead the tree any more.
    NotNow,
}

impl Checked for Leadership {
    fn is_within_limits(&self) -> bool {
        self.term < EPOCHS_END
    }
}

impl Checked for ReplicatedIndex {
    fn is_within_limits(&self) -> bool {
        self.count < COUNTS_END
    }
}

impl Checked for Result<(), Leadership> {
    fn is_within_limits(&self) -> bool {
        self.as_ref().err().is_none_or(Leadership::is_within_limits)
    }
}

impl Checked for VoteReply {
    fn is_within_limits(&self) -> bool {
        !matches!(self, Self::Newer(leadership) if !leadership.is_within_limits())
    }
}

impl Checked for Replayed {
    fn is_within_limits(&self) -> bool {
        let is_one = |(have, change): &(ReplicatedIndex, Change)| have.is_within_limits() && change.is_within_limits();
        self.0.len() <= UNREPLICATED_MAX && self.0.iter().all(is_one)
    }
}

impl Checked for Followed {
    fn is_within_limits(&self) -> bool {
        // For the rest, the leader sends what it has.
        match self {
            Self::Changes { have, .. } | Self::Parts { have, .. } => have.is_within_limits(),
            Self::NotNow => true,
        }
    }
}
