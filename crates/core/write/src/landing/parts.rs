//! The same in parts, as it travels with its tree.

use super::Landing;

impl Landing {
    /// What one part has (`Versioned::only`): the first one also has what is not in parts.
    pub fn part(&self, part: usize) -> Self {
        let rest = if part == 0 { self.not_in_parts() } else { Self::default() };
        Self {
            steps: self.steps.only(part),
            names: self.names.only(part),
            kinds: self.kinds.only(part),
            backed: self.backed.only(part),
            there: self.there.only(part),
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
    }

    fn not_in_parts(&self) -> Self {
        let (changing, left) = (self.changing.clone(), self.left.clone());
        let (drafts, aside) = (self.drafts.clone(), self.aside.clone());
        let of_directory = self.of_directory.clone();
        Self { first: self.first, of_directory, changing, left, drafts, aside, ..Self::default() }
    }
}
