//! Bodies: bytes named instead of moved, that are there, on their way, or lost.

use std::sync::Arc;

use forebay_node::Part;
use forebay_types::{Errno, Extent, Generation, ViewPath};

/// Bytes of one version of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Piece {
    /// The file.
    pub file: ViewPath,
    /// Its version.
    pub generation: Generation,
    /// Which bytes.
    pub extent: Extent,
}

/// A core's handle of a body.
#[derive(Clone, Debug)]
pub struct Handle {
    /// Which body.
    pub id: usize,
    /// What it holds: bytes of one file, or of a parcel.
    pub pieces: Arc<[Piece]>,
}

impl Handle {
    /// Bytes of the whole body.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.pieces.iter().map(|piece| piece.extent.len_bytes as usize).sum()
    }
}

/// How far a body has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Its bytes are on their way.
    Growing,
    /// They are all there.
    Whole,
    /// The rest will not come.
    Failed(Errno),
}

/// The bytes that a part of a body stands for.
#[must_use]
pub fn pieces_of(part: &Part<Handle>) -> Vec<Piece> {
    let (mut start, from, to) = (0, part.offset_bytes as u64, (part.offset_bytes + part.len_bytes) as u64);
    let mut found = Vec::new();
    for piece in part.body.pieces.iter() {
        let (first, last) = (from.max(start), to.min(start + piece.extent.len_bytes));
        if first < last {
            let offset_bytes = piece.extent.offset_bytes + (first - start);
            let extent = Extent { offset_bytes, len_bytes: last - first };
            found.push(Piece { extent, ..piece.clone() });
        }
        start += piece.extent.len_bytes;
    }
    found
}
