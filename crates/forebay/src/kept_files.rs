//! Files in the directories of jobs that have ended (`kept_logs`).

use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// A directory for this user alone.
pub fn make_directory(directory: &Path) -> std::io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

/// A reader sees the whole file or the one before, and a link of that name is replaced, not followed.
pub fn write_whole(directory: &Path, name: &str, bytes: &[u8]) -> std::io::Result<()> {
    let new = directory.join(format!(".{name}.{}", std::process::id()));
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    let written = file.write_all(bytes).and_then(|()| fs::rename(&new, directory.join(name)));
    written.inspect_err(|_| drop(fs::remove_file(&new)))
}
