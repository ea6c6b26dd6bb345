//! Changes of a node that the leader has carried out, and that the standby may not have yet.
//!
//! A change of a name does not wait for the standby. The node keeps the change until the standby has it. If the standby takes
//! the tree over before, the node hands the change over.

use std::collections::VecDeque;

use forebay_wire::write::Change;
use forebay_wire::write_message::{ReplicatedIndex, UNREPLICATED_MAX};

/// See the module.
#[derive(Default, Debug)]
pub struct Unreplicated {
    /// With how much of its history the tree had after each, oldest first.
    changes: VecDeque<(ReplicatedIndex, Change)>,
}

impl Unreplicated {
    /// The leader has carried one out. `have` is the tree's history with it, `safe` that of the standby.
    pub fn note(&mut self, have: ReplicatedIndex, safe: Option<ReplicatedIndex>, change: Change) {
        // Answers may overtake each other.
        let at = self.changes.partition_point(|(before, _)| *before <= have);
        self.changes.insert(at, (have, change));
        if let Some(safe) = safe {
            self.confirm(safe);
        }
    }

    /// The standby has so much.
    pub fn confirm(&mut self, safe: ReplicatedIndex) {
        let count = self.changes.partition_point(|(have, _)| *have <= safe);
        self.changes.drain(..count);
    }

    /// Whether no more may be noted before the standby has those that are kept.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.changes.len() >= UNREPLICATED_MAX
    }

    /// All that are kept, which are not any more.
    #[must_use]
    pub fn take(&mut self) -> Vec<(ReplicatedIndex, Change)> {
        std::mem::take(&mut self.changes).into()
    }

    /// All that come after what the standby has.
    #[must_use]
    pub fn after(&self, safe: ReplicatedIndex) -> Vec<(ReplicatedIndex, Change)> {
        self.changes.iter().filter(|(have, _)| *have > safe).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use forebay_types::{NodeRank, OperationId};
    use forebay_wire::write::{Caller, Operation};

    use super::*;

    fn have(incarnation: u64, count: u64) -> ReplicatedIndex {
        ReplicatedIndex { incarnation, count }
    }

    fn change(serial: u64) -> Change {
        let id = OperationId { node: NodeRank(2), session: 1, serial };
        let operation = Operation::CloseAll;
        Change { id, oldest: 0, caller: Caller::default(), now: forebay_types::Timestamp::default(), operation }
    }

    #[test]
    fn changes_that_the_standby_has_are_not_kept() {
        let mut unreplicated = Unreplicated::default();
        unreplicated.note(have(7, 3), None, change(3));
        unreplicated.note(have(7, 1), None, change(1));
        // The leader's next daemon has all that the one before has carried out.
        unreplicated.note(have(8, 2), Some(have(7, 1)), change(4));
        let kept = |safe| unreplicated.after(safe).iter().map(|(_, change)| change.id.serial).collect::<Vec<_>>();
        assert_eq!(kept(have(0, 0)), [3, 4]);
        assert_eq!(kept(have(7, 3)), [4]);
        assert_eq!(kept(have(8, 0)), [4]);
        unreplicated.confirm(have(8, 2));
        assert!(unreplicated.after(have(0, 0)).is_empty() && !unreplicated.is_full());
    }
}
