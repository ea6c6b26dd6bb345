//! What operations came to, for those that are sent again.
//!
//! A kernel sends a request again to the next daemon, a node to the next owner; by then it may have been carried out. So each
//! result is kept until the asking node says that it will not ask again (`Change::oldest`).

use std::collections::BTreeMap;

use forebay_types::{Errno, NodeRank, OperationId};
use forebay_wire::write::{Change, Done, NEVER_AGAIN};

use crate::limits;

/// The results of one tree.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Results {
    by_node: BTreeMap<NodeRank, OfNode>,
}

/// Those of one node's newest session.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct OfNode {
    session: u64,
    /// Everything before it has been carried out, or never will be.
    oldest: u64,
    results: BTreeMap<u64, Result<Done, Errno>>,
}

impl Results {
    /// What `id` came to; `None` when it has not been carried out. An operation that is too old to be known is refused by
    /// EIO: whether it was carried out cannot be told.
    #[must_use]
    pub fn of(&self, id: OperationId) -> Option<Result<Done, Errno>> {
        if id.session == NEVER_AGAIN {
            return None;
        }
        let node = self.by_node.get(&id.node)?;
        match id.session.cmp(&node.session) {
            std::cmp::Ordering::Less => Some(Err(Errno::EIO)),
            std::cmp::Ordering::Greater => None,
            std::cmp::Ordering::Equal if id.serial < node.oldest => Some(Err(Errno::EIO)),
            std::cmp::Ordering::Equal => node.results.get(&id.serial).copied(),
        }
    }

    /// Notes what `change` came to, and forgets what its node does not ask for any more.
    pub fn note(&mut self, change: &Change, result: Result<Done, Errno>) {
        if change.id.session == NEVER_AGAIN {
            return;
        }
        let node = self.by_node.entry(change.id.node).or_default();
        if change.id.session > node.session {
            *node = OfNode { session: change.id.session, ..OfNode::default() };
        }
        node.results.insert(change.id.serial, result);
        node.oldest = node.oldest.max(change.oldest);
        node.results = node.results.split_off(&node.oldest);
        while node.results.len() > limits::RESULTS_MAX {
            let Some((serial, _)) = node.results.pop_first() else { return };
            node.oldest = serial + 1;
        }
    }
}
