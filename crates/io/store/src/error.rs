//! Errors in the exports that a job asks for. When one is returned, no process has been started and no file changed.

use std::path::PathBuf;

use forebay_types::{Errno, PathError};
use thiserror::Error;

/// Why a store cannot be opened: what failed, on what, why, what to do.
#[derive(Debug, Error)]
pub enum StoreError {
    /// No export was given.
    #[error("there is nothing to serve: no export was given; name a directory, for example --export /soft")]
    NoExports,
    /// The export does not exist.
    #[error("export {} does not exist; check the spelling and whether its file system is mounted here", .path.display())]
    Missing {
        /// The export as given.
        path: PathBuf,
    },
    /// The export is a file or something else that is no directory.
    #[error("export {} is not a directory; export the directory that holds it", .path.display())]
    NotDirectory {
        /// The export as given.
        path: PathBuf,
    },
    /// The export cannot be opened for reading.
    #[error("export {} cannot be read: {errno}; check its permissions for the user who runs the job", .path.display())]
    Unreadable {
        /// The export as given.
        path: PathBuf,
        /// Why.
        errno: Errno,
    },
    /// The export lies on a file system that is never served.
    #[error("export {} lies on a file system of type {file_system}, which is not served; export a directory of files",
        .path.display())]
    NotServed {
        /// The export as given.
        path: PathBuf,
        /// The file system's type.
        file_system: String,
    },
    /// The export lies below another one, behind something that other one hides.
    #[error("export {} lies within export {}, which hides it behind a kernel file system or a view; \
        leave one of the two out", .inner.display(), .outer.display())]
    Hidden {
        /// The inner export.
        inner: PathBuf,
        /// The outer one.
        outer: PathBuf,
    },
    /// The export's path cannot be served.
    #[error("export {} has a path that cannot be served: {reason}; use a shorter path", .path.display())]
    Path {
        /// The export, symbolic links resolved.
        path: PathBuf,
        /// Why.
        reason: PathError,
    },
    /// The kernel's table of mounts cannot be read.
    #[error("the table of mounts /proc/thread-self/mountinfo cannot be read: {errno}; mount /proc")]
    MountTable {
        /// Why.
        errno: Errno,
    },
}
