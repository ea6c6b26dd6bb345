//! How much the backing file system was asked: the figures of `status` and of every benchmark.
//!
//! Relaxed atomics: each figure is exact once the calls have returned; figures of one snapshot may be a call apart.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use forebay_types::Errno;

/// A snapshot of the counters since the store was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Directories listed (each start-over counts).
    pub listings: u64,
    /// Attributes asked for, of entries and of open descriptors.
    pub stats: u64,
    /// Files and directories opened.
    pub opens: u64,
    /// Reads of file contents.
    pub reads: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Operations that ended with an error. That a name is absent is an answer, and none.
    pub errors: u64,
    /// Operations on names that are absent.
    pub absent_names: u64,
}

/// Kinds of errors that are counted apart at most: the file system's, of which there are about 130.
const KINDS_MAX: usize = 160;

#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) listings: AtomicU64,
    pub(crate) stats: AtomicU64,
    pub(crate) opens: AtomicU64,
    pub(crate) reads: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) errors: AtomicU64,
    absent_names: AtomicU64,
    by_kind: Mutex<BTreeMap<i32, (Errno, u64)>>,
}

impl Tally {
    pub(crate) fn one(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts the error of an operation on its way out.
    pub(crate) fn outcome<T>(&self, outcome: Result<T, Errno>) -> Result<T, Errno> {
        let is_absent = |errno| matches!(errno, &Errno::ENOENT | &Errno::ENOTDIR);
        match &outcome {
            Err(errno) if is_absent(errno) => Self::one(&self.absent_names),
            Err(errno) => {
                Self::one(&self.errors);
                let mut by_kind = self.by_kind.lock().unwrap_or_else(PoisonError::into_inner);
                if by_kind.len() < KINDS_MAX || by_kind.contains_key(&errno.number()) {
                    by_kind.entry(errno.number()).or_insert((*errno, 0)).1 += 1;
                }
            }
            Ok(_) => {}
        }
        outcome
    }

    /// The errors, by kind.
    pub(crate) fn errors_by_kind(&self) -> Vec<(Errno, u64)> {
        self.by_kind.lock().unwrap_or_else(PoisonError::into_inner).values().copied().collect()
    }

    pub(crate) fn snapshot(&self) -> Counters {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counters {
            listings: read(&self.listings),
            stats: read(&self.stats),
            opens: read(&self.opens),
            reads: read(&self.reads),
            bytes: read(&self.bytes),
            errors: read(&self.errors),
            absent_names: read(&self.absent_names),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absent_name_is_no_error() {
        let tally = Tally::default();
        for errno in [Errno::ENOENT, Errno::ENOTDIR] {
            assert_eq!(tally.outcome::<()>(Err(errno)), Err(errno));
        }
        assert_eq!(tally.snapshot().errors, 0);
        assert!(tally.outcome::<()>(Err(Errno::EIO)).is_err());
        assert!(tally.outcome::<()>(Err(Errno::EACCES)).is_err());
        assert!(tally.outcome::<()>(Err(Errno::EIO)).is_err());
        assert_eq!((tally.snapshot().errors, tally.snapshot().absent_names), (3, 2));
        assert_eq!(tally.errors_by_kind(), [(Errno::EIO, 2), (Errno::EACCES, 1)]);
    }
}
