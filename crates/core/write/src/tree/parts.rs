//! A tree in parts, as it travels.

use super::state::Tree;
use crate::versioned::PARTS;

impl Tree {
    /// The parts from `first` on that have `files_max` files together, one part at least; and which comes next, if any does. The first of
    /// all has what belongs to no file. Copies nothing that is large: the parts share it with the tree.
    #[must_use]
    pub fn parts(&self, first: usize, files_max: usize) -> (Self, Option<usize>) {
        let first = first.min(PARTS - 1);
        let mut files = 0;
        let fits = |part: &usize| {
            files += self.nodes.len_of(*part);
            *part == first || files <= files_max
        };
        let end = first + (first..PARTS).take_while(fits).count();
        let next = (end < PARTS).then_some(end);
        if first > 0 {
            let (nodes, landing) = (self.nodes.only(first..end), self.landing.parts(first..end));
            let (results, locks, removed, lost, last_committed) = Default::default();
            let number = self.number;
            return (Self { nodes, landing, results, locks, removed, lost, last_committed, number }, next);
        }
        let mut parts = self.clone();
        (parts.nodes, parts.landing) = (self.nodes.only(0..end), self.landing.parts(0..end));
        (parts, next)
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
}
