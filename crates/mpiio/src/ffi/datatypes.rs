//! Datatypes, as the shim puts them together.

use std::ffi::c_int;
use std::ptr;

use super::raw::slice;
use crate::array::{self, Dealt, Distribution, Order};
use crate::error::Error;
use crate::flat::{Block, Flat, Piece};

fn boxed(flat: Result<Flat, Error>) -> *mut Flat {
    flat.map_or(ptr::null_mut(), |flat| Box::into_raw(Box::new(flat)))
}

/// A piece of a basic type.
#[repr(C)]
pub struct RawPiece {
    offset: i64,
    len: u64,
}

/// A block of a type.
#[repr(C)]
pub struct RawBlock {
    of: *const Flat,
    count: u64,
    offset: i64,
}

/// A dimension of an array that is dealt out. `distribution`: 0 whole, 1 block, 2 cyclic; `argument`: 0 for MPI's default.
#[repr(C)]
pub struct RawDealt {
    size: u64,
    processes: u64,
    argument: u64,
    distribution: c_int,
}

// SAFETY: the name is this library's own; as for all functions below.
#[unsafe(no_mangle)]
/// A type by its pieces.
///
/// # Safety
/// `count` pieces are at `pieces`.
pub unsafe extern "C" fn fb_flat_basic(pieces: *const RawPiece, count: usize, extent: i64) -> *mut Flat {
    // SAFETY: as above.
    let pieces = unsafe { slice(pieces, count) };
    boxed(Flat::basic(pieces.iter().map(|piece| Piece { offset: piece.offset, len: piece.len }), extent))
}

// SAFETY: the name is this library's own.
#[unsafe(no_mangle)]
/// A type by its blocks.
///
/// # Safety
/// `count` blocks are at `blocks`, each of a type that lives.
pub unsafe extern "C" fn fb_flat_blocks(blocks: *const RawBlock, count: usize, extent: i64) -> *mut Flat {
    // SAFETY: as above.
    let blocks = unsafe { slice(blocks, count) };
    // SAFETY: as above: the types live.
    let block = |raw: &RawBlock| Some(Block { of: unsafe { raw.of.as_ref() }?, count: raw.count, offset: raw.offset });
    let blocks: Option<Vec<Block<'_>>> = blocks.iter().map(block).collect();
    blocks.map_or(ptr::null_mut(), |blocks| boxed(Flat::blocks(blocks, extent)))
}

const fn order(is_fortran: c_int) -> Order {
    if is_fortran != 0 { Order::Fortran } else { Order::C }
}

// SAFETY: the name is this library's own.
#[unsafe(no_mangle)]
/// A box of an array; `dimensions` are sizes, parts and starts, three numbers each.
///
/// # Safety
/// `of` is a type that lives, and `count` times three numbers are at `dimensions`.
pub unsafe extern "C" fn fb_flat_subarray(
    of: *const Flat,
    dimensions: *const [u64; 3],
    count: usize,
    is_fortran: c_int,
) -> *mut Flat {
    // SAFETY: as above.
    let (Some(of), dimensions) = (unsafe { of.as_ref() }, unsafe { slice(dimensions, count) }) else {
        return ptr::null_mut();
    };
    let dimensions: Vec<(u64, u64, u64)> = dimensions.iter().map(|&[size, part, start]| (size, part, start)).collect();
    boxed(array::subarray(of, &dimensions, order(is_fortran)))
}

// SAFETY: the name is this library's own.
#[unsafe(no_mangle)]
/// The part of a distributed array that a process has.
///
/// # Safety
/// `of` is a type that lives, and `count` dimensions are at `dimensions`.
pub unsafe extern "C" fn fb_flat_darray(
    of: *const Flat,
    rank: u64,
    dimensions: *const RawDealt,
    count: usize,
    is_fortran: c_int,
) -> *mut Flat {
    // SAFETY: as above.
    let (Some(of), dimensions) = (unsafe { of.as_ref() }, unsafe { slice(dimensions, count) }) else {
        return ptr::null_mut();
    };
    let dealt = |raw: &RawDealt| {
        let argument = Some(raw.argument).filter(|argument| *argument > 0);
        let distribution = match raw.distribution {
            1 => Distribution::Block(argument),
            2 => Distribution::Cyclic(argument.unwrap_or(1)),
            _ => Distribution::Whole,
        };
        Dealt { size: raw.size, distribution, processes: raw.processes }
    };
    let dimensions: Vec<Dealt> = dimensions.iter().map(dealt).collect();
    boxed(array::darray(of, rank, &dimensions, order(is_fortran)))
}

// SAFETY: the name is this library's own.
#[unsafe(no_mangle)]
/// Bytes of one element of a type.
///
/// # Safety
/// The type lives.
pub unsafe extern "C" fn fb_flat_size(flat: *const Flat) -> u64 {
    // SAFETY: as above.
    unsafe { flat.as_ref() }.map_or(0, Flat::size_bytes)
}

// SAFETY: the name is this library's own.
#[unsafe(no_mangle)]
/// Frees a type; null is none.
///
/// # Safety
/// The type lives, and nobody uses it afterwards.
pub unsafe extern "C" fn fb_flat_free(flat: *mut Flat) {
    if !flat.is_null() {
        // SAFETY: as above; it came from `boxed`.
        drop(unsafe { Box::from_raw(flat) });
    }
}
