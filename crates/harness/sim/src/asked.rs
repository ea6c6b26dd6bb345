//! What the backing file system was asked, and by whom: each question belongs to a tree, whose root alone should ask it.

use std::collections::{BTreeMap, BTreeSet};

use forebay_cache::Key;
use forebay_node::placement;
use forebay_wire::ReadMessage;

use crate::NodeIndex;
use crate::job::Job;
use crate::tables::{Asked, Caller};

impl Job<'_> {
    pub(crate) fn note_asked(&mut self, by: Caller, request: &ReadMessage) {
        let Some(key) = Key::of(request) else { return };
        // Once for every file that turns out to have changed, at every node that had been told of it.
        if matches!(key, Key::Recheck { .. }) {
            return;
        }
        let (class, number) = placement(&key);
        let new = || Asked { tree: *self.forest.tree_of(class, number), readers: BTreeMap::new() };
        let asked = self.asked.entry(format!("{request:?}")).or_insert_with(new);
        *asked.readers.entry((by.node, by.life)).or_default() += 1;
    }

    /// What the backing file system answered more than once.
    #[must_use]
    pub fn asked_more_than_once(&self) -> Vec<String> {
        let often = |asked: &Asked| asked.readers.values().sum::<u32>() > 1;
        self.asked.iter().filter(|(_, asked)| often(asked)).map(|(what, _)| what.clone()).collect()
    }

    /// The nodes that read the backing file system.
    #[must_use]
    pub fn readers(&self) -> BTreeSet<NodeIndex> {
        self.asked.values().flat_map(|asked| asked.readers.keys().map(|(node, _)| *node)).collect()
    }
}
