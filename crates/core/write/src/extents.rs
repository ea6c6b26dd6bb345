//! The extents of a file, and where each lies.
//!
//! A file is a base and the ranges written over it. The base is the file of the backing file system as far as it still counts.
//! Ranges do not overlap, and each has its place in a log. Holes read as zeros. A later write replaces an earlier one in its
//! range. Bytes that are no longer reachable are given to the caller, since they take room in a log.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use forebay_types::{LogPosition, NodeRank};
use forebay_wire::write::{Piece, Source, WrittenExtent};
use serde::{Deserialize, Serialize};

/// The map of one file.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Extents {
    /// By first byte; they neither overlap nor have length 0.
    written: BTreeMap<u64, WrittenExtent>,
    /// Their bytes together.
    written_bytes: u64,
    /// Bytes of the backing file that still count where nothing is written.
    backing_len: u64,
    /// Those of `written` that the file's draft has, too.
    sent: BTreeSet<u64>,
}

impl Extents {
    /// Those of a file of `backing_len` bytes that nobody has written to.
    #[must_use]
    pub fn over(backing_len: u64) -> Self {
        Self { backing_len, ..Self::default() }
    }

    /// Ranges that are written.
    pub fn written(&self) -> impl Iterator<Item = &WrittenExtent> {
        self.written.values()
    }

    /// Ranges that only the backing file has: offset and length.
    #[must_use]
    pub fn backing_resident(&self) -> Vec<(u64, u64)> {
        let pieces = self.pieces(0..self.backing_len);
        pieces.iter().filter(|piece| piece.source == Source::Backing).map(|piece| (piece.offset, piece.len)).collect()
    }

    /// Bytes that are written.
    #[must_use]
    pub fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// Bytes that are in no hole, as far as is known here, and those of them that lie in logs.
    #[must_use]
    pub fn counted_bytes(&self) -> (u64, u64) {
        (self.held_bytes(), self.written_bytes())
    }

    fn held_bytes(&self) -> u64 {
        if self.backing_len == 0 {
            return self.written_bytes;
        }
        let behind = |extent: &&WrittenExtent| end(extent) > self.backing_len;
        let written = self.written.values().rev().take_while(behind);
        self.backing_len + written.map(|extent| end(extent) - extent.offset.max(self.backing_len)).sum::<u64>()
    }

    /// Checks them, of a file of so many bytes: for fuzzing.
    ///
    /// # Panics
    /// When something does not hold.
    pub(crate) fn assert_sound(&self, size_bytes: u64) {
        let mut free_from = 0;
        for (offset, extent) in &self.written {
            assert!(extent.len > 0 && *offset == extent.offset && extent.is_within_limits(), "{extent:?}");
            assert!(free_from <= *offset, "{extent:?} begins below {free_from}");
            free_from = end(extent);
        }
        assert!(free_from <= size_bytes, "something is written behind the end");
        assert!(self.sent.iter().all(|offset| self.written.contains_key(offset)), "what was sent is not written");
        let mut at = 0;
        for piece in self.pieces(0..size_bytes) {
            assert!(piece.offset == at && piece.len > 0 && piece.is_within_limits(), "{piece:?} at {at}");
            at += piece.len;
        }
        assert_eq!(at, size_bytes);
        for is_log in [false, true] {
            let is_sought = |piece: &Piece| matches!(piece.source, Source::Log(_)) == is_log;
            let first = self.pieces(0..size_bytes).into_iter().find(is_sought);
            let found = self.find(0..size_bytes, is_sought);
            assert_eq!(found.map(|piece| piece.offset), first.map(|piece| piece.offset), "what is found first");
        }
    }

    /// Whether nothing is written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.written.is_empty()
    }

    /// The end of the last written range, bytes from the file's beginning.
    #[must_use]
    pub fn written_end(&self) -> u64 {
        self.written.last_key_value().map_or(0, |(_, extent)| end(extent))
    }

    /// Writes `extent` over what is there; what is covered by it goes to `freed`.
    pub fn insert(&mut self, extent: WrittenExtent, freed: &mut Vec<WrittenExtent>) {
        if extent.len == 0 {
            return;
        }
        self.clear(extent.offset..end(&extent), freed);
        self.written_bytes += extent.len;
        self.written.insert(extent.offset, extent);
    }

    /// Cuts the file at `size_bytes`. Bytes behind it are zeros when it grows again.
    pub fn truncate(&mut self, size_bytes: u64, freed: &mut Vec<WrittenExtent>) {
        self.clear(size_bytes..u64::MAX, freed);
        self.backing_len = self.backing_len.min(size_bytes);
    }

    /// The base has the first `len_bytes` bytes now, wherever nothing is written.
    pub fn raise_backing(&mut self, len_bytes: u64) {
        self.backing_len = self.backing_len.max(len_bytes);
    }

    /// The base has what `extent` has: as much of it as nobody has written over goes to `freed`.
    pub fn forget(&mut self, extent: &WrittenExtent, freed: &mut Vec<WrittenExtent>) {
        let range = extent.offset..end(extent);
        let parts: Vec<WrittenExtent> = self.parts_of(extent).copied().collect();
        for part in parts {
            self.clear(part.offset.max(range.start)..end(&part).min(range.end), freed);
        }
    }

    /// The file's draft has what `extent` has: as much of it as nobody has written over.
    pub fn note_sent(&mut self, extent: &WrittenExtent) {
        let range = extent.offset..end(extent);
        let is_whole = |part: &&WrittenExtent| part.offset >= range.start && end(part) <= range.end;
        let parts: Vec<u64> = self.parts_of(extent).filter(is_whole).map(|part| part.offset).collect();
        self.sent.extend(parts);
    }

    /// The file has no draft that counts.
    pub fn forget_sent(&mut self) {
        self.sent.clear();
    }

    /// Whether the draft has anything that logs have.
    #[must_use]
    pub fn has_sent(&self) -> bool {
        !self.sent.is_empty()
    }

    /// Whether the draft has what a range has that is written.
    #[must_use]
    pub fn is_sent(&self, extent: &WrittenExtent) -> bool {
        self.sent.contains(&extent.offset)
    }

    /// Bytes of records of `node` are where `place` says, if it says anything.
    pub fn move_records(&mut self, node: NodeRank, place: impl Fn(LogPosition) -> Option<(NodeRank, LogPosition)>) {
        for extent in self.written.values_mut().filter(|extent| extent.node == node) {
            if let Some((node, position)) = place(extent.position) {
                (extent.node, extent.position) = (node, position);
            }
        }
    }

    /// The pieces of `range`, in the file's order and without a gap.
    #[must_use]
    pub fn pieces(&self, range: Range<u64>) -> Vec<Piece> {
        let mut pieces = vec![];
        let mut at = range.start;
        for extent in self.overlapping(&range) {
            self.unwritten(at..extent.offset.max(at), &mut pieces);
            let part = cut(extent, extent.offset.max(range.start)..end(extent).min(range.end));
            pieces.push(Piece { offset: part.offset, len: part.len, source: Source::Log(part) });
            at = end(&part);
        }
        self.unwritten(at..range.end.max(at), &mut pieces);
        pieces
    }

    /// The first piece in `range` that is the one sought.
    #[must_use]
    pub fn find(&self, range: Range<u64>, is_sought: impl Fn(&Piece) -> bool) -> Option<Piece> {
        let mut at = range.start;
        while at < range.end {
            let before = self.written.range(..=at).next_back().map(|(_, extent)| end(extent));
            let next = self.written.range(at..range.end).next().map(|(_, extent)| end(extent));
            let until = before.filter(|end| *end > at).or(next).unwrap_or(range.end).min(range.end);
            if let Some(found) = self.pieces(at..until).into_iter().find(&is_sought) {
                return Some(found);
            }
            at = until;
        }
        None
    }

    /// The base and the hole behind it, for a range in which nothing is written.
    fn unwritten(&self, range: Range<u64>, pieces: &mut Vec<Piece>) {
        let border = self.backing_len.clamp(range.start, range.end);
        let mut push = |part: Range<u64>, source| {
            if !part.is_empty() {
                pieces.push(Piece { offset: part.start, len: part.end - part.start, source });
            }
        };
        push(range.start..border, Source::Backing);
        push(border..range.end, Source::Hole);
    }

    /// The parts of `extent` that are left, and later parts of its record.
    fn parts_of(&self, extent: &WrittenExtent) -> impl Iterator<Item = &WrittenExtent> {
        let extent = *extent;
        self.overlapping(&(extent.offset..end(&extent))).into_iter().filter(move |found| {
            let ahead = i128::from(found.offset) - i128::from(extent.offset);
            (found.node, found.position) == (extent.node, extent.position)
                && i128::from(found.skip) - i128::from(extent.skip) == ahead
        })
    }

    /// Written ranges that have bytes of `range`, in order.
    fn overlapping(&self, range: &Range<u64>) -> Vec<&WrittenExtent> {
        if range.is_empty() {
            return vec![];
        }
        let before = self.written.range(..range.start).next_back().map(|(_, extent)| extent);
        let before = before.filter(|extent| end(extent) > range.start);
        let within = self.written.range(range.clone()).map(|(_, extent)| extent);
        before.into_iter().chain(within).collect()
    }

    /// Takes `range` out of what is written.
    fn clear(&mut self, range: Range<u64>, freed: &mut Vec<WrittenExtent>) {
        let covered: Vec<WrittenExtent> = self.overlapping(&range).into_iter().copied().collect();
        for extent in covered {
            self.written.remove(&extent.offset);
            let is_sent = self.sent.remove(&extent.offset);
            for rest in [extent.offset..range.start, range.end..end(&extent)] {
                if rest.start < rest.end {
                    if is_sent {
                        self.sent.insert(rest.start);
                    }
                    self.written.insert(rest.start, cut(&extent, rest));
                }
            }
            let covered = cut(&extent, extent.offset.max(range.start)..end(&extent).min(range.end));
            self.written_bytes -= covered.len;
            freed.push(covered);
        }
    }
}

/// The first byte behind an extent. Extents end below `FILE_BYTES_MAX` (`WrittenExtent::is_within_limits`).
fn end(extent: &WrittenExtent) -> u64 {
    extent.offset.saturating_add(extent.len)
}

/// The part of `extent` that is `range` of the file.
fn cut(extent: &WrittenExtent, range: Range<u64>) -> WrittenExtent {
    let skipped = range.start - extent.offset;
    // A record's contents are below 4 GiB.
    let skip = extent.skip + u32::try_from(skipped).unwrap_or(u32::MAX);
    WrittenExtent { offset: range.start, len: range.end - range.start, skip, ..*extent }
}
