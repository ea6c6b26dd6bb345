//! A request that its task has, after its reader has gone on.

use std::sync::Arc;

use crate::buffer::Space;
use crate::interrupts::{Interruption, Interrupts};
use crate::request::{Operation, Request, decode};
use crate::tasks::Admitted;

/// A request with the bytes that it is made of.
pub struct OwnedRequest {
    bytes: Bytes,
    unique: u64,
    is_again: bool,
    interrupts: Arc<Interrupts>,
    interruption: Arc<Interruption>,
    _admitted: Admitted,
}

/// Where they are.
enum Bytes {
    Copied(Box<[u8]>),
    /// A large request stays where it was read: so many bytes.
    Read(Arc<Space>, usize),
}

impl OwnedRequest {
    /// Of these bytes, which are a request and were read into `space` if that is known.
    pub(crate) fn new(
        bytes: &[u8],
        space: Option<&Arc<Space>>,
        (unique, is_again): (u64, bool),
        interrupts: &Arc<Interrupts>,
        admitted: Admitted,
    ) -> Self {
        let bytes = match space {
            Some(space) => Bytes::Read(Arc::clone(space), bytes.len()),
            None => Bytes::Copied(bytes.into()),
        };
        let interruption = interrupts.begin(unique);
        Self { bytes, unique, is_again, interrupts: Arc::clone(interrupts), interruption, _admitted: admitted }
    }

    /// The request.
    #[must_use]
    pub fn request(&self) -> Request<'_> {
        let bytes = match &self.bytes {
            Bytes::Copied(bytes) => bytes,
            Bytes::Read(space, len) => &space.bytes()[..*len],
        };
        // They were decoded before.
        decode(bytes).unwrap_or(Request {
            unique: self.unique,
            node: 0,
            uid: 0,
            gid: 0,
            pid: 0,
            operation: Operation::Other(0),
        })
    }

    /// Whether a daemon before this one had it. It may have done part of what is asked, and INTERRUPTs that it has taken are not known.
    #[must_use]
    pub fn is_again(&self) -> bool {
        self.is_again
    }

    /// Whether the program that waits for it is interrupted.
    #[must_use]
    pub fn interruption(&self) -> &Arc<Interruption> {
        &self.interruption
    }
}

impl Drop for OwnedRequest {
    fn drop(&mut self) {
        self.interrupts.end(self.unique);
    }
}
