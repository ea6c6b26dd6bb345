//! Opens files so that nothing is waited for: a pipe that has come to lie where a file was is an error.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// A regular file, to read.
///
/// # Errors
/// It cannot be opened, or is something else.
pub fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK.bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is no regular file")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_pipe_is_not_waited_for() {
        let temporary = tempfile::tempdir().unwrap();
        let pipe = temporary.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert!(open(&pipe).unwrap_err().to_string().contains("no regular file"));
        std::fs::write(temporary.path().join("file"), "x").unwrap();
        open(&temporary.path().join("file")).unwrap();
    }
}
