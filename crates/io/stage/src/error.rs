//! Errors of a copy.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// The step that failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// Opening, listing or looking at what is to be copied.
    Look,
    /// Reading what is to be copied.
    Read,
    /// Writing the copy.
    Write,
    /// Reading the copy back.
    Verify,
    /// Giving the copy its name.
    Publish,
}

impl std::fmt::Display for What {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Look => "look at",
            Self::Read => "read",
            Self::Write => "write",
            Self::Verify => "read back",
            Self::Publish => "publish",
        })
    }
}

/// The reason why a copy failed. In all cases the file that had its name before still has it.
#[derive(Debug, Error)]
pub enum StageError {
    /// The operating system refused. The right part of the copy stays in a draft.
    #[error("cannot {what} {}: {source}", .path.display())]
    Io {
        /// Doing what.
        what: What,
        /// On what.
        path: PathBuf,
        /// Bytes that are right in the draft.
        copied_bytes: u64,
        /// Why.
        source: io::Error,
    },
    /// Another process wrote to it meanwhile. The draft is gone.
    #[error("{} changed while it was copied; run this again when it is closed", .0.display())]
    Changed(PathBuf),
    /// The bytes read back are not those written. The draft is gone.
    #[error("{} was read back with other bytes than were written, from offset {offset} on: do not trust its file \
             system", .path.display())]
    Spoiled {
        /// The copy.
        path: PathBuf,
        /// Of the first block that is wrong.
        offset: u64,
    },
    /// Another process copies to the same place. No change was made.
    #[error("{} is being copied by another process", .0.display())]
    Busy(PathBuf),
    /// It is neither a file, a directory nor a symbolic link. No change was made.
    #[error("{} is not a file, directory or symbolic link", .0.display())]
    Special(PathBuf),
    /// Something else is where the copy goes. No change was made.
    #[error("{} is there and is not a {expected}", .path.display())]
    InTheWay {
        /// The copy.
        path: PathBuf,
        /// The kind that the copy would be.
        expected: &'static str,
    },
    /// Another user's, or no regular file, or one with several names, is where a draft or its journal goes. No change
    /// was made.
    #[error("{} is there and is not a file that this user alone has made (it belongs to user {uid}): somebody else may have put it there; \
             remove it, or choose another destination", .path.display())]
    Foreign {
        /// The draft or the journal.
        path: PathBuf,
        /// Whose it is.
        uid: u32,
    },
    /// More than `limits` allow. No change was made.
    #[error("{} has too many entries, or is too deep, to be copied at once: copy its parts one by one", .0.display())]
    TooMuch(PathBuf),
}

impl StageError {
    pub(crate) fn io(what: What, path: &std::path::Path, source: impl Into<io::Error>) -> Self {
        Self::Io { what, path: path.to_owned(), copied_bytes: 0, source: source.into() }
    }

    /// Bytes that need not be copied again.
    #[must_use]
    pub fn copied_bytes(&self) -> u64 {
        if let Self::Io { copied_bytes, .. } = self { *copied_bytes } else { 0 }
    }
}
