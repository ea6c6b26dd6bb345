//! A rank's view of a file: which bytes of the file the bytes of its calls are.

use crate::flat::{Flat, Piece};

/// Bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Extent {
    /// First byte.
    pub offset: u64,
    /// Bytes; never 0.
    pub len: u64,
}

impl Extent {
    /// After the last byte.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.offset.saturating_add(self.len)
    }
}

/// A displacement and a file type that is laid down again and again from there.
#[derive(Clone, Debug)]
pub struct View {
    displacement: u64,
    etype_bytes: u64,
    tile: Flat,
}

impl View {
    /// The view of `MPI_File_open`: all bytes, one by one.
    #[must_use]
    pub fn whole() -> Self {
        Self { displacement: 0, etype_bytes: 1, tile: Flat::dense(1) }
    }

    /// A view that MPI allows for writing: its pieces ascend and do not overlap. `None` for any other, and for one that
    /// shows no bytes.
    #[must_use]
    pub fn new(displacement: i64, etype_bytes: u64, tile: Flat) -> Option<Self> {
        let displacement = u64::try_from(displacement).ok()?;
        let shows = etype_bytes > 0 && tile.size_bytes() > 0;
        (shows && tile.ascends()).then_some(Self { displacement, etype_bytes, tile })
    }

    /// Bytes of the unit in which the program counts offsets.
    #[must_use]
    pub const fn etype_bytes(&self) -> u64 {
        self.etype_bytes
    }

    /// How many bytes of the view lie before a byte of the file.
    #[must_use]
    pub fn bytes_before(&self, offset: u64) -> u64 {
        let offset = i64::try_from(offset.saturating_sub(self.displacement)).unwrap_or(i64::MAX);
        let (extent, size) = (self.tile.extent().max(1), self.tile.size_bytes());
        let within = offset % extent;
        let inside = |piece: &Piece| piece.len.min(u64::try_from(within - piece.offset).unwrap_or(0));
        let part: u64 = self.tile.pieces().iter().map(inside).sum();
        ((offset / extent) as u64).saturating_mul(size).saturating_add(part)
    }

    /// Where `len` bytes lie in the file, from the given byte of the view on; in order, neighbours joined. `None` beyond 2^63.
    #[must_use]
    pub fn extents(&self, from: u64, len: u64) -> Option<Vec<Extent>> {
        let mut extents: Vec<Extent> = vec![];
        for piece in self.tile.stream(from, len) {
            let offset = u64::try_from(piece.offset).ok()?.checked_add(self.displacement)?;
            if offset.checked_add(piece.len)? > i64::MAX as u64 {
                return None;
            }
            match extents.last_mut() {
                Some(last) if last.end() == offset => last.len += piece.len,
                _ => extents.push(Extent { offset, len: piece.len }),
            }
        }
        Some(extents)
    }
}

/// In the order of the file, those that touch or overlap as one.
#[must_use]
pub fn in_order(extents: &[Extent]) -> Vec<Extent> {
    let mut sorted: Vec<Extent> = extents.iter().copied().filter(|extent| extent.len > 0).collect();
    sorted.sort_unstable();
    sorted.dedup_by(|next, kept| {
        let touches = next.offset <= kept.end();
        if touches {
            kept.len = kept.len.max(next.end() - kept.offset);
        }
        touches
    });
    sorted
}

/// Whether extents in the order of the file cover all of one, several of them together perhaps.
#[must_use]
pub fn covers(declared: &[Extent], extent: Extent) -> bool {
    let mut next = extent.offset;
    for each in declared {
        if each.offset <= next {
            next = next.max(each.end());
        }
    }
    next >= extent.end()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flat::Block;

    fn extents(view: &View, from: u64, len: u64) -> Vec<(u64, u64)> {
        view.extents(from, len).unwrap().iter().map(|extent| (extent.offset, extent.len)).collect()
    }

    #[test]
    fn a_whole_file_is_one_extent() {
        assert_eq!(extents(&View::whole(), 1 << 40, 1 << 35), [(1 << 40, 1 << 35)]);
    }

    #[test]
    fn tiles_follow_each_other() {
        let int = Flat::dense(4);
        let block = |offset| Block { of: &int, count: 2, offset };
        let tile = Flat::blocks([block(8), block(24)], 40).unwrap();
        let view = View::new(100, 4, tile).unwrap();
        assert_eq!(extents(&view, 0, 20), [(108, 8), (124, 8), (148, 4)]);
        assert_eq!(extents(&view, 6, 12), [(114, 2), (124, 8), (148, 2)]);
        assert_eq!(extents(&view, 16 * 1000 + 8, 8), [(100 + 40_000 + 24, 8)]);
        assert_eq!(extents(&view, 3, 0), []);
        let before = [0, 108, 109, 120, 126, 140, 149].map(|offset| view.bytes_before(offset));
        assert_eq!(before, [0, 0, 1, 8, 10, 16, 17]);
    }

    #[test]
    fn a_tile_that_fills_its_extent_joins_with_the_next() {
        let tile = Flat::basic([Piece { offset: 0, len: 2 }, Piece { offset: 4, len: 4 }], 8).unwrap();
        assert_eq!(extents(&View::new(0, 1, tile).unwrap(), 0, 12), [(0, 2), (4, 6), (12, 4)]);
    }

    #[test]
    fn extents_are_joined_and_covered() {
        let extents = |pairs: &[(u64, u64)]| -> Vec<Extent> {
            pairs.iter().map(|&(offset, len)| Extent { offset, len }).collect()
        };
        let sorted = in_order(&extents(&[(30, 5), (0, 10), (8, 4), (12, 2), (20, 0)]));
        assert_eq!(sorted, extents(&[(0, 14), (30, 5)]));
        let covered = |offset, len| covers(&extents(&[(0, 10), (8, 6), (30, 5)]), Extent { offset, len });
        assert!(covered(0, 14) && covered(9, 5) && covered(31, 4) && covered(50, 0));
        assert!(!covered(0, 15) && !covered(10, 25) && !covered(34, 2));
    }

    #[test]
    fn views_that_cannot_be_written_are_refused() {
        let piece = |offset, len| Piece { offset, len };
        let tile = |pieces: [Piece; 2], extent| View::new(0, 1, Flat::basic(pieces, extent).unwrap()).is_some();
        assert!(tile([piece(0, 4), piece(8, 4)], 12));
        assert!(!tile([piece(8, 4), piece(0, 4)], 12), "descends");
        assert!(!tile([piece(0, 8), piece(4, 8)], 12), "overlaps");
        assert!(!tile([piece(0, 4), piece(8, 4)], 11), "overlaps the next tile");
        assert!(!tile([piece(-4, 4), piece(8, 4)], 12), "before the file");
        assert!(View::new(-1, 1, Flat::dense(1)).is_none() && View::new(0, 1, Flat::dense(0)).is_none());
    }
}
