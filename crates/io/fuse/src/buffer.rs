//! Where a reader puts what it reads: memory of its own, or memory that outlives the daemon (`kept_requests`).

use std::io;

use crate::device::Device;
use crate::kept_requests::{Intake, KeptRequests, Slot};

/// Where a reader puts the request that it takes.
pub(crate) enum Buffer {
    Own(Vec<u8>),
    Kept(Intake),
}

impl Buffer {
    pub(crate) fn of(device: &Device, index: usize) -> io::Result<Self> {
        let Some(kept) = &device.kept else {
            // Written to, so that its pages are there: a reader that is killed while the kernel copies a request into
            // pages that it would have to make first fails that request with EIO, and the program sees it.
            return Ok(Self::Own(vec![1; device.request_bytes_max]));
        };
        let mut intake = kept.intake(index)?;
        intake.buffer().fill(0);
        Ok(Self::Kept(intake))
    }

    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Kept(intake) => intake.buffer(),
        }
    }

    /// Makes room for what is read next; false when the session ends first.
    pub(crate) fn reserve(&mut self, kept: Option<&KeptRequests>) -> bool {
        match (self, kept) {
            (Self::Kept(intake), Some(kept)) => kept.reserve(intake),
            _ => true,
        }
    }

    /// The request of `len` bytes that was read, and the slot in which it is kept.
    pub(crate) fn keep(&mut self, kept: Option<&KeptRequests>, len: usize) -> (&[u8], Option<Slot>) {
        match (self, kept) {
            (Self::Kept(intake), Some(kept)) => kept.keep(intake, len),
            (Self::Own(bytes), _) => (&bytes[..len], None),
            (Self::Kept(intake), None) => (&intake.buffer()[..len], None),
        }
    }

    pub(crate) fn clear(&self) {
        if let Self::Kept(intake) = self {
            intake.clear();
        }
    }
}
