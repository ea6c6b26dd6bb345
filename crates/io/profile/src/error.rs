//! Errors of profiles and packs. None of them ends a job: it goes on without them.
//!
//! No variant leaves a change behind: a file that could not be written whole is not there.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Why bytes are not a profile, not a pack, or not a part of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum FormatError {
    /// It begins with something else.
    #[error("it is not a {0} of Forebay")]
    Magic(&'static str),
    /// Another program wrote it.
    #[error("it has version {found} of its format; this program reads version {known}")]
    Version {
        /// The version that it names.
        found: u16,
        /// The version that this program reads.
        known: u16,
    },
    /// Bytes are missing, or there are too many.
    #[error("its length is wrong: it was cut off, or added to")]
    Length,
    /// Bytes have changed since they were written.
    #[error("its checksum is wrong")]
    Checksum,
    /// The bytes are those that were written, and make no sense.
    #[error("{0}")]
    Content(&'static str),
    /// More than `types::limits` allows.
    #[error("it is above a limit: {0}")]
    Limit(&'static str),
}

/// Why a profile or a pack is not used, or was not written.
#[derive(Debug, Error)]
pub enum ProfileError {
    /// There is no place for profiles.
    #[error(
        "there is no place for profiles: neither $XDG_CACHE_HOME nor $HOME is an absolute path; give --profile-dir DIR"
    )]
    NoPlace,
    /// Another user could have prepared it.
    #[error("{path} is not used: {problem}")]
    Untrusted {
        /// The file or directory.
        path: PathBuf,
        /// The reason, and what to do.
        problem: String,
    },
    /// It is not what its name says.
    #[error("{path} is not used: {problem}; it is replaced by the next one that is recorded, or remove it")]
    Broken {
        /// The file.
        path: PathBuf,
        /// The error in it.
        problem: FormatError,
    },
    /// Contents that cannot be part of a profile or a pack.
    #[error("{path} is not written: {problem}")]
    Refused {
        /// The file that would have been written.
        path: PathBuf,
        /// The reason.
        problem: FormatError,
    },
    /// A pack that would not fit.
    #[error(
        "{path} is not written: it would be larger than all profiles together may be ({budget_bytes} bytes); give a larger --profile-budget"
    )]
    OverBudget {
        /// The file that would have been written.
        path: PathBuf,
        /// The budget of all files together.
        budget_bytes: u64,
    },
    /// The operating system refused something.
    #[error("cannot {doing} {path}: {source}")]
    Io {
        /// The verb: `create`, `read`.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl ProfileError {
    pub(crate) fn io(doing: &'static str, path: &Path, source: impl Into<io::Error>) -> Self {
        Self::Io { doing, path: path.to_owned(), source: source.into() }
    }

    pub(crate) fn broken(path: &Path, problem: FormatError) -> Self {
        Self::Broken { path: path.to_owned(), problem }
    }
}
