//! Additions of the C interface to MPI's calls: declared extents, and reads of several extents at once.

use std::ffi::{c_char, c_int};

use super::files::{MpiFile, PASS, code, opened};
use super::raw::slice;
use crate::error::Error;
use crate::view::Extent;

/// An extent of a program.
#[repr(C)]
pub struct RawExtent {
    offset: u64,
    len: u64,
}

impl RawExtent {
    const fn extent(&self) -> Extent {
        Extent { offset: self.offset, len: self.len }
    }
}

// SAFETY: the name is this library's own.
#[unsafe(no_mangle)]
/// Declares what this rank will write until the next flush. Collective.
///
/// # Safety
/// The file is open, and `count` extents are at `extents`.
pub unsafe extern "C" fn fb_declare(file: *mut MpiFile, extents: *const RawExtent, count: usize) -> c_int {
    // SAFETY: as above.
    let (file, extents) = unsafe { (opened(file), slice(extents, count)) };
    code(file.declare(extents.iter().map(RawExtent::extent).collect()))
}

// SAFETY: the name is this library's own.
#[unsafe(no_mangle)]
/// Holds bytes of this rank.
///
/// # Safety
/// The file is open, and `len` bytes are at `bytes`.
pub unsafe extern "C" fn fb_write_extent(file: *mut MpiFile, offset: u64, bytes: *const u8, len: usize) -> c_int {
    // SAFETY: as above.
    let (file, bytes) = unsafe { (opened(file), slice(bytes, len)) };
    code(file.write_extent(Extent { offset, len: len as u64 }, bytes))
}

// SAFETY: the name is this library's own.
#[unsafe(no_mangle)]
/// Reads extents into as many buffers, and says for each how many bytes there were. Collective. After -1 each rank is to
/// read its own.
///
/// # Safety
/// The file is open; `count` extents, buffers of their lengths and places for numbers are there.
pub unsafe extern "C" fn fb_read_extents(
    file: *mut MpiFile,
    extents: *const RawExtent,
    buffers: *const *mut u8,
    count: usize,
    done: *mut u64,
) -> c_int {
    // SAFETY: as above.
    let (file, extents, buffers) = unsafe { (opened(file), slice(extents, count), slice(buffers, count)) };
    let extents: Vec<Extent> = extents.iter().map(RawExtent::extent).collect();
    let read = file.read_extents(&extents);
    if matches!(read, Err(Error::Plan(_))) {
        return PASS;
    }
    code(read.map(|(bytes, file_end)| {
        let mut rest = bytes.as_slice();
        for (index, (extent, buffer)) in extents.iter().zip(buffers).enumerate() {
            let (own, others) = rest.split_at(extent.len as usize);
            rest = others;
            let there = extent.len.min(file_end.saturating_sub(extent.offset));
            // SAFETY: as above; there are at most as many bytes as the extent has.
            unsafe {
                buffer.copy_from_nonoverlapping(own.as_ptr(), there as usize);
                done.add(index).write(there);
            }
        }
    }))
}

// SAFETY: the name is this library's own.
#[unsafe(no_mangle)]
/// Writes the record of the run so far as text ended by a NUL, cut where there is no room, and returns the room that all of it
/// needs.
///
/// # Safety
/// The file is open, and `room` bytes can be written at `text`.
pub unsafe extern "C" fn fb_explain(file: *mut MpiFile, text: *mut c_char, room: usize) -> usize {
    // SAFETY: as above.
    let told = unsafe { opened(file) }.explain();
    if room > 0 {
        let len = told.len().min(room - 1);
        // SAFETY: as above: the text and its NUL have room.
        unsafe {
            text.cast::<u8>().copy_from_nonoverlapping(told.as_ptr(), len);
            text.add(len).write(0);
        }
    }
    told.len() + 1
}
