//! The file beside an incomplete one that says so to whoever finds it.
//!
//! Others may write in its directory, too: what they have put at its place, a link, a pipe or a file of theirs, is no mark.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::process::geteuid;

/// Where the mark of a file is.
#[must_use]
pub fn path_of(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".forebay-incomplete");
    PathBuf::from(name)
}

/// The mark of a file, to be read.
///
/// # Errors
/// That of opening it; `PermissionDenied` for what is no mark of this user's.
pub fn open(file: &Path) -> io::Result<File> {
    checked(OpenOptions::new().read(true), file)
}

/// The same, to be written on: made if there is none.
///
/// # Errors
/// As `open`.
pub fn make(file: &Path) -> io::Result<File> {
    checked(OpenOptions::new().append(true).create(true), file)
}

fn checked(options: &mut OpenOptions, file: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    let open = options.custom_flags(flags.cast_signed()).open(path_of(file))?;
    let found = open.metadata()?;
    if found.is_file() && found.uid() == geteuid().as_raw() && found.nlink() == 1 {
        Ok(open)
    } else {
        Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is not a regular file of this user"))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn files_of_others_are_no_marks() {
        let directory = tempfile::tempdir().unwrap();
        let (file, victim) = (directory.path().join("file"), directory.path().join("victim"));
        fs::write(&victim, "precious").unwrap();
        let place = path_of(&file);
        let refused = || {
            assert!(make(&file).is_err() && open(&file).is_err());
            fs::remove_file(&place).unwrap();
            assert_eq!(fs::read(&victim).unwrap(), b"precious");
        };
        symlink(&victim, &place).unwrap();
        refused();
        fs::hard_link(&victim, &place).unwrap();
        refused();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &place,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        refused();
        make(&file).unwrap().write_all(b"bytes").unwrap();
        assert_eq!(io::read_to_string(open(&file).unwrap()).unwrap(), "bytes");
    }
}
