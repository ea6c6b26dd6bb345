//! Messages of ranks in an exchange: numbers, extents and bytes. A received message is checked before it is used.

use crate::error::Error;
use crate::view::Extent;

/// Bytes of a number in a message.
pub const NUMBER_BYTES: usize = 8;

/// Bytes of an extent in a message.
pub const EXTENT_BYTES: usize = 2 * NUMBER_BYTES;

/// Appends a number.
pub fn put(message: &mut Vec<u8>, number: u64) {
    message.extend_from_slice(&number.to_le_bytes());
}

/// Appends an extent.
pub fn put_extent(message: &mut Vec<u8>, extent: Extent) {
    put(message, extent.offset);
    put(message, extent.len);
}

/// A message that is taken apart from its beginning.
#[derive(Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// The whole message.
    #[must_use]
    pub const fn new(message: &'a [u8]) -> Self {
        Self(message)
    }

    /// The next bytes.
    ///
    /// # Errors
    /// [`Error::Message`] if there are fewer; as all here.
    pub fn bytes(&mut self, len: u64) -> Result<&'a [u8], Error> {
        let len = usize::try_from(len).map_err(|_| Error::Message)?;
        let (bytes, rest) = self.0.split_at_checked(len).ok_or(Error::Message)?;
        self.0 = rest;
        Ok(bytes)
    }

    /// The next number.
    ///
    /// # Errors
    /// [`Error::Message`].
    pub fn number(&mut self) -> Result<u64, Error> {
        let (number, rest) = self.0.split_first_chunk().ok_or(Error::Message)?;
        self.0 = rest;
        Ok(u64::from_le_bytes(*number))
    }

    /// The next extent; it has bytes, and ends where a file can.
    ///
    /// # Errors
    /// [`Error::Message`].
    pub fn extent(&mut self) -> Result<Extent, Error> {
        let extent = Extent { offset: self.number()?, len: self.number()? };
        let end = extent.offset.checked_add(extent.len).filter(|end| *end <= i64::MAX as u64);
        if extent.len == 0 || end.is_none() { Err(Error::Message) } else { Ok(extent) }
    }

    /// How many bytes are left.
    #[must_use]
    pub const fn left(&self) -> usize {
        self.0.len()
    }
}
