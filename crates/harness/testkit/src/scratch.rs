//! A directory for the time of a run, with every mount below it: both are gone when the guard is dropped.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use rustix::mount::{UnmountFlags, unmount};

use crate::place::Place;
use crate::run;

/// A directory of our own, mode 0700.
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Makes `NAME-PID` in `parent`.
    ///
    /// # Errors
    /// When it exists or cannot be made.
    pub fn new(parent: &Path, name: &str) -> anyhow::Result<Self> {
        let path = parent.join(format!("{name}-{}", std::process::id()));
        fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
        fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        let path = path.canonicalize()?;
        Ok(Self { path })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A directory below, made when it is not there.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn dir(&self, name: &str) -> anyhow::Result<PathBuf> {
        let path = self.path.join(name);
        fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The innermost mount was made last.
        for mount in mounts_below(&self.path).iter().rev() {
            if unmount(mount, UnmountFlags::DETACH).is_err() {
                let argv = ["fusermount3".as_ref(), "-uz".as_ref(), mount.as_os_str()];
                run::cleanup(&mut Place::here().command(&argv));
            }
        }
        // Never delete through a mount that is still there.
        if !mounts_below(&self.path).is_empty() {
            eprintln!("cleaning up: something is still mounted below {}; it is left alone", self.path.display());
        } else if let Err(error) = fs::remove_dir_all(&self.path) {
            eprintln!("cleaning up: cannot remove {}: {error}", self.path.display());
        }
    }
}

/// Every mount point of this process's namespace at or below `path`, in the order of mounting.
///
/// # Panics
/// If the kernel does not tell: who asks would remove what is mounted there.
#[must_use]
pub fn mounts_below(path: &Path) -> Vec<PathBuf> {
    let table = fs::read("/proc/self/mounts").expect("the table of mounts");
    let points = table.split(|byte| *byte == b'\n').filter_map(|line| line.split(|byte| *byte == b' ').nth(1));
    points.map(unescaped).filter(|point| point.starts_with(path)).collect()
}

/// A path as the kernel's tables write it: blanks, tabs, line ends and backslashes as a backslash and three octal digits.
fn unescaped(field: &[u8]) -> PathBuf {
    let (mut path, mut rest) = (Vec::with_capacity(field.len()), field);
    while let Some((byte, behind)) = rest.split_first() {
        let digits = behind.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()).filter(|_| *byte == b'\\') {
            Some(escaped) => {
                path.push(escaped);
                rest = &behind[3..];
            }
            None => {
                path.push(*byte);
                rest = behind;
            }
        }
    }
    PathBuf::from(OsString::from_vec(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_the_mount_table_are_read_whole() {
        let path = |field: &[u8]| unescaped(field).into_os_string().into_vec();
        assert_eq!(path(b"/a\\040b\\134c\\011"), b"/a b\\c\t");
        assert_eq!(path(b"/u\xff\\04"), b"/u\xff\\04");
    }

    #[test]
    fn nothing_is_left_behind() {
        let scratch = Scratch::new(&std::env::temp_dir(), "forebay-scratch-test").unwrap();
        let path = scratch.path().to_owned();
        fs::write(scratch.dir("a").unwrap().join("b"), "c").unwrap();
        drop(scratch);
        assert!(!path.exists());
    }
}
