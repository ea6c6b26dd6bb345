//! Results of operations, for operations that are sent again.
//!
//! A kernel sends a request again to the next daemon, a node to the next leader; by then it may have been carried out. So each
//! result is kept until the asking node says that it will not ask again (`Change::oldest`).

use std::collections::BTreeMap;

use forebay_types::{Errno, NodeRank, OperationId};
use forebay_wire::write::{Change, Done};
use serde::{Deserialize, Serialize};

use crate::limits;

/// The results of one tree.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Results {
    of: BTreeMap<(NodeRank, Line), OfLine>,
}

/// A node's kernel asks, and its daemon commits, each counting for itself: the session's number says which.
type Line = u64;

/// How many lines there may be.
const LINES: u64 = 4;

/// Those of the newest session of one of a node's lines.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
struct OfLine {
    session: u64,
    /// Everything before it has been carried out, or never will be.
    oldest: u64,
    results: BTreeMap<u64, Result<Done, Errno>>,
}

impl Results {
    /// The result of `id`; `None` when it has not been carried out. If its node has said that it does not ask for it any more, the
    /// answer is EALREADY: its result is forgotten.
    #[must_use]
    pub fn of(&self, id: OperationId) -> Option<Result<Done, Errno>> {
        let node = self.of.get(&(id.node, id.session % LINES))?;
        match id.session.cmp(&node.session) {
            std::cmp::Ordering::Less => Some(Err(Errno::EALREADY)),
            std::cmp::Ordering::Greater => None,
            std::cmp::Ordering::Equal if id.serial < node.oldest => Some(Err(Errno::EALREADY)),
            std::cmp::Ordering::Equal => node.results.get(&id.serial).copied(),
        }
    }

    /// Notes what `change` came to, and forgets what its node does not ask for any more.
    pub fn note(&mut self, change: &Change, result: Result<Done, Errno>) {
        let node = self.of.entry((change.id.node, change.id.session % LINES)).or_default();
        if change.id.session > node.session {
            *node = OfLine { session: change.id.session, ..OfLine::default() };
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
