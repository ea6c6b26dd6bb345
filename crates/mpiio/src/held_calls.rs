//! The bytes of write calls that are held until they are written together with those of other ranks.
//!
//! Bytes lie in the order of the calls; each piece knows where in the file it belongs. Where a rank wrote the same byte twice,
//! the later call counts, as it would in the file.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::view::Extent;

/// A piece of a file, and where its bytes are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldPiece {
    /// Where they belong.
    pub extent: Extent,
    /// Where they are among the held bytes.
    pub at: usize,
}

/// Memory of a piece beside its bytes, bytes.
const PIECE_COST_BYTES: u64 = size_of::<HeldPiece>() as u64;

/// Held calls of one rank on one file.
#[derive(Clone, Debug, Default)]
pub struct HeldCalls {
    bytes: Vec<u8>,
    pieces: Vec<HeldPiece>,
}

impl HeldCalls {
    /// Memory that holding bytes for these extents takes, bytes.
    #[must_use]
    pub fn cost_bytes_of(extents: &[Extent]) -> u64 {
        let bytes: u64 = extents.iter().map(|extent| extent.len).sum();
        bytes.saturating_add(PIECE_COST_BYTES * extents.len() as u64)
    }

    /// Memory that the held bytes take, bytes.
    #[must_use]
    pub fn cost_bytes(&self) -> u64 {
        self.bytes.len() as u64 + PIECE_COST_BYTES * self.pieces.len() as u64
    }

    /// How many pieces are held: as many requests at most write them.
    #[must_use]
    pub const fn piece_count(&self) -> u64 {
        self.pieces.len() as u64
    }

    /// Whether nothing is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Whether nothing of these bytes is held.
    #[must_use]
    pub fn is_apart(&self, span: Extent) -> bool {
        self.pieces.iter().all(|HeldPiece { extent, .. }| extent.end() <= span.offset || span.end() <= extent.offset)
    }

    /// All bytes that are held.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Holds the bytes of a call, which `pack` appends, for these extents.
    pub fn hold(&mut self, extents: &[Extent], pack: impl FnOnce(&mut Vec<u8>)) {
        let mut at = self.bytes.len();
        self.bytes.reserve(extents.iter().map(|extent| extent.len as usize).sum());
        pack(&mut self.bytes);
        for extent in extents {
            match self.pieces.last_mut() {
                Some(last) if last.extent.end() == extent.offset => last.extent.len += extent.len,
                _ => self.pieces.push(HeldPiece { extent: *extent, at }),
            }
            at += extent.len as usize;
        }
        debug_assert_eq!(at, self.bytes.len(), "as many bytes as the extents have");
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.pieces.clear();
    }

    /// The extents to write, in the order of the file, each byte once.
    #[must_use]
    pub fn in_file_order(&self) -> Vec<HeldPiece> {
        let mut pieces = self.pieces.clone();
        pieces.sort_by_key(|piece| piece.extent.offset);
        if pieces.windows(2).all(|pair| pair[0].extent.end() <= pair[1].extent.offset) {
            return pieces;
        }
        self.latest_of_overlaps()
    }

    /// From the last call to the first: of each piece what no later one covers.
    fn latest_of_overlaps(&self) -> Vec<HeldPiece> {
        let mut kept: BTreeMap<u64, HeldPiece> = BTreeMap::new();
        for piece in self.pieces.iter().rev() {
            let (mut from, end) = (piece.extent.offset, piece.extent.end());
            let before = kept.range(..=from).next_back().map(|(_, piece)| piece.extent.end());
            from = from.max(before.unwrap_or(from));
            while from < end {
                let next =
                    kept.range((Bound::Included(from), Bound::Excluded(end))).next().map(|(_, piece)| piece.extent);
                let until = next.map_or(end, |next| next.offset);
                if from < until {
                    let at = piece.at + (from - piece.extent.offset) as usize;
                    kept.insert(from, HeldPiece { extent: Extent { offset: from, len: until - from }, at });
                }
                from = next.map_or(end, |next| next.end());
            }
        }
        kept.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Writes in the order of the file leave the bytes that the calls would have left one after the other.
        #[test]
        fn later_calls_win(calls in prop::collection::vec(prop::collection::vec((0u64..200, 1u64..30), 1..5), 1..12)) {
            let (mut held, mut file) = (HeldCalls::default(), [0u8; 256]);
            for (number, call) in calls.iter().enumerate() {
                let extents: Vec<Extent> = call.iter().map(|&(offset, len)| Extent { offset, len }).collect();
                let total: u64 = extents.iter().map(|extent| extent.len).sum();
                held.hold(&extents, |bytes| bytes.extend(std::iter::repeat_n(number as u8 + 1, total as usize)));
                for extent in extents {
                    file[extent.offset as usize..extent.end() as usize].fill(number as u8 + 1);
                }
            }
            let mut written = [0u8; 256];
            let mut end = 0;
            for HeldPiece { extent, at } in held.in_file_order() {
                prop_assert!(extent.offset >= end && extent.len > 0);
                end = extent.end();
                written[extent.offset as usize..end as usize].copy_from_slice(&held.bytes()[at..at + extent.len as usize]);
            }
            prop_assert_eq!(written, file);
        }
    }
}
