//! Removal of directories of a job that may hold mounts, or things that are not of the job.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use crate::base::MARK;
use crate::private::uid;

/// The mount points in a directory, as the views of several nodes, then the directory that holds them.
pub(crate) fn remove_mount_points(holder: &Path) -> io::Result<()> {
    if fs::remove_dir(holder).is_ok() {
        return Ok(());
    }
    for entry in fs::read_dir(holder)? {
        gone(fs::remove_dir(entry?.path()))?;
    }
    fs::remove_dir(holder)
}

/// The directory of burst mounts. Nodes remove what they made in it; one that is interrupted at its start leaves directories without a mount. A mount
/// that is left (EBUSY) is never walked.
pub(crate) fn remove_burst(burst: &Path) -> io::Result<()> {
    open_closed(burst);
    gone(fs::remove_file(burst.join(MARK)))?;
    remove_empty(burst)
}

/// Removes directories as long as they hold nothing but directories.
fn remove_empty(directory: &Path) -> io::Result<()> {
    match fs::remove_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
        removed => return gone(removed),
    }
    open_closed(directory);
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        match remove_empty(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                let why = format!("{} is in it and not of this job", path.display());
                return Err(io::Error::new(io::ErrorKind::DirectoryNotEmpty, why));
            }
            removed => removed?,
        }
    }
    gone(fs::remove_dir(directory))
}

/// The mode of directories that are made for burst mounts, while these are mounted: a file there would never land.
pub const CLOSED_MODE: u32 = 0o555;

/// Lets this user change a directory of his own that is closed. Whether it was.
pub fn open_closed(directory: &Path) -> bool {
    let is_closed =
        |found: &fs::Metadata| found.is_dir() && found.uid() == uid() && found.mode() & 0o777 == CLOSED_MODE;
    directory.symlink_metadata().is_ok_and(|found| is_closed(&found))
        && fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).is_ok()
}

/// A removal by another process is as good as ours.
pub(crate) fn gone(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// For removals that may fail because another job or node still uses the thing.
pub(crate) fn ignore_missing(result: io::Result<()>) {
    if let Err(error) = result {
        tracing::trace!(%error, "not removed");
    }
}
