//! Changes of a node that the owner has carried out, and that the tree's second home may not have yet.
//!
//! A change of a name does not wait for the second home. The node keeps the change until the second home has it. If the second home takes
//! the tree over before, the node hands the change over.

use std::collections::VecDeque;

use forebay_wire::write::Change;
use forebay_wire::write_message::{Have, UNCONFIRMED_MAX};

/// See the module.
#[derive(Default, Debug)]
pub struct Unconfirmed {
    /// With how much of its history the tree had after each, oldest first.
    changes: VecDeque<(Have, Change)>,
}

impl Unconfirmed {
    /// The owner has carried one out. `have` is the tree's history with it, `safe` that of the second home.
    pub fn note(&mut self, have: Have, safe: Option<Have>, change: Change) {
        // Answers may overtake each other.
        let at = self.changes.partition_point(|(before, _)| *before <= have);
        self.changes.insert(at, (have, change));
        if let Some(safe) = safe {
            self.confirm(safe);
        }
    }

    /// The second home has so much.
    pub fn confirm(&mut self, safe: Have) {
        let count = self.changes.partition_point(|(have, _)| *have <= safe);
        self.changes.drain(..count);
    }

    /// Whether no more may be noted before the second home has those that are kept.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.changes.len() >= UNCONFIRMED_MAX
    }

    /// All that are kept, which are not any more.
    #[must_use]
    pub fn take(&mut self) -> Vec<(Have, Change)> {
        std::mem::take(&mut self.changes).into()
    }

    /// All that come after what the second home has.
    #[must_use]
    pub fn after(&self, safe: Have) -> Vec<(Have, Change)> {
        self.changes.iter().filter(|(have, _)| *have > safe).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use forebay_types::{NodeRank, OperationId};
    use forebay_wire::write::{Caller, Operation};

    use super::*;

    fn have(line: u64, count: u64) -> Have {
        Have { line, count }
    }

    fn change(serial: u64) -> Change {
        let id = OperationId { node: NodeRank(2), session: 1, serial };
        let operation = Operation::CloseAll;
        Change { id, oldest: 0, caller: Caller::default(), now: forebay_types::Timestamp::default(), operation }
    }

    #[test]
    fn what_the_second_home_has_is_not_kept() {
        let mut unconfirmed = Unconfirmed::default();
        unconfirmed.note(have(7, 3), None, change(3));
        unconfirmed.note(have(7, 1), None, change(1));
        // The owner's next daemon has all that the one before has carried out.
        unconfirmed.note(have(8, 2), Some(have(7, 1)), change(4));
        let kept = |safe| unconfirmed.after(safe).iter().map(|(_, change)| change.id.serial).collect::<Vec<_>>();
        assert_eq!(kept(have(0, 0)), [3, 4]);
        assert_eq!(kept(have(7, 3)), [4]);
        assert_eq!(kept(have(8, 0)), [4]);
        unconfirmed.confirm(have(8, 2));
        assert!(unconfirmed.after(have(0, 0)).is_empty() && !unconfirmed.is_full());
    }
}
