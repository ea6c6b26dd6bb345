//! Paths of the host that are seen in a container, and taking them before the container's root covers the way there.

use std::ffi::{OsStr, OsString};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use rustix::fs::{CWD, FileType, Stat, fstat};
use rustix::io::Errno;
use rustix::mount::{OpenTreeFlags, open_tree};

/// Something of the host, and its place in the container.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bind {
    /// A file or directory, as it is seen outside.
    pub source: PathBuf,
    /// Where it is seen inside.
    pub target: PathBuf,
}

impl Bind {
    /// The same path inside and outside.
    pub fn same(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        Self { source: path.clone(), target: path }
    }

    /// `SRC` or `SRC:DST`.
    ///
    /// # Errors
    /// When a part is empty, or there are more than two.
    pub fn parse(text: &OsStr) -> Result<Self, String> {
        let parts: Vec<&[u8]> = text.as_bytes().split(|byte| *byte == b':').collect();
        let path = |part: &[u8]| PathBuf::from(OsString::from_vec(part.to_vec()));
        match parts[..] {
            [source] if !source.is_empty() => {
                std::path::absolute(path(source)).map(Self::same).map_err(|error| error.to_string())
            }
            [source, target] if !source.is_empty() && !target.is_empty() => {
                Ok(Self { source: path(source), target: path(target) })
            }
            _ => Err("give SRC or SRC:DST, neither of them empty".to_owned()),
        }
    }
}

/// A copy of a mount, or of a part of one, that is not mounted yet.
#[derive(Debug)]
pub struct Taken {
    /// It.
    pub tree: OwnedFd,
    /// Its root's attributes.
    pub stat: Stat,
    /// Where it goes.
    pub target: PathBuf,
    /// Whether a place is made for it where the image has none.
    pub makes_place: bool,
}

impl Taken {
    /// A path that must be there.
    pub fn required(bind: &Bind) -> anyhow::Result<Self> {
        Self::of(bind, true).with_context(|| {
            let (source, target) = (bind.source.display(), bind.target.display());
            format!("cannot bind {source} at {target} of the container")
        })
    }

    /// A path that may be missing outside.
    pub fn if_there(bind: &Bind) -> Option<Self> {
        Self::of(bind, true).ok()
    }

    /// A path that may be missing outside, and is not wanted where it is missing inside.
    pub fn if_both_have(path: &Path) -> Option<Self> {
        Self::of(&Bind::same(path), false).ok()
    }

    fn of(bind: &Bind, makes_place: bool) -> anyhow::Result<Self> {
        let tree = take(&bind.source)?;
        let stat = fstat(&tree)?;
        Ok(Self { tree, stat, target: bind.target.clone(), makes_place })
    }

    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        FileType::from_raw_mode(self.stat.st_mode) == FileType::Directory
    }
}

/// The mount at a path, with all that is mounted below it.
pub fn take(path: &Path) -> anyhow::Result<OwnedFd> {
    take_at(CWD, path, OpenTreeFlags::empty())
}

/// The same from a directory on.
pub fn take_at(base: BorrowedFd<'_>, path: &Path, how: OpenTreeFlags) -> anyhow::Result<OwnedFd> {
    let how = how | OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    match open_tree(base, path, how) {
        Ok(tree) => Ok(tree),
        Err(Errno::NOSYS) => bail!("the kernel is older than Linux 5.2"),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binds_have_one_or_two_parts() {
        let parse = |text: &str| Bind::parse(OsStr::new(text));
        assert_eq!(parse("/data"), Ok(Bind::same("/data")));
        assert_eq!(parse("/data:/mnt/0"), Ok(Bind { source: "/data".into(), target: "/mnt/0".into() }));
        assert!(parse("x").unwrap().target.is_absolute());
        for wrong in ["", ":", "/a:", ":/a", "/a:/b:/c"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
