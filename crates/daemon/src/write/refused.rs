//! Writes of this node's programs that nobody sees: the node was given up, and another one has had their files (`holds`) since.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use forebay_types::FileId;

/// Counts it, since this daemon began.
#[derive(Default)]
pub struct Refused {
    bytes: AtomicU64,
    /// The file of which was told last: a kernel that has gathered much sends it in many writes.
    told: Mutex<Option<FileId>>,
}

impl Refused {
    /// So many bytes of a file are refused; its programs get EIO.
    pub fn note(&self, file: FileId, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if self.told.lock().unwrap_or_else(PoisonError::into_inner).replace(file) != Some(file) {
            tracing::error!(
                %file,
                "what programs of this node wrote below --private is dropped: the node was given up meanwhile, and another one has had the file \
                 since; they get EIO"
            );
        }
    }

    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}
