//! The memory that a program hands to an MPI call: packed into a row of bytes, and filled from one.

use crate::flat::Flat;

/// Elements of a datatype in the program's memory.
#[derive(Debug)]
pub struct Buffer {
    base: *mut u8,
    layout: Flat,
    elements: u64,
}

impl Buffer {
    /// Elements of this layout, the first at `base`; `None` where their bytes cannot be counted.
    ///
    /// # Safety
    /// All bytes of the elements are the program's to read, and to write if [`Buffer::unpack`] is called, for as long as the
    /// buffer lives.
    #[must_use]
    pub unsafe fn new(base: *mut u8, layout: Flat, elements: u64) -> Option<Self> {
        layout.size_bytes().checked_mul(elements).filter(|bytes| i64::try_from(*bytes).is_ok())?;
        Some(Self { base, layout, elements })
    }

    /// How many bytes it has.
    #[must_use]
    pub const fn len_bytes(&self) -> u64 {
        self.layout.size_bytes() * self.elements
    }

    /// The bytes themselves, from the given one on, where they lie together in the program's memory.
    #[must_use]
    pub fn dense(&self, from: u64, len: u64) -> Option<&[u8]> {
        let mut pieces = self.layout.stream(from, len);
        let piece = pieces.next().filter(|piece| piece.len == len && pieces.next().is_none())?;
        (from.checked_add(len)? <= self.len_bytes()).then_some(())?;
        // SAFETY: the piece is of the buffer's elements, and all their bytes may be read (`Buffer::new`).
        Some(unsafe { std::slice::from_raw_parts(self.base.offset(piece.offset as isize), len as usize) })
    }

    /// Appends `len` bytes, from the given one on, to a row. Beyond the end there is nothing.
    pub fn pack(&self, from: u64, len: u64, row: &mut Vec<u8>) {
        for piece in self.layout.stream(from, len.min(self.len_bytes().saturating_sub(from))) {
            // SAFETY: the piece is of an element of the buffer, and all their bytes may be read (`Buffer::new`).
            let bytes =
                unsafe { std::slice::from_raw_parts(self.base.offset(piece.offset as isize), piece.len as usize) };
            row.extend_from_slice(bytes);
        }
    }

    /// Fills the buffer with a row of bytes, from its given byte on. Bytes beyond the end are left out.
    pub fn unpack(&self, from: u64, row: &[u8]) {
        let mut row = row;
        let len = (row.len() as u64).min(self.len_bytes().saturating_sub(from));
        for piece in self.layout.stream(from, len) {
            let (now, rest) = row.split_at(piece.len as usize);
            // SAFETY: the piece is of an element of the buffer, all their bytes may be written (`Buffer::new`), and the row is
            // the library's own.
            unsafe { self.base.offset(piece.offset as isize).copy_from_nonoverlapping(now.as_ptr(), now.len()) };
            row = rest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flat::Piece;

    #[test]
    fn packs_and_unpacks_any_part() {
        let mut memory: Vec<u8> = (0..40).collect();
        let layout = || Flat::basic([Piece { offset: 4, len: 2 }, Piece { offset: 0, len: 3 }], 8).unwrap();
        // SAFETY: four elements of 8 bytes are within the 40.
        let buffer = unsafe { Buffer::new(memory.as_mut_ptr(), layout(), 4) }.unwrap();
        let mut row = vec![];
        buffer.pack(0, 20, &mut row);
        assert_eq!(row, [4, 5, 0, 1, 2, 12, 13, 8, 9, 10, 20, 21, 16, 17, 18, 28, 29, 24, 25, 26]);
        let mut part = vec![];
        buffer.pack(6, 9, &mut part);
        buffer.pack(15, 100, &mut part);
        assert_eq!(part, row[6..]);
        buffer.unpack(3, &[101, 102, 103]);
        buffer.unpack(19, &[104, 105]);
        assert_eq!((memory[1], memory[2], memory[12], memory[26]), (101, 102, 103, 104));
        assert_eq!(memory.iter().filter(|byte| **byte > 100).count(), 4);
    }
}
