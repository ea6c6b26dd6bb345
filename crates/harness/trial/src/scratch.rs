//! A directory for the time of a run, with every mount below it: both are gone when the guard is dropped.

use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::Context;
use forebay_fuse::MountedAt;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};

use crate::Place;
use crate::run;

/// A directory of our own, mode 0700.
pub struct Scratch {
    path: PathBuf,
    /// The directory, locked while this lives: a process that is not seen from elsewhere has none that could be taken for left behind.
    _lock: File,
}

impl Scratch {
    /// Makes `NAME-PID` in `parent`.
    ///
    /// # Errors
    /// When it exists or cannot be made.
    pub fn new(parent: &Path, name: &str) -> anyhow::Result<Self> {
        let path = parent.join(format!("{name}-{}", std::process::id()));
        fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
        let failed = || format!("cannot make {}", path.display());
        DirBuilder::new().mode(0o700).create(&path).with_context(failed)?;
        let path = path.canonicalize()?;
        let lock = locked(&path)?.with_context(|| format!("another process uses {}", path.display()))?;
        Ok(Self { path, _lock: lock })
    }

    /// The directories `NAME-PID` in `parent` of this user's processes that are gone, which were killed before they could remove them.
    #[must_use]
    pub fn of_the_killed(parent: &Path, name: &str) -> Vec<(u32, Self)> {
        let entries = fs::read_dir(parent).into_iter().flatten().flatten();
        let of_killed = |entry: fs::DirEntry| {
            let pid: u32 = entry.file_name().to_str()?.strip_prefix(name)?.strip_prefix('-')?.parse().ok()?;
            let found = fs::symlink_metadata(entry.path()).ok()?;
            let is_own = found.is_dir() && found.uid() == rustix::process::geteuid().as_raw();
            let is_gone = !Path::new("/proc").join(pid.to_string()).exists();
            let lock = if is_own && is_gone { locked(&entry.path()).ok()?? } else { return None };
            Some((pid, Self { path: entry.path(), _lock: lock }))
        };
        entries.filter_map(of_killed).collect()
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

/// The directory, locked; `None` when another process has done so. File systems that lock no directories are no hindrance.
fn locked(path: &Path) -> anyhow::Result<Option<File>> {
    let directory = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => Ok(None),
        _ => Ok(Some(directory)),
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

/// The longest temporary directory in which sockets of a job have paths that the kernel takes, bytes.
const TEMPORARY_BYTES_MAX: usize = 40;

/// Where sockets of jobs and preloaded libraries lie: not in a directory whose path is too long for the former, or divided by the loader.
#[must_use]
pub fn temporary() -> PathBuf {
    let given = std::env::temp_dir();
    let bytes = given.as_os_str().as_encoded_bytes();
    let is_divided = bytes.iter().any(|byte| byte.is_ascii_whitespace() || *byte == b':');
    if is_divided || bytes.len() > TEMPORARY_BYTES_MAX { PathBuf::from("/tmp") } else { given }
}

/// Every mount point of this process's namespace at or below `path`, in the order of mounting.
///
/// # Panics
/// If the kernel does not tell: who asks would remove what is mounted there.
#[must_use]
pub fn mounts_below(path: &Path) -> Vec<PathBuf> {
    let mounts = MountedAt::all().expect("the table of mounts");
    mounts.into_iter().map(|mounted| mounted.dir).filter(|dir| dir.starts_with(path)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_trace_is_left_behind() {
        let scratch = Scratch::new(&std::env::temp_dir(), "forebay-scratch-test").unwrap();
        let path = scratch.path().to_owned();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
        fs::write(scratch.dir("a").unwrap().join("b"), "c").unwrap();
        drop(scratch);
        assert!(!path.exists());
    }

    #[test]
    fn one_that_is_in_use_is_not_left_behind_whoever_sees_its_process() {
        let parent = tempfile::tempdir().unwrap();
        // No process has that number here.
        let path = parent.path().join("trial-4194305");
        fs::create_dir(&path).unwrap();
        let used = locked(&path).unwrap();
        assert!(used.is_some() && Scratch::of_the_killed(parent.path(), "trial").is_empty());
        drop(used);
        assert_eq!(Scratch::of_the_killed(parent.path(), "trial").len(), 1);
        assert!(!path.exists());
    }
}
