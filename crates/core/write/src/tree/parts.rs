//! A tree in parts, as it travels.

use super::state::Tree;
use crate::versioned::PARTS;

impl Tree {
    /// The parts from `first` on that have `files_max` files together, one part at least; and which comes next, if any does. The first of
    /// all has what belongs to no file. Copies nothing that is large: the parts share it with the tree.
    #[must_use]
    pub fn parts(&self, first: usize, files_max: usize) -> (Self, Option<usize>) {
        let first = first.min(PARTS - 1);
        let mut parts = self.part(first);
        for next in first + 1..PARTS {
            let part = self.part(next);
            if parts.nodes.len() + part.nodes.len() > files_max {
                return (parts, Some(next));
            }
            parts.absorb(part);
        }
        (parts, None)
    }

    /// Adds parts that come after the first of all.
    pub fn absorb(&mut self, parts: Self) {
        self.nodes.absorb(parts.nodes);
        self.landing.absorb(parts.landing);
    }

    /// How many files and directories there are.
    #[must_use]
    pub fn files(&self) -> usize {
        self.nodes.len()
    }

    fn part(&self, part: usize) -> Self {
        let is_first = part == 0;
        Self {
            nodes: self.nodes.only(part),
            landing: self.landing.part(part),
            results: if is_first { self.results.clone() } else { Default::default() },
            locks: if is_first { self.locks.clone() } else { Default::default() },
            removed: if is_first { self.removed.clone() } else { Default::default() },
            lost: if is_first { self.lost.clone() } else { Default::default() },
            number: self.number,
        }
    }
}
