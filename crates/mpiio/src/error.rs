//! Failures below an MPI call, and the error number that the C shim makes an MPI error class of.

use std::io;
use std::path::PathBuf;

use rustix::io::Errno;

/// A failure below an MPI call. No variant leaves a rank out of step with the others: ranks agree on errors before they return.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A datatype has more pieces than are taken apart. The call passes through; nothing has changed.
    #[error("the datatype has too many pieces, or covers more than 2^63 bytes")]
    TooComplex,
    /// Some bytes are not in the file; which, the record of the run says.
    #[error("cannot write {path}: {source}")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Some bytes could not be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another rank says that its part went wrong.
    #[error("rank {rank} failed: {errno}")]
    Rank {
        /// The first that failed.
        rank: usize,
        /// Why.
        errno: Errno,
    },
    /// The planner cannot plan the exchange; the same on every rank, and nothing was written. Ranks write their bytes themselves
    /// then, and reads are left to MPI.
    #[error("no plan for the exchange: {0}")]
    Plan(String),
    /// MPI itself failed to communicate; the ranks may be out of step, so nothing more is aggregated.
    #[error("MPI failed to communicate, error code {0}")]
    Communication(i32),
    /// Another rank sent what makes no sense, which only a defect or damaged memory explains.
    #[error("a message of another rank is invalid")]
    Message,
    /// A program of the C interface wrote or read outside what it declared. No byte was written.
    #[error("bytes {offset} to {end} were not declared")]
    NotDeclared {
        /// First byte.
        offset: u64,
        /// After the last byte.
        end: u64,
    },
}

impl Error {
    /// Whether all ranks have it and go on together.
    #[must_use]
    pub const fn is_agreed(&self) -> bool {
        !matches!(self, Self::Communication(_) | Self::Message)
    }

    /// The error number that says it best.
    #[must_use]
    pub fn errno(&self) -> Errno {
        match self {
            Self::TooComplex | Self::Plan(_) | Self::NotDeclared { .. } => Errno::INVAL,
            Self::Write { source, .. } | Self::Read { source, .. } => Errno::from_io_error(source).unwrap_or(Errno::IO),
            Self::Rank { errno, .. } => *errno,
            Self::Communication(_) | Self::Message => Errno::IO,
        }
    }
}
