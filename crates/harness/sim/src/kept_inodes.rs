//! The inodes that a kernel knows, as a keeper holds them while one daemon dies and the next begins.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay_read::{InodeLedger, KnownInode, LedgerContents, LedgerPlace};

/// All of them, by number. Copies share them.
#[derive(Clone, Default)]
pub(crate) struct KeptInodes(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    inodes: BTreeMap<u64, KnownInode>,
    /// No number from this one on was ever given.
    next: u64,
}

impl KeptInodes {
    /// The inodes that the next daemon takes over.
    pub fn hand_over(&self) -> (Box<dyn InodeLedger>, LedgerContents) {
        let kept = self.lock();
        let next = kept.next;
        let inodes = kept.inodes.values().map(|inode| (inode.clone(), LedgerPlace(inode.id.0))).collect();
        drop(kept);
        (Box::new(self.clone()), LedgerContents { inodes, next })
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl InodeLedger for KeptInodes {
    fn add(&mut self, inode: &KnownInode) -> Option<LedgerPlace> {
        let mut kept = self.lock();
        kept.next = kept.next.max(inode.id.0 + 1);
        kept.inodes.insert(inode.id.0, inode.clone());
        Some(LedgerPlace(inode.id.0))
    }

    fn set_lookups(&mut self, place: LedgerPlace, lookups: u64) {
        if let Some(inode) = self.lock().inodes.get_mut(&place.0) {
            inode.lookups = lookups;
        }
    }

    fn remove(&mut self, place: LedgerPlace) {
        self.lock().inodes.remove(&place.0);
    }
}
