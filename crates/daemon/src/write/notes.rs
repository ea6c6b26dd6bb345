//! Notes of a node in its log, beside the bytes of files.

use forebay_wire::journal::{EntryRef, JournalEntry};
use forebay_wire::message::{Checked, encode};
use forebay_wire::write::Change;
use forebay_wire::write_message::Leadership;
use serde::{Deserialize, Serialize};

/// The tree that a store is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StoreTree {
    /// The tree's number.
    pub number: u64,
    /// When the mount was made, milliseconds since 1970, on which the store's node has served it last.
    pub mount_made_at_ms: u64,
}

/// A note.
#[derive(PartialEq, Debug, Serialize, Deserialize)]
pub enum Note {
    /// A step of the history of the tree that this node owns, with how many it makes.
    Own(u64, JournalEntry),
    /// A change that this node is about to send to the leader.
    Sent(Change),
    /// A step of the history of a tree that has its standby here, with how many it makes.
    Followed(u64, JournalEntry),
    /// The leader from here on.
    Leadership(Leadership),
    /// The tree that this store is about from here on, and the mount.
    Tree(StoreTree),
    /// The line of the tree's history that goes on from here (`Lineage`), here or where this node follows it.
    Line(u64),
}

/// The same as `Note`, not copied.
#[derive(Serialize)]
enum Written<'a> {
    Own(u64, EntryRef<'a>),
    Sent(&'a Change),
    Followed(u64, EntryRef<'a>),
    Leadership(Leadership),
    Tree(StoreTree),
    Line(u64),
}

impl Note {
    /// The bytes of `Own`.
    pub fn own<'a>(count: u64, entry: impl Into<EntryRef<'a>>) -> Vec<u8> {
        encode(&Written::Own(count, entry.into()))
    }

    /// The bytes of `Sent`.
    pub fn sent(change: &Change) -> Vec<u8> {
        encode(&Written::Sent(change))
    }

    /// The bytes of `Followed`.
    pub fn followed<'a>(count: u64, entry: impl Into<EntryRef<'a>>) -> Vec<u8> {
        encode(&Written::Followed(count, entry.into()))
    }

    /// The bytes of `Leadership`.
    pub fn leadership(leadership: Leadership) -> Vec<u8> {
        encode(&Written::Leadership(leadership))
    }

    /// The bytes of `Tree`.
    pub fn tree(tree: StoreTree) -> Vec<u8> {
        encode(&Written::Tree(tree))
    }

    /// The bytes of `Line`.
    pub fn incarnation(incarnation: u64) -> Vec<u8> {
        encode(&Written::Line(incarnation))
    }
}

impl Checked for Note {
    fn is_within_limits(&self) -> bool {
        match self {
            Self::Own(_, entry) | Self::Followed(_, entry) => entry.is_within_limits(),
            Self::Sent(change) => change.is_within_limits(),
            Self::Leadership(leadership) => leadership.is_within_limits(),
            Self::Tree(_) | Self::Line(_) => true,
        }
    }
}
