//! Small files that a daemon writes again and again, for the daemon or the command after it: whole or not at all.
//!
//! The new contents go into a second file, which then exchanges its name with the first. So no write makes a file and none removes one: a
//! file system that keeps what was just removed for some seconds (ext4 does) looks at all of that for each new file, which costs a host
//! with hundreds of daemons more than all else that idle daemons do.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Writes `contents` as JSON in the place of what is there.
///
/// # Errors
/// Those of the file system; what was there is there still.
pub fn write(path: &Path, contents: &impl Serialize) -> std::io::Result<()> {
    let (text, second) = (serde_json::to_vec(contents)?, second(path));
    let mut file = OpenOptions::new().write(true).create(true).truncate(false).open(&second)?;
    file.write_all(&text)?;
    // Afterwards: a file that is emptied before is written to the disk as soon as it is closed.
    file.set_len(text.len() as u64)?;
    drop(file);
    match renameat_with(CWD, &second, CWD, path, RenameFlags::EXCHANGE) {
        // The first time there is nothing to exchange it with. Network file systems cannot.
        Err(Errno::NOENT | Errno::INVAL | Errno::NOSYS) => fs::rename(&second, path),
        exchanged => Ok(exchanged?),
    }
}

/// The last contents; `None` where there are none, or spoilt ones, or more than `bytes_max` bytes.
pub fn read<T: DeserializeOwned>(path: &Path, bytes_max: u64) -> Option<T> {
    let mut text = vec![];
    File::open(path).ok()?.take(bytes_max).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Beside it, with `.new` after its name.
fn second(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    name.into()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn writes_exchange_two_files_and_what_is_read_is_the_last_whole_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("metrics-0.history");
        assert_eq!(read::<Vec<u32>>(&path, 100), None);
        let inode = || fs::metadata(&path).unwrap().ino();
        write(&path, &[7; 20]).unwrap();
        let first = inode();
        write(&path, &[1, 2]).unwrap();
        let other = inode();
        assert_ne!(first, other);
        // Shorter than what was in the file before.
        write(&path, &[3]).unwrap();
        assert_eq!((inode(), read(&path, 100)), (first, Some(vec![3])));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
        assert_eq!(read::<Vec<u32>>(&path, 2), None, "longer than may be");
        // A daemon that was killed while it wrote.
        fs::write(second(&path), "[9, 9").unwrap();
        assert_eq!(read(&path, 100), Some(vec![3]));
        write(&path, &[4]).unwrap();
        assert_eq!(read(&path, 100), Some(vec![4]));
        fs::write(&path, "[4").unwrap();
        assert_eq!(read::<Vec<u32>>(&path, 100), None);
    }
}
