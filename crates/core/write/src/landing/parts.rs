//! The same in parts, as it travels with its tree.

use std::ops::Range;

use super::Landing;

impl Landing {
    /// The contents of some parts (`Versioned::only`): the first one also has what is not in parts.
    pub fn parts(&self, parts: Range<usize>) -> Self {
        let rest = if parts.start == 0 { self.not_in_parts() } else { Self::default() };
        Self {
            steps: self.steps.only(parts.clone()),
            names: self.names.only(parts.clone()),
            kinds: self.kinds.only(parts.clone()),
            backed: self.backed.parts(parts.clone()),
            there: self.there.only(parts.clone()),
            changes: self.changes.parts(parts),
            ..rest
        }
    }

    /// Adds what other parts than the first have.
    pub fn absorb(&mut self, other: Self) {
        self.steps.absorb(other.steps);
        self.names.absorb(other.names);
        self.kinds.absorb(other.kinds);
        self.backed.absorb(other.backed);
        self.there.absorb(other.there);
        self.changes.absorb(other.changes);
    }

    fn not_in_parts(&self) -> Self {
        let (left, drafts, aside) = (self.left.clone(), self.drafts.clone(), self.aside.clone());
        let of_directory = self.of_directory.clone();
        Self { first: self.first, of_directory, left, drafts, aside, ..Self::default() }
    }
}
