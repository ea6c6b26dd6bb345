//! Communication among the ranks of an open file: they agree, and send each other bytes whose lengths both sides know.
//!
//! The shells of it are the C shim's (`ffi`) and, in tests, threads of one process. Every call here is made by all ranks of
//! the file in the same order; that is the invariant which keeps an exchange from hanging.

use crate::error::Error;

/// Bytes that go to, or come from, another rank.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// The other rank; may be this one.
    pub peer: usize,
    /// The bytes to send, or the buffer for those that come.
    pub bytes: Vec<u8>,
}

/// The ranks that have a file open together.
pub trait Group {
    /// Messages under way.
    type Exchange;

    /// This rank.
    fn rank(&self) -> usize;

    /// How many there are.
    fn size(&self) -> usize;

    /// Bytes of all ranks, in the order of the ranks; all give as many.
    ///
    /// # Errors
    /// [`Error::Communication`], as all calls here.
    fn all_gather(&self, own: &[u8]) -> Result<Vec<u8>, Error>;

    /// The largest of all ranks' values, one by one; all give as many.
    ///
    /// # Errors
    /// [`Error::Communication`].
    fn all_max(&self, values: &mut [i64]) -> Result<(), Error>;

    /// The bytes of rank 0, of whatever length.
    ///
    /// # Errors
    /// [`Error::Communication`].
    fn broadcast(&self, bytes: Vec<u8>) -> Result<Vec<u8>, Error>;

    /// Begins to send and to receive. `receives` have the lengths that will come.
    ///
    /// # Errors
    /// [`Error::Communication`].
    fn begin(&self, sends: Vec<Message>, receives: Vec<Message>) -> Result<Self::Exchange, Error>;

    /// Waits for the end of it, and returns what has come, in the order of `receives`.
    ///
    /// # Errors
    /// [`Error::Communication`].
    fn finish(&self, exchange: Self::Exchange) -> Result<Vec<Message>, Error>;
}
