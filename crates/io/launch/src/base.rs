//! The directory that holds the jobs of a user on a host. The job that creates it leaves a mark in it. A marked directory is removed with its last job,
//! and one without the mark stays.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// The file that marks a directory which Forebay has made for several users of it. No job has such a name.
pub const MARK: &str = ".made-by-forebay";

/// Makes it, for this user alone, and marks it. One that cannot be marked stays.
///
/// # Errors
/// Why it cannot be made; `AlreadyExists`.
pub(crate) fn make(base: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(base)?;
    mark(base);
    Ok(())
}

/// Removes it if nothing is in it but the mark.
pub(crate) fn remove_with_last_job(base: &Path) {
    let path = base.join(MARK);
    let Ok(mut entries) = fs::read_dir(base) else { return };
    let is_last = path.exists() && entries.all(|entry| entry.is_ok_and(|entry| entry.path() == path));
    if is_last && fs::remove_file(&path).is_ok() && fs::remove_dir(base).is_err() {
        // A job has come meanwhile; the directory goes with that one.
        mark(base);
    }
}

fn mark(base: &Path) {
    if let Err(error) = File::create(base.join(MARK)) {
        tracing::debug!(%error, base = %base.display(), "not marked");
    }
}
