//! The order of a data set's elements as rows: tile by tile, as they are stored, and within a tile with the last axis fastest.
//!
//! A data set that is stored in chunks has them as tiles, so that a chunk is read and unpacked once, not once for every run of elements
//! that cross it. Others are cut along their first axes, which is the usual order.

/// Elements of a tile of a data set that is stored in one piece: half a mebibyte of doubles.
const ELEMENTS_MAX: u64 = 1 << 16;

/// A box of elements: where it begins and how long it is, along each axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slab {
    /// The first index.
    pub start: Vec<u64>,
    /// Indices.
    pub len: Vec<u64>,
}

impl Slab {
    /// Elements of it.
    pub fn elements(&self) -> u64 {
        self.len.iter().product()
    }
}

/// Elements that follow each other: a slab, and those of its elements that count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The slab.
    pub slab: Slab,
    /// Elements at its beginning that are left out.
    pub skipped: usize,
    /// Elements that count.
    pub rows: usize,
}

/// The tiles of a data set.
#[derive(Clone, Debug)]
pub struct Tiles {
    shape: Vec<u64>,
    tile: Vec<u64>,
}

impl Tiles {
    /// Those of a data set of this shape, which is stored in chunks of one shape, or in one piece.
    pub fn new(shape: &[u64], chunk: Option<&[u64]>) -> Self {
        let chunk = chunk.filter(|chunk| chunk.len() == shape.len() && chunk.iter().all(|len| *len > 0));
        let tile = match chunk {
            Some(chunk) => chunk.iter().zip(shape).map(|(chunk, len)| (*chunk).min((*len).max(1))).collect(),
            None => along_first_axes(shape),
        };
        Self { shape: shape.to_vec(), tile }
    }

    /// Elements of the data set; None if there are more than can be counted.
    pub fn rows(&self) -> Option<u64> {
        self.shape.iter().try_fold(1_u64, |product, len| product.checked_mul(*len))
    }

    /// The runs that make up some rows, in order. The rows are within the data set.
    pub fn runs(&self, mut first: u64, end: u64) -> Vec<Run> {
        let mut runs = vec![];
        while first < end {
            let (tile, before) = self.tile_of(first);
            let last = end.min(before + tile.elements());
            add_parts(&tile, first - before, last - before, &mut runs);
            first = last;
        }
        runs
    }

    /// The tile that has a row, and how many rows are before it.
    fn tile_of(&self, row: u64) -> (Slab, u64) {
        let (mut start, mut len) = (vec![], vec![]);
        // Rows before the tile, and rows of all tiles that share its indices along the axes so far.
        let (mut before, mut above) = (0, 1_u64);
        for (axis, (tile, all)) in self.tile.iter().zip(&self.shape).enumerate() {
            let behind: u64 = self.shape[axis + 1..].iter().product();
            let rows = above * tile * behind;
            let index = (row - before) / rows;
            before += index * rows;
            start.push(index * tile);
            len.push((*tile).min(all - index * tile));
            above *= len[axis];
        }
        (Slab { start, len }, before)
    }
}

/// The largest tile that is one piece and has few elements.
fn along_first_axes(shape: &[u64]) -> Vec<u64> {
    let mut tile = shape.to_vec();
    let mut elements: u64 = shape.iter().fold(1, |product: u64, len| product.saturating_mul((*len).max(1)));
    for len in &mut tile {
        let one = elements / (*len).max(1);
        elements = one;
        if one <= ELEMENTS_MAX {
            *len = (ELEMENTS_MAX / one.max(1)).clamp(1, (*len).max(1));
            break;
        }
        *len = 1;
    }
    tile.iter_mut().for_each(|len| *len = (*len).max(1));
    tile
}

/// Appends the runs of some elements of a tile: one, unless it would be much larger than they are.
fn add_parts(tile: &Slab, first: u64, end: u64, runs: &mut Vec<Run>) {
    let run = part(tile, first, end);
    let split = run.slab.len.iter().position(|len| *len > 1);
    match split {
        Some(axis) if run.slab.elements() > 2 * (end - first) + ELEMENTS_MAX => {
            // Elements of the tile with one index along the axis that the run crosses.
            let each: u64 = tile.len[axis + 1..].iter().product();
            let border = (first / each + 1) * each;
            add_parts(tile, first, border.min(end), runs);
            if border < end {
                add_parts(tile, border, end, runs);
            }
        }
        _ => runs.push(run),
    }
}

/// Some elements of a tile, and no more of its axes than they need.
fn part(tile: &Slab, mut first: u64, mut end: u64) -> Run {
    let (mut slab, rows) = (tile.clone(), (end - first) as usize);
    for axis in 0..slab.len.len() {
        let each: u64 = tile.len[axis + 1..].iter().product();
        let (from, to) = (first / each, end.div_ceil(each));
        slab.start[axis] += from;
        slab.len[axis] = to - from;
        (first, end) = (first - from * each, end - from * each);
        if to - from > 1 {
            break;
        }
    }
    Run { slab, skipped: first as usize, rows }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a broken assumption of a test fails the test")]
mod tests {
    use super::*;

    /// The elements of a run, as their places in the data set.
    fn places(run: &Run, shape: &[u64]) -> Vec<u64> {
        let Slab { start, len } = &run.slab;
        let place = |mut element: u64| {
            let mut index = vec![0; shape.len()];
            for axis in (0..shape.len()).rev() {
                index[axis] = start[axis] + element % len[axis];
                element /= len[axis];
            }
            index.iter().zip(shape).fold(0, |place, (index, len)| place * len + index)
        };
        (run.skipped as u64..(run.skipped + run.rows) as u64).map(place).collect()
    }

    #[test]
    fn rows_are_all_elements_once_whatever_the_tiles_and_the_cuts() {
        for (shape, chunk) in [
            (vec![7], Some(vec![3])),
            (vec![5, 7], Some(vec![2, 3])),
            (vec![4, 3, 5], Some(vec![3, 2, 4])),
            (vec![4, 3, 5], Some(vec![9, 9, 9])),
            (vec![4, 3, 5], None),
            (vec![], None),
        ] {
            let tiles = Tiles::new(&shape, chunk.as_deref());
            let rows = tiles.rows().unwrap();
            let whole: Vec<u64> = tiles.runs(0, rows).iter().flat_map(|run| places(run, &shape)).collect();
            let mut sorted = whole.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..rows).collect::<Vec<_>>(), "{shape:?} {chunk:?}");
            if chunk.is_none() {
                assert_eq!(whole, sorted);
            }
            for step in 1..rows {
                let cut = (0..rows).step_by(step as usize).flat_map(|first| tiles.runs(first, rows.min(first + step)));
                let cut: Vec<u64> = cut.flat_map(|run| places(&run, &shape)).collect();
                assert_eq!(cut, whole, "{shape:?} {chunk:?} by {step}");
            }
        }
    }

    #[test]
    fn what_is_stored_in_one_piece_is_cut_along_its_first_axes() {
        let tile = |shape: &[u64]| Tiles::new(shape, None).tile;
        assert_eq!(tile(&[1 << 20]), [1 << 16]);
        assert_eq!(tile(&[100, 180, 360]), [1, 180, 360]);
        assert_eq!(tile(&[100, 1 << 10, 1 << 10]), [1, 1 << 6, 1 << 10]);
        assert_eq!(tile(&[3, 2, 1 << 20]), [1, 1, 1 << 16]);
        assert_eq!(tile(&[0, 5]), [1, 5]);
        assert_eq!(Tiles::new(&[0, 5], None).runs(0, 0), []);
    }

    #[test]
    fn no_more_of_a_tile_is_read_than_is_needed() {
        let tiles = Tiles::new(&[9, 1000, 1000], Some(&[1, 1000, 1000]));
        let [run] = &tiles.runs(2_500_300, 2_501_700)[..] else { panic!("one tile") };
        assert_eq!((&run.slab.start, &run.slab.len), (&vec![2, 500, 0], &vec![1, 2, 1000]));
        assert_eq!((run.skipped, run.rows), (300, 1400));
    }

    /// Two rows of a picture, of which a block has the end of one and the beginning of the other.
    #[test]
    fn a_run_that_crosses_long_rows_is_cut_there() {
        let tiles = Tiles::new(&[2, 1 << 28], Some(&[2, 1 << 28]));
        let border = 1 << 28;
        let runs = tiles.runs(border - 5, border + 9);
        let found: Vec<_> =
            runs.iter().map(|run| (&run.slab.start[..], &run.slab.len[..], run.skipped, run.rows)).collect();
        assert_eq!(found, [(&[0, border - 5][..], &[1, 5][..], 0, 5), (&[1, 0], &[1, 9], 0, 9)]);
        // Of a few elements, one run is cheaper.
        assert_eq!(Tiles::new(&[2, 100], Some(&[2, 100])).runs(95, 109).len(), 1);
    }

    #[test]
    fn shapes_beyond_counting_are_noticed() {
        assert_eq!(Tiles::new(&[u64::MAX, 2], None).rows(), None);
    }
}
