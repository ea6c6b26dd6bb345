//! The directory that a view is mounted on: made where it is missing, refused where it is in use or others could move it.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use forebay_keeper::trusted_path;
use forebay_keeper::view_mount::MOUNT_TYPE;

/// A directory that can be mounted on.
#[derive(Debug)]
pub struct ViewDirectory {
    /// Where.
    pub path: PathBuf,
    /// Whether it was made here, so that it goes with the view.
    pub created: bool,
    /// The fault that was found and mended.
    pub note: Option<String>,
}

/// Makes `path` ready to be mounted on. Its parent must exist, and no component of it is a link.
///
/// # Errors
/// When it is not a directory, not empty, others could move it, or something is mounted there. No state has changed
/// then, except that a view whose daemon had died is gone.
pub fn prepare(path: &Path) -> anyhow::Result<ViewDirectory> {
    let failed = || format!("cannot use {} as the view", path.display());
    let note = detach_dead(path).with_context(failed)?;
    check_parent(path).and_then(|()| check_trusted(path)).with_context(failed)?;
    // Writable by nobody else, whatever the user's umask.
    let created = match DirBuilder::new().mode(0o755).create(path) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
        Err(error) => bail!("{}: {error}; choose another directory with --view", failed()),
    };
    if !created {
        // In a directory of several users somebody may have made it a moment ago.
        check_trusted(path).and_then(|()| check_empty(path)).with_context(failed)?;
    }
    Ok(ViewDirectory { path: path.to_owned(), created, note })
}

/// Whether `path` can hold the views of several nodes: a directory, in which anything may be, or nothing yet. Returns
/// what was found and mended.
///
/// # Errors
/// When it is something else or in a directory that does not exist, others could move it, or a view is mounted there.
pub fn check_shared(path: &Path) -> anyhow::Result<Option<String>> {
    let failed = || format!("cannot use {} for the views", path.display());
    let is_view = || forebay_fuse::mounted_type(path).is_some_and(|kind| kind == MOUNT_TYPE);
    let note = match if is_view() { detach_dead(path) } else { Ok(None) } {
        // Another node of this host was faster.
        Err(_) if !is_view() => None,
        outcome => outcome.with_context(failed)?,
    };
    check_parent(path).and_then(|()| check_trusted(path)).with_context(failed)?;
    match fs::metadata(path) {
        Ok(found) if !found.is_dir() => bail!("{}: it is not a directory; choose another with --view", failed()),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error).with_context(failed),
        _ => Ok(note),
    }
}

fn check_trusted(path: &Path) -> anyhow::Result<()> {
    trusted_path::check(path).map_err(|error| anyhow!("{error:#}; choose another directory with --view"))
}

fn check_parent(path: &Path) -> anyhow::Result<()> {
    match path.parent() {
        Some(parent) if matches!(parent.try_exists(), Ok(false)) => {
            bail!("its parent {} does not exist; create it", parent.display())
        }
        _ => Ok(()),
    }
}

/// Unmounts a view whose daemon died; refuses any other mount.
fn detach_dead(path: &Path) -> anyhow::Result<Option<String>> {
    let Some(kind) = forebay_fuse::mounted_type(path) else {
        return Ok(None);
    };
    if kind != MOUNT_TYPE {
        bail!("a file system of type {kind} is mounted there; choose another directory with --view");
    }
    if !forebay_fuse::is_stale(path) {
        bail!("a view of another job is mounted there; choose another directory with --view, or forebay down that job");
    }
    forebay_fuse::detach(path).context("a view whose daemon had died is mounted there and cannot be unmounted")?;
    Ok(Some(format!("{}: unmounted a view whose daemon had died", path.display())))
}

fn check_empty(path: &Path) -> anyhow::Result<()> {
    if !fs::metadata(path)?.is_dir() {
        bail!("it is not a directory; choose another with --view");
    }
    if !rustix::process::geteuid().is_root() && rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_err() {
        bail!("you may not write to it; choose another directory with --view");
    }
    match fs::read_dir(path)?.next() {
        None => Ok(()),
        Some(first) => {
            let name = first?.file_name();
            bail!("it is not empty ({} is in it); empty it or choose another with --view", name.to_string_lossy())
        }
    }
}

/// Removes the view directory after unmounting, if it was made for the view.
pub fn remove(path: &Path, created: bool) {
    if !created {
        return;
    }
    match fs::remove_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(path = %path.display(), %error, "the directory of the view stays");
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(path: &Path) -> String {
        format!("{:#}", prepare(path).unwrap_err())
    }

    #[test]
    fn made_where_missing_and_kept_where_not() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().canonicalize().unwrap().join("view");
        assert!(prepare(&path).unwrap().created);
        let again = prepare(&path).unwrap();
        assert!(!again.created);
        remove(&path, false);
        assert!(path.exists());
        remove(&path, true);
        assert!(!path.exists());
    }

    #[test]
    fn what_cannot_be_a_view() {
        let temporary = tempfile::tempdir().unwrap();
        let file = temporary.path().join("file");
        fs::write(&file, "x").unwrap();
        assert!(failure(&file).contains("not a directory"));
        assert!(failure(temporary.path()).contains("not empty (file is in it)"));
        assert!(failure(&temporary.path().join("a/b")).contains("does not exist; create it"));
        assert!(failure(Path::new("/proc")).contains("of type proc is mounted there"));
    }

    #[test]
    fn what_cannot_hold_views() {
        let temporary = tempfile::tempdir().unwrap();
        let file = temporary.path().join("file");
        fs::write(&file, "x").unwrap();
        let failure = |path: &Path| format!("{:#}", check_shared(path).unwrap_err());
        assert!(failure(&file).contains("not a directory"));
        assert!(failure(&temporary.path().join("a/b")).contains("does not exist; create it"));
        for good in [temporary.path().to_owned(), temporary.path().join("new"), "/proc".into()] {
            assert_eq!(check_shared(&good).unwrap(), None, "{}", good.display());
        }
        assert!(!temporary.path().join("new").exists(), "nothing was made");
    }
}
