//! In which order a plan's directories are listed, and how many at once: what is used first comes first, but nothing before the directory above
//! it. A file system that gives attributes with a listing keeps them for a second or so, and opens what it has just told
//! of without being asked again.

use std::collections::BTreeSet;

use forebay_types::{Map, ViewPath};

/// Listings that all readers of a job ask for ahead at once: few enough that a program's own request never waits long
/// behind them, and enough that none costs the backing file system's latency by itself.
const LISTINGS_AT_ONCE: usize = 16;

/// The same beside the pack. File systems that serve names before contents read nothing as long as their threads have
/// names to look for, and two requests at a time leave them a moment after each.
const LISTINGS_BESIDE_PACK: usize = 2;

/// How many listings one of so many readers asks for ahead at once, while the pack is read or after that. Several readers
/// would have more than a few requests under way beside the pack: they ask after it.
#[must_use]
pub fn listings_at_once(readers: usize, is_beside_pack: bool) -> usize {
    match (is_beside_pack, readers) {
        (true, 0..=1) => LISTINGS_BESIDE_PACK,
        (true, _) => 0,
        (false, _) => (LISTINGS_AT_ONCE / readers.max(1)).max(1),
    }
}

/// The directories that are still to be listed.
pub struct ListingOrder {
    /// All, in the order of first use.
    dirs: Vec<ViewPath>,
    /// Those whose nearest directory above is the one at the same place in `dirs`.
    below: Vec<Vec<usize>>,
    ready: BTreeSet<usize>,
}

impl ListingOrder {
    /// Of the directories that are used, in the order of first use.
    pub fn of<'a>(dirs: impl Iterator<Item = &'a ViewPath>) -> Self {
        let dirs: Vec<ViewPath> = dirs.cloned().collect();
        let places: Map<&ViewPath, usize> = dirs.iter().zip(0..).collect();
        let parent = |dir: &ViewPath| dir.split().map(|(parent, _)| parent);
        let (mut below, mut ready) = (vec![Vec::new(); dirs.len()], BTreeSet::new());
        for (dir, at) in dirs.iter().zip(0..) {
            let mut above = std::iter::successors(parent(dir), parent);
            match above.find_map(|dir| places.get(&dir)) {
                Some(&nearest) => below[nearest].push(at),
                None => drop(ready.insert(at)),
            }
        }
        Self { below, ready, dirs }
    }

    /// The directory at a place has been listed: those below it may be.
    pub fn listed(&mut self, at: usize) {
        self.ready.extend(std::mem::take(&mut self.below[at]));
    }
}

/// The next to be listed, and its place; nothing also while all that is left waits for what is above it.
impl Iterator for ListingOrder {
    type Item = (usize, ViewPath);

    fn next(&mut self) -> Option<Self::Item> {
        self.ready.pop_first().map(|at| (at, self.dirs[at].clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> ViewPath {
        ViewPath::new(text.as_bytes()).unwrap()
    }

    #[test]
    fn first_used_first_but_after_what_is_above() {
        let dirs = ["a/b/c/d", "c", "a/b", "a", "e/f"].map(path);
        let mut order = ListingOrder::of(dirs.iter());
        let mut seen = Vec::new();
        while let Some((at, dir)) = order.next() {
            assert_eq!(dir, dirs[at]);
            seen.push(at);
            order.listed(at);
        }
        assert_eq!(seen, [1, 3, 2, 0, 4]);
    }

    #[test]
    fn requests_below_a_directory_wait_for_its_listing() {
        let dirs = ["a/b", "a"].map(path);
        let mut order = ListingOrder::of(dirs.iter());
        assert_eq!(order.next(), Some((1, path("a"))));
        assert_eq!(order.next(), None);
        order.listed(1);
        assert_eq!(order.next(), Some((0, path("a/b"))));
        assert_eq!(order.next(), None);
    }
}
