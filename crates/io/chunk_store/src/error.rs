//! Why a store is not opened. It is as it was then.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// See the module.
#[derive(Debug, Error)]
pub enum ChunkStoreError {
    /// Reads would go over the network, and other nodes would write to it.
    #[error("the cache store {} lies on a network file system ({file_system}): give a directory on the node's own disk", .path.display())]
    NetworkFileSystem {
        /// The store.
        path: PathBuf,
        /// Which.
        file_system: &'static str,
    },
    /// Another user's directory.
    #[error("the cache store {} belongs to user {found}, not to you (user {uid}): give a directory of your own", .path.display())]
    OtherUser {
        /// The store.
        path: PathBuf,
        /// Whose it is.
        found: u32,
        /// The user who asked.
        uid: u32,
    },
    /// Others could put files of theirs into it.
    #[error("others may write to the cache store {} (mode {mode:04o}): chmod 700 it, or give another directory", .path.display())]
    OpenToOthers {
        /// The store.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// A file, a link, a device.
    #[error("the cache store {} is not a directory, or is a symbolic link: give the directory itself", .path.display())]
    NotDirectory {
        /// The store.
        path: PathBuf,
    },
    /// One of its files is something else.
    #[error("{} in the cache store {} is not a regular file of yours: remove it, or give another directory", .name, .path.display())]
    NotRegular {
        /// The store.
        path: PathBuf,
        /// The file's name.
        name: &'static str,
    },
    /// Another build wrote it.
    #[error(
        "the cache store {} has version {found} of its format; this forebay reads version {known}: `forebay cache drop --cache-store {}` \
         removes it", .path.display(), .path.display()
    )]
    Version {
        /// The store.
        path: PathBuf,
        /// The version in its head.
        found: u16,
        /// The version that this program reads.
        known: u16,
    },
    /// The disk cannot be written to.
    #[error("the cache store {} lies on a read-only file system: give a directory that can be written to", .path.display())]
    ReadOnly {
        /// The store.
        path: PathBuf,
    },
    /// Less than a chunk.
    #[error("the cache store {} is too small with {capacity_bytes} bytes: give at least 1MiB (--cache-capacity)", .path.display())]
    TooSmall {
        /// The store.
        path: PathBuf,
        /// The capacity asked for.
        capacity_bytes: u64,
    },
    /// More than there can be.
    #[error("the cache store {} cannot have {capacity_bytes} bytes: {limit_bytes} are possible there (--cache-capacity)", .path.display())]
    TooLarge {
        /// The store.
        path: PathBuf,
        /// The capacity asked for.
        capacity_bytes: u64,
        /// The size of the disk, or the limit of any store.
        limit_bytes: u64,
    },
    /// Another process does not finish making it.
    #[error("another process has been making the cache store {} for ten seconds: end it, or give another directory", .path.display())]
    Busy {
        /// The store.
        path: PathBuf,
    },
    /// The operating system refused something.
    #[error("cannot {doing} the cache store {}: {source}; give another directory (--cache-store)", .path.display())]
    Io {
        /// The verb: `open`, `make`.
        doing: &'static str,
        /// The store.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl ChunkStoreError {
    pub(crate) fn io(doing: &'static str, path: &Path, source: impl Into<io::Error>) -> Self {
        let (path, source) = (path.to_owned(), source.into());
        match source.kind() {
            io::ErrorKind::ReadOnlyFilesystem => Self::ReadOnly { path },
            _ => Self::Io { doing, path, source },
        }
    }
}
