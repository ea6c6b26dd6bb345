//! How much the backing file system was asked: the figures of `status` and of every benchmark.
//!
//! Relaxed atomics: each figure is exact once the calls have returned; figures of one snapshot may be a call apart.

use std::sync::atomic::{AtomicU64, Ordering};

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
}

#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) listings: AtomicU64,
    pub(crate) stats: AtomicU64,
    pub(crate) opens: AtomicU64,
    pub(crate) reads: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) errors: AtomicU64,
}

impl Tally {
    pub(crate) fn one(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts the error of an operation on its way out.
    pub(crate) fn outcome<T>(&self, outcome: Result<T, Errno>) -> Result<T, Errno> {
        let is_absent = |errno| matches!(errno, &Errno::ENOENT | &Errno::ENOTDIR);
        if outcome.as_ref().is_err_and(|errno| !is_absent(errno)) {
            Self::one(&self.errors);
        }
        outcome
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
        assert_eq!(tally.snapshot().errors, 2);
    }
}
