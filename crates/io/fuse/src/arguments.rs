//! A request's arguments, taken piece by piece; every length is checked against the bytes that are there.

use zerocopy::{FromBytes, Immutable, KnownLayout};

/// The bytes after a request's head.
pub(crate) struct Arguments<'a> {
    pub(crate) rest: &'a [u8],
}

impl<'a> Arguments<'a> {
    pub(crate) fn take<T: FromBytes + KnownLayout + Immutable>(&mut self) -> Result<T, &'static str> {
        let (value, rest) = T::read_from_prefix(self.rest).map_err(|_| "arguments cut short")?;
        self.rest = rest;
        Ok(value)
    }

    /// So many bytes.
    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'a [u8], &'static str> {
        let (bytes, rest) = self.rest.split_at_checked(count).ok_or("more data than bytes")?;
        self.rest = rest;
        Ok(bytes)
    }

    /// Bytes up to a NUL that must be there.
    pub(crate) fn name(&mut self) -> Result<&'a [u8], &'static str> {
        let end = self.rest.iter().position(|byte| *byte == 0).ok_or("a name without its NUL")?;
        let name = &self.rest[..end];
        self.rest = &self.rest[end + 1..];
        Ok(name)
    }
}
