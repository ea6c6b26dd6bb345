//! The part of the inodes that must outlive the daemon: the kernel asks the next one about the numbers that this one gave.
//!
//! The core says what to write down, through a trait, because it must be written before the kernel is told of the inode
//! and because an effect carried out later would come too late. How and where is the shell's affair. Attributes are not
//! written down: they are asked for again, and their generation tells whether they are still this inode's.

use forebay_types::{Generation, Kind, ViewPath};

use crate::inode_id::InodeId;

/// An inode that the kernel knows of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KnownInode {
    /// Its number.
    pub id: InodeId,
    /// Its path.
    pub path: ViewPath,
    /// The one generation it stands for; of a directory, the one it had first.
    pub generation: Generation,
    /// Its kind.
    pub kind: Kind,
    /// Lookups that the kernel has not given back.
    pub lookups: u64,
}

/// Where an inode is written down; the ledger's number for it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LedgerPlace(pub u64);

/// Where inodes are written down.
pub trait InodeLedger: Send {
    /// Writes an inode down; `None` when there is no room: it is then lost with the daemon (`ESTALE`).
    fn add(&mut self, inode: &KnownInode) -> Option<LedgerPlace>;

    /// Its lookups are `lookups` from now on.
    fn set_lookups(&mut self, place: LedgerPlace, lookups: u64);

    /// The kernel has forgotten it.
    fn remove(&mut self, place: LedgerPlace);
}

/// The contents of a ledger.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LedgerContents {
    /// The inodes, in any order.
    pub inodes: Vec<(KnownInode, LedgerPlace)>,
    /// No number from this one on was ever given.
    pub next: u64,
}
