//! A part of a body with its checksum, which goes with the bytes from the first node that sends them to the last.
//!
//! A node that passes a piece on passes on the checksum that it received and verified, not one of its own making: bytes
//! that its memory spoils on the way are found out by the next node.

use bytes::Bytes;

/// Bytes and the checksum (crc32c, RFC 3720) that they should have.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Piece {
    bytes: Bytes,
    checksum: u32,
}

impl Piece {
    /// These bytes, with the checksum they have.
    #[must_use]
    pub fn new(bytes: Bytes) -> Self {
        Self { checksum: crc32c::crc32c(&bytes), bytes }
    }

    /// These bytes, with the checksum that they are said to have.
    #[must_use]
    pub fn with_checksum(bytes: Bytes, checksum: u32) -> Self {
        Self { bytes, checksum }
    }

    /// Whether the bytes have their checksum.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        crc32c::crc32c(&self.bytes) == self.checksum
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The checksum.
    #[must_use]
    pub fn checksum(&self) -> u32 {
        self.checksum
    }

    /// Bytes in it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Takes the first `len_bytes` away. The whole piece keeps its checksum; parts get their own.
    ///
    /// # Panics
    /// When there are fewer.
    #[must_use]
    pub fn split_to(&mut self, len_bytes: usize) -> Self {
        if len_bytes == self.len() {
            return std::mem::take(self);
        }
        let first = Self::new(self.bytes.split_to(len_bytes));
        *self = Self::new(std::mem::take(&mut self.bytes));
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_crc32c_and_notices_a_bit() {
        let piece = Piece::new(Bytes::from_static(b"123456789"));
        assert_eq!(piece.checksum(), 0xe306_9283, "the check value of RFC 3720's polynomial");
        assert!(piece.is_sound());
        assert!(!Piece::with_checksum(Bytes::from_static(b"123456788"), piece.checksum()).is_sound());
    }

    #[test]
    fn a_whole_piece_keeps_its_checksum_and_parts_have_their_own() {
        let spoiled = Piece::with_checksum(Bytes::from_static(b"abcdef"), 7);
        assert_eq!(spoiled.clone().split_to(6).checksum(), 7);
        let mut rest = spoiled;
        let first = rest.split_to(2);
        assert_eq!((&first.bytes()[..], &rest.bytes()[..]), (&b"ab"[..], &b"cdef"[..]));
        assert!(first.is_sound() && rest.is_sound());
    }
}
