//! Directories that are gone, as programs go on seeing them that have them open or work in them: without names, and empty.
//!
//! The kernel does not report that a directory is a program's working directory, so nodes cannot say which of them are in use. The tree
//! remembers the last ones instead. Steps on the backing file system do not depend on these.

use std::collections::VecDeque;

use forebay_types::{Attributes, FileId, Map};
use forebay_wire::write::FileState;
use serde::{Deserialize, Serialize};

use super::nodes::Node;
use crate::limits::REMOVED_MAX;

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Removed {
    /// The last state of each, with the directory that it was in.
    states: Map<FileId, (FileState, FileId)>,
    /// In the order in which they were removed.
    order: VecDeque<FileId>,
}

impl Removed {
    /// A directory has lost its name.
    pub fn note(&mut self, file: FileId, node: &Node) {
        let attributes = Attributes { nlink: 0, ..node.attributes };
        let state = FileState { file, attributes, version: node.version };
        self.states.insert(file, (state, node.directory));
        self.order.push_back(file);
        if self.order.len() > REMOVED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.states.remove(&oldest);
        }
    }

    /// The last state of a directory, and where it was.
    pub fn get(&self, file: FileId) -> Option<&(FileState, FileId)> {
        self.states.get(&file)
    }
}

#[cfg(test)]
mod tests {
    use forebay_types::NodeRank;

    use super::super::nodes::{Contents, Directory};
    use super::*;

    #[test]
    fn only_the_last_ones_are_remembered() {
        let mut removed = Removed::default();
        let id = |serial| FileId { creator: NodeRank(0), serial };
        let attributes = Attributes { nlink: 2, ..Attributes::default() };
        let node = Node::new(attributes, Contents::Directory(Directory::new(false)), id(0));
        for serial in 1..=REMOVED_MAX as u64 + 1 {
            removed.note(id(serial), &node);
        }
        assert_eq!(removed.get(id(1)), None);
        let last = removed.get(id(REMOVED_MAX as u64 + 1)).map(|(state, parent)| (state.attributes.nlink, *parent));
        assert_eq!((last, removed.order.len(), removed.states.len()), (Some((0, id(0))), REMOVED_MAX, REMOVED_MAX));
    }
}
