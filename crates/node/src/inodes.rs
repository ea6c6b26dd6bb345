//! The inodes that the kernel knows of, by its rule: each lookup is counted, and forgotten with a count.
//!
//! A number stands for one path and, for a file, one generation of it: a changed file is a new inode, so that no open
//! file can ever yield bytes of two generations. Numbers are never used twice.

use forebay_types::{Attributes, Generation, Kind, Map, ViewPath};

use crate::read_ahead::ReadAhead;

/// An inode's number in this view (FUSE's node id, not `st_ino`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct InodeId(pub u64);

/// The view's root directory (`FUSE_ROOT_ID`).
pub const ROOT_INODE: InodeId = InodeId(1);

/// What is remembered of an inode.
pub(crate) struct Inode {
    pub path: ViewPath,
    pub generation: Generation,
    /// `None` after the caches were cleared: to be asked for again.
    pub attributes: Option<Attributes>,
    pub read_ahead: ReadAhead,
    lookups: u64,
}

/// The table.
pub(crate) struct Inodes {
    by_id: Map<InodeId, Inode>,
    by_path: Map<ViewPath, InodeId>,
    next: u64,
}

impl Inodes {
    /// Only the root, which the kernel never forgets.
    pub fn new() -> Self {
        let mut inodes = Self { by_id: Map::default(), by_path: Map::default(), next: ROOT_INODE.0 + 1 };
        inodes.by_id.insert(ROOT_INODE, Inode::new(ViewPath::root(), None));
        inodes.by_path.insert(ViewPath::root(), ROOT_INODE);
        inodes
    }

    pub fn get(&self, id: InodeId) -> Option<&Inode> {
        self.by_id.get(&id)
    }

    pub fn get_mut(&mut self, id: InodeId) -> Option<&mut Inode> {
        self.by_id.get_mut(&id)
    }

    /// Counts a lookup of `path` and returns its inode: the one known, or a new one for a path not known or for a file
    /// of another generation.
    pub fn remember(&mut self, path: ViewPath, attributes: &Attributes) -> InodeId {
        if let Some(id) = self.by_path.get(&path)
            && let Some(inode) = self.by_id.get_mut(id)
            && inode.may_become(attributes)
        {
            inode.lookups += 1;
            inode.generation = attributes.generation();
            inode.attributes = Some(*attributes);
            return *id;
        }
        let id = InodeId(self.next);
        self.next += 1;
        self.by_path.insert(path.clone(), id);
        self.by_id.insert(id, Inode { lookups: 1, ..Inode::new(path, Some(*attributes)) });
        id
    }

    /// The kernel forgot `count` lookups.
    pub fn forget(&mut self, id: InodeId, count: u64) {
        let Some(inode) = self.by_id.get_mut(&id) else { return };
        inode.lookups = inode.lookups.saturating_sub(count);
        if inode.lookups > 0 || id == ROOT_INODE {
            return;
        }
        if let Some(inode) = self.by_id.remove(&id)
            && self.by_path.get(&inode.path) == Some(&id)
        {
            self.by_path.remove(&inode.path);
        }
    }

    /// Lets all attributes be asked for again, and names the inodes, in the order of their numbers.
    pub fn make_stale(&mut self) -> Vec<(InodeId, ViewPath)> {
        self.forget_attributes(|_| true);
        self.within(|_| true)
    }

    /// Lets the attributes of inodes be asked for again.
    pub fn forget_attributes(&mut self, of: impl Fn(&ViewPath) -> bool) {
        self.by_id.values_mut().filter(|inode| of(&inode.path)).for_each(|inode| inode.attributes = None);
    }

    /// Names inodes, in the order of their numbers.
    pub fn within(&self, of: impl Fn(&ViewPath) -> bool) -> Vec<(InodeId, ViewPath)> {
        let chosen = self.by_id.iter().filter(|(_, inode)| of(&inode.path));
        let mut chosen: Vec<_> = chosen.map(|(id, inode)| (*id, inode.path.clone())).collect();
        chosen.sort_unstable();
        chosen
    }

    pub fn id_of(&self, path: &ViewPath) -> Option<InodeId> {
        self.by_path.get(path).copied()
    }

    pub fn len(&self) -> usize {
        self.by_id.len()
    }
}

impl Inode {
    fn new(path: ViewPath, attributes: Option<Attributes>) -> Self {
        let generation = attributes.map(|attributes| attributes.generation()).unwrap_or_default();
        Self { path, generation, attributes, read_ahead: ReadAhead::default(), lookups: 0 }
    }

    fn may_become(&self, attributes: &Attributes) -> bool {
        let same_kind = (self.attributes.map(|known| known.kind())).is_none_or(|kind| kind == attributes.kind());
        same_kind && (attributes.kind() == Kind::Directory || self.generation == attributes.generation())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn file(ino: u64, size_bytes: u64) -> Attributes {
        Attributes { ino, size_bytes, mode: 0o100_644, ..Attributes::default() }
    }

    proptest! {
        /// Against the kernel's own bookkeeping: an inode is there exactly as long as lookups are outstanding.
        #[test]
        fn inodes_live_as_long_as_the_kernel_counts_them(steps in proptest::collection::vec((0u8..4, 0u8..6, 1u64..4), 1..300)) {
            let mut inodes = Inodes::new();
            let mut kernel: std::collections::BTreeMap<InodeId, (u64, u8, u64)> = Default::default();
            for (action, name, number) in steps {
                let path = ViewPath::new(format!("f{name}").as_bytes()).unwrap();
                if action < 3 {
                    let id = inodes.remember(path, &file(u64::from(name), number));
                    let known = kernel.entry(id).or_insert((0, name, number));
                    prop_assert_eq!((known.1, known.2), (name, number), "a number stands for one generation");
                    known.0 += 1;
                } else if let Some((id, (count, ..))) = kernel.iter().nth(usize::from(name)).map(|(id, state)| (*id, *state)) {
                    let some = number.min(count);
                    inodes.forget(id, some);
                    if some == count { kernel.remove(&id); } else { kernel.get_mut(&id).unwrap().0 -= some; }
                }
                prop_assert_eq!(inodes.len(), kernel.len() + 1);
                prop_assert!(kernel.keys().all(|id| inodes.get(*id).is_some()));
            }
        }
    }

    #[test]
    fn the_root_is_never_forgotten() {
        let mut inodes = Inodes::new();
        inodes.forget(ROOT_INODE, u64::MAX);
        assert!(inodes.get(ROOT_INODE).is_some());
    }
}
