//! A datatype as the pieces of memory or of a file that one element of it covers, in the order of its type map.
//!
//! The C shim takes a datatype apart and puts it together again here, constructor by constructor; extents (the distance
//! from one element to the next) always come from MPI, which knows about bounds that were set by hand. Neighbouring
//! pieces are joined, so a dense type is one piece however it was made.

use crate::error::Error;

/// Pieces that a datatype may have: 64 MiB of them, more than the arrays of a checkpoint need.
pub const PIECES_MAX: usize = 4 << 20;

/// Bytes that lie together, from an offset that may be negative in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// From the beginning of the element, bytes.
    pub offset: i64,
    /// Bytes; never 0.
    pub len: u64,
}

/// A datatype without its names: what one element covers, and where the next element begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flat {
    pieces: Vec<Piece>,
    /// Bytes of the pieces before each piece.
    before: Vec<u64>,
    size_bytes: u64,
    extent: i64,
}

/// `count` elements of a type, one after the other from `offset` bytes on.
#[derive(Clone, Copy, Debug)]
pub struct Block<'a> {
    /// The type of the elements.
    pub of: &'a Flat,
    /// How many.
    pub count: u64,
    /// Where the first one begins, bytes.
    pub offset: i64,
}

impl Flat {
    /// A type that MPI has no constructor for, by its pieces in the order of its type map.
    ///
    /// # Errors
    /// [`Error::TooComplex`] beyond [`PIECES_MAX`] pieces or 2^63 bytes.
    pub fn basic(pieces: impl IntoIterator<Item = Piece>, extent: i64) -> Result<Self, Error> {
        let mut flat = Self { pieces: vec![], before: vec![], size_bytes: 0, extent };
        pieces.into_iter().try_for_each(|piece| flat.push(piece))?;
        Ok(flat)
    }

    /// A dense type of so many bytes.
    #[must_use]
    pub fn dense(len: u32) -> Self {
        let piece = (len > 0).then_some(Piece { offset: 0, len: u64::from(len) });
        let pieces: Vec<Piece> = piece.into_iter().collect();
        Self { before: vec![0; pieces.len()], pieces, size_bytes: u64::from(len), extent: i64::from(len) }
    }

    /// A type made of blocks of other types, in this order.
    ///
    /// # Errors
    /// As [`Flat::basic`].
    pub fn blocks<'a>(blocks: impl IntoIterator<Item = Block<'a>>, extent: i64) -> Result<Self, Error> {
        let mut flat = Self { pieces: vec![], before: vec![], size_bytes: 0, extent };
        blocks.into_iter().try_for_each(|block| flat.append(block))?;
        Ok(flat)
    }

    fn append(&mut self, Block { of, count, offset }: Block<'_>) -> Result<(), Error> {
        if let Some(piece) = of.joined().filter(|_| count > 0) {
            let len = piece.len.checked_mul(count).ok_or(Error::TooComplex)?;
            return self.push(Piece { offset: offset.checked_add(piece.offset).ok_or(Error::TooComplex)?, len });
        }
        let total = count.saturating_mul(of.pieces.len() as u64);
        if total > PIECES_MAX as u64 {
            return Err(Error::TooComplex);
        }
        for piece in of.stream(0, of.size_bytes.saturating_mul(count)) {
            self.push(Piece { offset: offset.checked_add(piece.offset).ok_or(Error::TooComplex)?, len: piece.len })?;
        }
        Ok(())
    }

    fn push(&mut self, piece: Piece) -> Result<(), Error> {
        if piece.len == 0 {
            return Ok(());
        }
        let end = i64::try_from(piece.len).ok().and_then(|len| piece.offset.checked_add(len));
        let size_bytes = self.size_bytes.checked_add(piece.len);
        let (Some(_), Some(size_bytes)) = (end, size_bytes) else { return Err(Error::TooComplex) };
        let is_full = self.pieces.len() == PIECES_MAX;
        match self.pieces.last_mut() {
            Some(last) if last.offset + last.len as i64 == piece.offset => last.len += piece.len,
            _ if is_full => return Err(Error::TooComplex),
            _ => {
                self.before.push(self.size_bytes);
                self.pieces.push(piece);
            }
        }
        self.size_bytes = size_bytes;
        Ok(())
    }

    /// Bytes of one element, without what lies between its pieces.
    #[must_use]
    pub const fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// From one element to the next, bytes.
    #[must_use]
    pub const fn extent(&self) -> i64 {
        self.extent
    }

    /// The pieces of one element.
    #[must_use]
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// The piece of one element, if elements follow each other without a gap.
    #[must_use]
    pub fn joined(&self) -> Option<Piece> {
        match self.pieces[..] {
            [piece] if piece.len as i64 == self.extent => Some(piece),
            _ => None,
        }
    }

    /// Whether the pieces of a row of elements ascend and never overlap, from 0 on, as those of a file's view must.
    #[must_use]
    pub fn ascends(&self) -> bool {
        let in_order = |pair: &[Piece]| pair[0].offset + pair[0].len as i64 <= pair[1].offset;
        match (self.pieces.first(), self.pieces.last()) {
            (Some(first), Some(last)) => {
                let next = self.extent.checked_add(first.offset);
                let ends_before = next.is_some_and(|next| last.offset + last.len as i64 <= next);
                first.offset >= 0 && ends_before && self.pieces.windows(2).all(in_order)
            }
            _ => true,
        }
    }

    /// Where the bytes `from .. from + len` lie of elements that follow each other without end, in order.
    ///
    /// Neighbouring pieces are not joined; a row of dense elements is one piece. Offsets saturate.
    pub fn stream(&self, from: u64, len: u64) -> Stream<'_> {
        if self.size_bytes == 0 {
            return Stream { flat: self, element: 0, piece: 0, skip: 0, left: 0 };
        }
        if self.joined().is_some() {
            return Stream { flat: self, element: 0, piece: 0, skip: from, left: len };
        }
        let within = from % self.size_bytes;
        let piece = self.before.partition_point(|before| *before <= within) - 1;
        let skip = within - self.before[piece];
        Stream { flat: self, element: from / self.size_bytes, piece, skip, left: len }
    }
}

/// The pieces of [`Flat::stream`].
#[derive(Clone, Debug)]
pub struct Stream<'a> {
    flat: &'a Flat,
    element: u64,
    piece: usize,
    skip: u64,
    left: u64,
}

impl Iterator for Stream<'_> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        if self.left == 0 {
            return None;
        }
        if let Some(piece) = self.flat.joined() {
            let len = std::mem::take(&mut self.left);
            return Some(Piece { offset: piece.offset.saturating_add(clamped(self.skip)), len });
        }
        let piece = self.flat.pieces[self.piece];
        let len = (piece.len - self.skip).min(self.left);
        let base = self.flat.extent.saturating_mul(clamped(self.element));
        let offset = base.saturating_add(piece.offset).saturating_add(clamped(self.skip));
        self.left -= len;
        self.skip = 0;
        self.piece += 1;
        if self.piece == self.flat.pieces.len() {
            self.piece = 0;
            self.element += 1;
        }
        Some(Piece { offset, len })
    }
}

fn clamped(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
