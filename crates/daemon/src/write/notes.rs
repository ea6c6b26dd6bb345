//! What a node writes down in its log, beside the bytes of files.

use forebay_wire::message::{Checked, encode};
use forebay_wire::write::Change;
use forebay_wire::write_message::Owns;
use serde::{Deserialize, Serialize};

/// A note.
#[derive(PartialEq, Debug, Serialize, Deserialize)]
pub enum Note {
    /// A change that this node has carried out, as the owner, or sent to the owner.
    Own(Change),
    /// One that the owner has carried out, whose tree has its second home here.
    Followed(Change),
    /// Who owns the tree from here on.
    Owns(Owns),
    /// The tree that this store belongs to, by number.
    Tree(u64),
}

/// The same as `Note`, not copied.
#[derive(Serialize)]
enum Written<'a> {
    Own(&'a Change),
    Followed(&'a Change),
    Owns(Owns),
    Tree(u64),
}

impl Note {
    /// The bytes of `Own`.
    pub fn own(change: &Change) -> Vec<u8> {
        encode(&Written::Own(change))
    }

    /// The bytes of `Followed`.
    pub fn followed(change: &Change) -> Vec<u8> {
        encode(&Written::Followed(change))
    }

    /// The bytes of `Owns`.
    pub fn owns(owns: Owns) -> Vec<u8> {
        encode(&Written::Owns(owns))
    }

    /// The bytes of `Tree`.
    pub fn tree(number: u64) -> Vec<u8> {
        encode(&Written::Tree(number))
    }
}

impl Checked for Note {
    fn is_within_limits(&self) -> bool {
        match self {
            Self::Own(change) | Self::Followed(change) => change.is_within_limits(),
            Self::Owns(_) | Self::Tree(_) => true,
        }
    }
}
