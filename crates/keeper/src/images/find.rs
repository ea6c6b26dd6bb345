//! Where the tier shows an image, and what kind of image it is.
//!
//! An image is looked for in the view first, and then at its own path, where the view may lie as well. Not all that is exported
//! is covered (`own_paths`), and not every container sees the view. The image found must be the view's, by its device; it is
//! never read past the tier.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, major, minor, open, statat};
use rustix::io::Errno;

use crate::own_paths::Node;

/// Programs of an image lie in one of these.
const PROGRAMS: [&str; 2] = ["bin", "usr"];

/// A file or directory of the view, by the path at which it was found.
#[derive(Debug)]
pub struct Placed {
    path: PathBuf,
    stat: Stat,
}

/// An image.
#[derive(Debug)]
pub enum Found {
    /// A directory that can be a root.
    Directory(Placed),
    /// A file, which may be one of SquashFS.
    File(Placed),
}

impl Placed {
    /// The file at `path` now.
    pub fn at(path: PathBuf) -> rustix::io::Result<Self> {
        let stat = fstat(open_place(&path)?)?;
        Ok(Self { path, stat })
    }

    /// Where it was found.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The identity of this version of the file.
    pub fn version(&self) -> String {
        let Stat { st_ino, st_size, st_mtime, st_mtime_nsec, .. } = self.stat;
        format!("{st_ino:x}-{st_size:x}-{st_mtime:x}.{st_mtime_nsec:x}")
    }
}

/// Finds `image`.
///
/// # Errors
/// When the job shows nothing by that name, or nothing that can be an image; with what to do.
pub fn find(node: &Node, image: &Path) -> anyhow::Result<Found> {
    let path = std::path::absolute(image).with_context(|| format!("cannot find {}", image.display()))?;
    let in_view = path.strip_prefix("/").map_or_else(|_| path.clone(), |below| node.view.path.join(below));
    for candidate in [in_view, path.clone()] {
        match open_place(&candidate) {
            Ok(opened) if is_of_view(node, &opened)? => return kind_of(candidate, &opened, image),
            Ok(_) | Err(Errno::NOENT | Errno::NOTDIR) => {}
            Err(errno) => return Err(errno).with_context(|| format!("cannot look at the image {}", image.display())),
        }
    }
    bail!("{}", not_shown(node, &path))
}

fn open_place(path: &Path) -> rustix::io::Result<OwnedFd> {
    open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
}

fn is_of_view(node: &Node, opened: &OwnedFd) -> anyhow::Result<bool> {
    let device = fstat(opened).context("cannot look at the image")?.st_dev;
    Ok(node.view.device == Some((major(device), minor(device))))
}

fn kind_of(path: PathBuf, opened: &OwnedFd, image: &Path) -> anyhow::Result<Found> {
    let stat = fstat(opened).with_context(|| format!("cannot look at the image {}", image.display()))?;
    let shown = image.display();
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => {
            let has = |name: &str| statat(opened.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW).is_ok();
            ensure!(
                PROGRAMS.iter().any(|name| has(name)),
                "{shown} is not an image: it has neither bin nor usr; name the directory that is to be the program's root"
            );
            Ok(Found::Directory(Placed { path, stat }))
        }
        FileType::RegularFile => Ok(Found::File(Placed { path, stat })),
        _ => bail!("{shown} is not an image: neither a directory nor a SquashFS file"),
    }
}

/// Why there is no such image, and what to do.
fn not_shown(node: &Node, path: &Path) -> String {
    let shown = path.display();
    let is_below = node.exports.iter().any(|export| path.starts_with(export));
    if is_below {
        return format!(
            "there is no image {shown} in the job's exports; if it is new, forebay refresh lets the job see it"
        );
    }
    let exports: Vec<String> = node.exports.iter().map(|export| export.display().to_string()).collect();
    let parent = path.parent().unwrap_or(path).display();
    format!(
        "the image {shown} lies outside the job's exports, and so cannot be read through Forebay (exports: {}); put it below one of \
         them, or start the job with --export {parent}",
        exports.join(", ")
    )
}
