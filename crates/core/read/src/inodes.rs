//! The inodes that the kernel knows of, by its rule: each lookup is counted, and forgotten with a count.
//!
//! A number stands for one path and, for a file, one generation of it: a changed file is a new inode, so that no open
//! file can ever yield bytes of two generations. Numbers are never used twice.
//! With a ledger all of this holds beyond the daemon's end: each change is written down before the kernel can be told.

use forebay_types::{Attributes, Generation, Kind, Map, ViewPath};

use crate::inode_id::{InodeId, ROOT_INODE};
use crate::ledger::{InodeLedger, KnownInode, LedgerContents, LedgerPlace};
use forebay_prefetch::ReadAhead;

/// The state of an inode.
pub(crate) struct Inode {
    pub path: ViewPath,
    pub generation: Generation,
    /// `None` after the caches were cleared: to be asked for again.
    pub attributes: Option<Attributes>,
    pub read_ahead: ReadAhead,
    kind: Kind,
    lookups: u64,
    place: Option<LedgerPlace>,
}

/// The table.
pub(crate) struct Inodes {
    by_id: Map<InodeId, Inode>,
    by_path: Map<ViewPath, InodeId>,
    next: u64,
    ledger: Option<Box<dyn InodeLedger>>,
}

impl Inodes {
    /// Only the root, which the kernel never forgets.
    pub fn new() -> Self {
        let mut inodes = Self { by_id: Map::default(), by_path: Map::default(), next: ROOT_INODE.0 + 1, ledger: None };
        inodes.by_id.insert(ROOT_INODE, Inode::new(ViewPath::root(), None));
        inodes.by_path.insert(ViewPath::root(), ROOT_INODE);
        inodes
    }

    /// Takes over what `ledger` holds, and writes down every change from now on.
    pub fn keep(&mut self, ledger: Box<dyn InodeLedger>, contents: LedgerContents) {
        self.next = self.next.max(contents.next);
        let mut known = contents.inodes;
        // Of several inodes of one path the youngest is the one that a lookup finds.
        known.sort_unstable_by_key(|(inode, _)| inode.id);
        for (KnownInode { id, path, generation, kind, lookups }, place) in known {
            self.next = self.next.max(id.0 + 1);
            self.by_path.insert(path.clone(), id);
            let inode = Inode { generation, kind, lookups, place: Some(place), ..Inode::new(path, None) };
            self.by_id.insert(id, inode);
        }
        self.ledger = Some(ledger);
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
            if let (Some(ledger), Some(place)) = (&mut self.ledger, inode.place) {
                ledger.set_lookups(place, inode.lookups);
            }
            inode.generation = attributes.generation();
            inode.attributes = Some(*attributes);
            return *id;
        }
        let id = InodeId(self.next);
        self.next += 1;
        self.by_path.insert(path.clone(), id);
        let mut inode = Inode { lookups: 1, ..Inode::new(path, Some(*attributes)) };
        inode.place = self.ledger.as_mut().and_then(|ledger| ledger.add(&inode.known_as(id)));
        self.by_id.insert(id, inode);
        id
    }

    /// The kernel forgot `count` lookups.
    pub fn forget(&mut self, id: InodeId, count: u64) {
        let Some(inode) = self.by_id.get_mut(&id) else { return };
        inode.lookups = inode.lookups.saturating_sub(count);
        let is_known = inode.lookups > 0 || id == ROOT_INODE;
        if let (Some(ledger), Some(place)) = (&mut self.ledger, inode.place) {
            if is_known { ledger.set_lookups(place, inode.lookups) } else { ledger.remove(place) }
        }
        if is_known {
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
        // Without attributes it is the root, or a kept inode whose kind is known otherwise.
        let kind = attributes.map_or(Kind::Directory, |attributes| attributes.kind());
        Self { path, generation, attributes, read_ahead: ReadAhead::default(), kind, lookups: 0, place: None }
    }

    fn known_as(&self, id: InodeId) -> KnownInode {
        let Self { generation, kind, lookups, .. } = *self;
        KnownInode { id, path: self.path.clone(), generation, kind, lookups }
    }

    /// Whether it stands for what has these attributes: the same version of a file, or a directory in whatever version.
    pub fn may_become(&self, attributes: &Attributes) -> bool {
        let is_directory = self.kind == Kind::Directory;
        self.kind == attributes.kind() && (is_directory || self.generation == attributes.generation())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::sync::Arc;

    fn file(ino: u64, size_bytes: u64) -> Attributes {
        Attributes { ino, size_bytes, mode: 0o100_644, ..Attributes::default() }
    }

    proptest! {
        /// Against the kernel's own bookkeeping: an inode is there exactly as long as lookups are outstanding.
        #[test]
        fn inodes_live_as_long_as_the_kernel_counts_them(steps in proptest::collection::vec((0u8..4, 0u8..6, 1u64..4), 1..300)) {
            let mut inodes = Inodes::new();
            let mut kernel: BTreeMap<InodeId, (u64, u8, u64)> = Default::default();
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

    #[allow(clippy::disallowed_types, reason = "a test's ledger has two owners, the table and the test")]
    type Shared<T> = Arc<std::sync::Mutex<T>>;

    /// A ledger as simple as can be.
    #[derive(Clone, Default)]
    struct Ledger(Shared<BTreeMap<u64, KnownInode>>);

    impl InodeLedger for Ledger {
        fn add(&mut self, inode: &KnownInode) -> Option<LedgerPlace> {
            self.0.lock().unwrap().insert(inode.id.0, inode.clone());
            Some(LedgerPlace(inode.id.0))
        }

        fn set_lookups(&mut self, place: LedgerPlace, lookups: u64) {
            self.0.lock().unwrap().get_mut(&place.0).unwrap().lookups = lookups;
        }

        fn remove(&mut self, place: LedgerPlace) {
            self.0.lock().unwrap().remove(&place.0).unwrap();
        }
    }

    impl Ledger {
        /// The inodes as a daemon that starts now finds them.
        fn reopened(&self, next: u64) -> Inodes {
            let known = self.0.lock().unwrap().values().map(|inode| (inode.clone(), LedgerPlace(inode.id.0))).collect();
            let mut inodes = Inodes::new();
            inodes.keep(Box::new(self.clone()), LedgerContents { inodes: known, next });
            inodes
        }
    }

    proptest! {
        /// Whenever the daemon dies, the next one knows what the kernel knows.
        #[test]
        fn a_death_changes_nothing(steps in proptest::collection::vec((0u8..5, 0u8..6, 1u64..4), 1..300)) {
            let ledger = Ledger::default();
            let mut inodes = ledger.reopened(2);
            let mut kernel: BTreeMap<InodeId, (u64, u8, u64)> = Default::default();
            for (action, name, number) in steps {
                match action {
                    0..3 => {
                        let path = ViewPath::new(format!("f{name}").as_bytes()).unwrap();
                        let id = inodes.remember(path, &file(u64::from(name), number));
                        let known = kernel.entry(id).or_insert((0, name, number));
                        prop_assert_eq!((known.1, known.2), (name, number), "a number stands for one generation");
                        known.0 += 1;
                    }
                    3 => {
                        let chosen = kernel.iter().nth(usize::from(name)).map(|(id, state)| (*id, state.0));
                        if let Some((id, count)) = chosen {
                            let some = number.min(count);
                            inodes.forget(id, some);
                            if some == count { kernel.remove(&id); } else { kernel.get_mut(&id).unwrap().0 -= some; }
                        }
                    }
                    _ => inodes = ledger.reopened(inodes.next),
                }
                prop_assert_eq!(inodes.len(), kernel.len() + 1);
                for (id, (count, name, number)) in &kernel {
                    let inode = inodes.get(*id).unwrap();
                    let path = ViewPath::new(format!("f{name}").as_bytes()).unwrap();
                    prop_assert_eq!(&inode.path, &path);
                    prop_assert_eq!((inode.lookups, inode.generation.size_bytes), (*count, *number));
                }
            }
        }
    }

    #[test]
    fn a_kept_file_does_not_become_a_directory() {
        let ledger = Ledger::default();
        let path = ViewPath::new(b"a").unwrap();
        let before = ledger.reopened(2).remember(path.clone(), &file(1, 1));
        let directory = Attributes { mode: 0o040_755, ..file(1, 1) };
        assert_ne!(ledger.reopened(0).remember(path, &directory), before);
    }

    #[test]
    fn the_root_is_never_forgotten() {
        let mut inodes = Inodes::new();
        inodes.forget(ROOT_INODE, u64::MAX);
        assert!(inodes.get(ROOT_INODE).is_some());
    }
}
