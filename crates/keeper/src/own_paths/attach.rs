//! Laying parts of the view over the directories that they show.
//!
//! Everything is taken in hand before anything is put down: what is covered cannot be reached by its path any more.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use rustix::fs::CWD;
use rustix::io::Errno;
use rustix::mount::{MoveMountFlags, OpenTreeFlags, UnmountFlags, move_mount, open_tree, unmount};

use super::plan::{Cover, Plan};

/// Where the view is seen while parts of it are taken.
#[derive(Debug)]
pub struct Trees {
    view: PathBuf,
    /// It was mounted there for the time being.
    is_lent: bool,
}

impl Trees {
    /// It is seen at its own path.
    pub fn of_view(view: PathBuf) -> Self {
        Self { view, is_lent: false }
    }

    /// It is not seen from here, and its node has lent it: mounted at its own path where there is such a directory, else
    /// for a moment over the job's, which was found just now.
    ///
    /// # Errors
    /// When it cannot be mounted, or links lead to a path that does not exist here.
    pub fn of_lent(
        lent: &OwnedFd,
        view: &Path,
        job_directory: &Path,
        links_lead_into_view: bool,
    ) -> anyhow::Result<Self> {
        let has_place = view.is_dir();
        ensure!(
            has_place || !links_lead_into_view,
            "links are shown as links inside the view (--links view), and there is no directory {} here; have one made \
             in the container, or start the job with --links asis",
            view.display()
        );
        let place = if has_place { view } else { job_directory };
        put(lent, place).with_context(|| format!("cannot mount the view on {}", place.display()))?;
        Ok(Self { view: place.to_owned(), is_lent: !has_place })
    }

    /// The directory.
    pub fn view(&self) -> &Path {
        &self.view
    }
}

/// Carries out a plan.
///
/// # Errors
/// What cannot be taken or put.
pub fn attach(plan: &Plan, trees: &Trees) -> anyhow::Result<()> {
    let mut taken = Vec::new();
    for cover in &plan.covers {
        let kept: Vec<(&Path, OwnedFd)> =
            cover.kept.iter().map(|point| Ok((point.as_path(), take_kept(point)?))).collect::<anyhow::Result<_>>()?;
        if let Some(tree) = take(cover, trees.view())? {
            taken.push((cover, tree, kept));
        }
    }
    for (cover, tree, kept) in &taken {
        put(tree, &cover.dir).with_context(|| format!("cannot show {} at its own path", cover.dir.display()))?;
        for (point, mount) in kept {
            put(mount, point).with_context(|| format!("cannot keep what is mounted at {}", point.display()))?;
        }
    }
    if trees.is_lent {
        unmount(trees.view(), UnmountFlags::DETACH).context("cannot take the view away again")?;
    }
    Ok(())
}

/// The part of the view that shows a directory; `None` for one that nobody named and the view does not have: it is new.
fn take(cover: &Cover, view: &Path) -> anyhow::Result<Option<OwnedFd>> {
    let shown = view.join(cover.dir.strip_prefix("/").unwrap_or(&cover.dir));
    match open(&shown, OpenTreeFlags::empty()) {
        Ok(tree) => Ok(Some(tree)),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) if !cover.is_named => Ok(None),
        Err(Errno::NOSYS) => Err(Errno::NOSYS).context("the kernel is older than Linux 5.2"),
        Err(errno) => Err(errno).with_context(|| format!("cannot take {} from the view", cover.dir.display())),
    }
}

fn take_kept(point: &Path) -> anyhow::Result<OwnedFd> {
    open(point, OpenTreeFlags::AT_RECURSIVE)
        .with_context(|| format!("cannot keep what is mounted at {}", point.display()))
}

fn open(path: &Path, how: OpenTreeFlags) -> Result<OwnedFd, Errno> {
    let always = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_SYMLINK_NOFOLLOW
        | OpenTreeFlags::AT_NO_AUTOMOUNT;
    open_tree(CWD, path, always | how)
}

fn put(tree: &OwnedFd, path: &Path) -> Result<(), Errno> {
    move_mount(tree, "", CWD, path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
}
