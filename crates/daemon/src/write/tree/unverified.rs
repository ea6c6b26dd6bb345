//! The nodes whose logs may lack what the tree says they have.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use forebay_types::NodeRank;
use forebay_write::timing::VERIFY_AGAIN_AFTER;
use tokio::time::Instant;

/// When to look.
pub struct Unverified {
    nodes: Mutex<BTreeMap<NodeRank, Instant>>,
    /// Held by what looks for a node that did not answer.
    looking: tokio::sync::Mutex<()>,
    /// Held by the task that does so for requests of lost nodes.
    hearing: tokio::sync::Mutex<()>,
    /// How often one has, for each node.
    heard: Mutex<BTreeMap<NodeRank, u64>>,
}

impl Unverified {
    /// These, at once.
    pub fn new(nodes: Vec<NodeRank>) -> Self {
        let now = Instant::now();
        let nodes = Mutex::new(nodes.into_iter().map(|node| (node, now)).collect());
        Self {
            nodes,
            looking: tokio::sync::Mutex::default(),
            hearing: tokio::sync::Mutex::default(),
            heard: Mutex::default(),
        }
    }

    /// A node begins anew.
    pub fn note(&self, node: NodeRank) {
        self.lock().insert(node, Instant::now());
    }

    /// Those that are due, which are to be put back where it stays unknown.
    pub fn take(&self) -> Vec<NodeRank> {
        let (mut nodes, now) = (self.lock(), Instant::now());
        let due: Vec<NodeRank> = nodes.iter().filter(|(_, at)| **at <= now).map(|(node, _)| *node).collect();
        nodes.retain(|node, _| !due.contains(node));
        due
    }

    /// Whether that is not known of a node.
    pub fn has(&self, node: NodeRank) -> bool {
        self.lock().contains_key(&node)
    }

    /// It did not answer.
    pub fn put_back(&self, node: NodeRank) {
        self.lock().entry(node).or_insert_with(|| Instant::now() + VERIFY_AGAIN_AFTER);
    }

    /// Which nodes are lost is changed by no other task meanwhile.
    pub async fn looking(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.looking.lock().await
    }

    /// No other task looks for a node meanwhile.
    pub async fn hearing(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.hearing.lock().await
    }

    /// How often a task has looked for a node.
    pub fn heard(&self, node: NodeRank) -> u64 {
        self.all_heard().get(&node).copied().unwrap_or(0)
    }

    /// A task has looked for a node.
    pub fn note_heard(&self, node: NodeRank) {
        *self.all_heard().entry(node).or_default() += 1;
    }

    fn all_heard(&self) -> MutexGuard<'_, BTreeMap<NodeRank, u64>> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<NodeRank, Instant>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_for_one_node_is_none_for_another() {
        let [one, other] = [1, 2].map(NodeRank);
        let unverified = Unverified::new(vec![]);
        unverified.note_heard(one);
        assert_eq!((unverified.heard(one), unverified.heard(other)), (1, 0));
    }
}
