//! The parts of arrays that MPI has constructors for: a box of an array (`MPI_Type_create_subarray`), and what a process
//! has of an array that is dealt out over a grid of processes (`MPI_Type_create_darray`).
//!
//! Both are rows of rows: a dimension lays blocks of the type below it, beginning with the fastest. By the standard (MPI
//! 4.0, 5.1.3 and 5.1.4) the grid of processes is row-major whatever the order of the array.

use crate::error::Error;
use crate::flat::{Block, Flat};

/// Dimensions of an array; MPI has no limit, programs stop at Fortran's 15.
pub const DIMENSIONS_MAX: usize = 32;

/// Which dimension of an array is the fastest in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The last one.
    C,
    /// The first one.
    Fortran,
}

/// How one dimension of an array is dealt out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// One block a process; of this many elements, or as many as needed.
    Block(Option<u64>),
    /// Blocks of this many elements in turns.
    Cyclic(u64),
    /// Not dealt out.
    Whole,
}

/// One dimension of an array, as one process has it.
#[derive(Clone, Copy, Debug)]
pub struct Dealt {
    /// Elements of the whole array.
    pub size: u64,
    /// How they are dealt out.
    pub distribution: Distribution,
    /// Processes along this dimension.
    pub processes: u64,
}

/// A run of a dimension: its first element, and how many.
type Run = (u64, u64);

/// A box of an array: for each dimension the size of the whole, of the part, and where the part begins.
///
/// # Errors
/// [`Error::TooComplex`] as [`Flat::basic`], and for more than [`DIMENSIONS_MAX`] dimensions.
pub fn subarray(of: &Flat, dimensions: &[(u64, u64, u64)], order: Order) -> Result<Flat, Error> {
    let rows = dimensions.iter().map(|&(size, part, start)| (size, vec![(start, part)])).collect();
    rows_of_rows(of, rows, order)
}

/// The part of a distributed array that the process of this rank has.
///
/// # Errors
/// As [`subarray`].
pub fn darray(of: &Flat, rank: u64, dimensions: &[Dealt], order: Order) -> Result<Flat, Error> {
    let mut rows = vec![];
    let mut below: u64 = dimensions.iter().map(|dealt| dealt.processes.max(1)).product();
    for dealt in dimensions {
        let processes = dealt.processes.max(1);
        below /= processes;
        rows.push((dealt.size, runs(dealt, rank / below.max(1) % processes)?));
    }
    rows_of_rows(of, rows, order)
}

/// The elements of one dimension that the process at this place of it has.
fn runs(dealt: &Dealt, at: u64) -> Result<Vec<Run>, Error> {
    let Dealt { size, distribution, processes } = *dealt;
    match distribution {
        Distribution::Whole => Ok(vec![(0, size)]),
        Distribution::Block(block) => {
            let block = block.unwrap_or_else(|| size.div_ceil(processes.max(1)));
            let start = at.saturating_mul(block).min(size);
            Ok(vec![(start, block.min(size - start))])
        }
        Distribution::Cyclic(block) => {
            let block = block.max(1);
            let step = block.checked_mul(processes.max(1)).ok_or(Error::TooComplex)?;
            if size / step > crate::flat::PIECES_MAX as u64 {
                return Err(Error::TooComplex);
            }
            let mut runs = vec![];
            let mut start = at.saturating_mul(block);
            while start < size {
                runs.push((start, block.min(size - start)));
                start = start.saturating_add(step);
            }
            Ok(runs)
        }
    }
}

fn rows_of_rows(of: &Flat, mut rows: Vec<(u64, Vec<Run>)>, order: Order) -> Result<Flat, Error> {
    if rows.len() > DIMENSIONS_MAX {
        return Err(Error::TooComplex);
    }
    if order == Order::C {
        rows.reverse();
    }
    let mut flat = of.clone();
    for (size, runs) in rows {
        let step = flat.extent();
        let bytes = |elements: u64| i64::try_from(elements).ok().and_then(|elements| elements.checked_mul(step));
        let extent = bytes(size).ok_or(Error::TooComplex)?;
        let block = |&(start, count): &Run| Some(Block { of: &flat, count, offset: bytes(start)? });
        let blocks: Option<Vec<Block<'_>>> = runs.iter().map(block).collect();
        flat = Flat::blocks(blocks.ok_or(Error::TooComplex)?, extent)?;
    }
    Ok(flat)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offsets(flat: &Flat) -> Vec<(i64, u64)> {
        flat.pieces().iter().map(|piece| (piece.offset, piece.len)).collect()
    }

    #[test]
    fn a_box_of_an_array() {
        let int = Flat::dense(4);
        let flat = subarray(&int, &[(4, 2, 1), (5, 3, 2)], Order::C).unwrap();
        assert_eq!((offsets(&flat), flat.extent()), (vec![(28, 12), (48, 12)], 80));
        let flat = subarray(&int, &[(4, 2, 1), (5, 3, 2)], Order::Fortran).unwrap();
        assert_eq!(offsets(&flat), [(36, 8), (52, 8), (68, 8)]);
    }

    #[test]
    fn a_whole_array_is_one_piece() {
        let flat = subarray(&Flat::dense(8), &[(4, 4, 0), (5, 5, 0)], Order::C).unwrap();
        assert_eq!(offsets(&flat), [(0, 160)]);
    }

    /// Every element of the array belongs to exactly one process.
    #[test]
    fn an_array_is_dealt_out_whole() {
        let kinds = [Distribution::Block(None), Distribution::Cyclic(1), Distribution::Cyclic(3)];
        for (first, second, order) in [(0, 1, Order::C), (1, 2, Order::Fortran), (2, 0, Order::C), (1, 1, Order::C)] {
            let dimensions = [
                Dealt { size: 10, distribution: kinds[first], processes: 2 },
                Dealt { size: 3, distribution: Distribution::Whole, processes: 1 },
                Dealt { size: 13, distribution: kinds[second], processes: 3 },
            ];
            let mut owners = [0; 10 * 3 * 13];
            for rank in 0..6 {
                let flat = darray(&Flat::dense(1), rank, &dimensions, order).unwrap();
                for piece in flat.pieces() {
                    owners[piece.offset as usize..][..piece.len as usize].iter_mut().for_each(|owner| *owner += 1);
                }
            }
            assert!(owners.iter().all(|owner| *owner == 1), "{first} {second}");
        }
    }

    #[test]
    fn the_grid_of_processes_is_row_major() {
        let dealt = |size| Dealt { size, distribution: Distribution::Block(None), processes: 2 };
        let flat = darray(&Flat::dense(1), 1, &[dealt(2), dealt(4)], Order::C).unwrap();
        assert_eq!(offsets(&flat), [(2, 2)], "rank 1 is the second in the last dimension");
        let flat = darray(&Flat::dense(1), 1, &[dealt(2), dealt(4)], Order::Fortran).unwrap();
        assert_eq!(offsets(&flat), [(4, 1), (6, 1)]);
    }
}
