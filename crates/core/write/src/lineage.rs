//! The entries that a leader's log has had, by the incarnations that have written them.

use forebay_wire::write_message::ReplicatedIndex;
use serde::{Deserialize, Serialize};

/// Incarnations that are known before the newest.
const LINES_MAX: usize = 16;

/// The changes that have made a tree, by the daemons of its owner that carried them out. Each daemon has a line, since a loss of
/// power may have taken the end of the line before it. A node with a line up to the start of the next one lacks only the changes
/// after that.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Lineage {
    have: ReplicatedIndex,
    /// How far the lines before it count, oldest first.
    before: Vec<ReplicatedIndex>,
}

impl Lineage {
    /// All changes so far.
    #[must_use]
    pub fn have(&self) -> ReplicatedIndex {
        self.have
    }

    /// Another daemon goes on from here.
    pub fn begin(&mut self, incarnation: u64) {
        if self.have.count > 0 {
            self.before.push(self.have);
        }
        if self.before.len() > LINES_MAX {
            self.before.remove(0);
        }
        self.have.incarnation = incarnation;
    }

    /// One more change.
    pub fn note(&mut self) {
        self.have.count += 1;
    }

    /// Whether a node with this history has no other changes.
    #[must_use]
    pub fn covers(&self, have: ReplicatedIndex) -> bool {
        let mut incarnations = self.before.iter().chain([&self.have]);
        incarnations.any(|incarnation| incarnation.incarnation == have.incarnation && have.count <= incarnation.count)
    }

    /// The first `count` changes, by the line that has made the last of them.
    #[must_use]
    pub fn at(&self, count: u64) -> ReplicatedIndex {
        let incarnation = self.before.iter().find(|incarnation| count <= incarnation.count && count < self.have.count);
        ReplicatedIndex { incarnation: incarnation.unwrap_or(&self.have).incarnation, count }
    }
}
