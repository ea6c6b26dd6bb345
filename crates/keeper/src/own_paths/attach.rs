//! Laying parts of the view over the directories that they show.
//!
//! Everything is taken in hand before anything is put down: what is covered cannot be reached by its path any more. The view is
//! reached by a descriptor of its root, never by its path, which may lead elsewhere by then.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use forebay_types::NodeRank;
use rustix::fs::CWD;
use rustix::io::Errno;
use rustix::mount::{MoveMountFlags, OpenTreeFlags, UnmountFlags, move_mount, open_tree, unmount};

use super::place::BurstPlaces;
use super::plan::{Cover, Plan, below_root};

/// Where the view is seen while parts of it are taken.
#[derive(Debug)]
pub struct Trees {
    root: OwnedFd,
    /// Where it was mounted for the time being.
    lent_at: Option<PathBuf>,
}

impl Trees {
    /// It is seen at its own path, and this is its root.
    pub fn of_view(root: OwnedFd) -> Self {
        Self { root, lent_at: None }
    }

    /// It is not seen from here, and its node has lent it: mounted at its own path where `has_place`, because there is such a
    /// directory that nobody else can change, else for a moment over the job's, which was found just now.
    ///
    /// # Errors
    /// When it cannot be mounted, or links lead to a path that does not exist here.
    pub fn of_lent(
        lent: OwnedFd,
        (view, has_place): (&Path, bool),
        job_directory: &Path,
        links_lead_into_view: bool,
    ) -> anyhow::Result<Self> {
        ensure!(
            has_place || !links_lead_into_view,
            "links are shown as links inside the view (--links view), and there is no directory {} here; have one made \
             in the container, or start the job with --links asis",
            view.display()
        );
        let place = if has_place { view } else { job_directory };
        put(&lent, place).with_context(|| format!("cannot mount the view on {}", place.display()))?;
        Ok(Self { root: lent, lent_at: (!has_place).then(|| place.to_owned()) })
    }

    /// Its root.
    pub fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }
}

/// A burst mount that is to be seen at its own paths.
#[derive(Debug)]
pub struct Burst {
    root: OwnedFd,
    /// Where.
    dirs: Vec<PathBuf>,
}

impl Burst {
    /// It must be seen from here. Where there is no directory for programs to see it at, they see it where it lands, and that is said.
    ///
    /// # Errors
    /// When it is not, or where it lands is no directory here.
    pub fn find(places: &BurstPlaces, rank: NodeRank) -> anyhow::Result<Self> {
        let Some(root) = places.mount.open()? else {
            bail!("the burst mount {} of node {rank} is not visible here", places.mount.path.display());
        };
        let found = |dir: &Path| dir.canonicalize().ok().filter(|found| found.is_dir());
        let backing = found(&places.backing).with_context(|| {
            format!(
                "the burst tier cannot be shown at {}, because there is no such directory here; make an empty one, or use the burst \
                 mount {}",
                places.backing.display(),
                places.mount.path.display()
            )
        })?;
        let dir = found(&places.dir);
        if dir.is_none() {
            eprintln!("forebay: note: {}", places.only_at_backing());
        }
        let dirs = dir.filter(|dir| *dir != backing).into_iter().chain([backing]).collect();
        Ok(Self { root, dirs })
    }

    /// The mounts to attach and their places, in order.
    fn take(&self) -> anyhow::Result<Vec<(PathBuf, OwnedFd)>> {
        let mut taken = vec![];
        for dir in &self.dirs {
            let tree = open(self.root.as_fd(), Path::new("."), OpenTreeFlags::empty());
            taken.push((dir.clone(), tree.context("cannot take the burst mount")?));
        }
        Ok(taken)
    }
}

/// Carries out a plan; then the burst mount, if there is one, lies over its own paths.
///
/// # Errors
/// The mount or the path that fails.
pub fn attach(plan: &Plan, trees: &Trees, burst: Option<&Burst>) -> anyhow::Result<()> {
    let shown = burst.map_or(Ok(vec![]), Burst::take)?;
    let mut taken = Vec::new();
    for cover in &plan.covers {
        let kept: Vec<(&Path, OwnedFd)> =
            cover.kept.iter().map(|point| Ok((point.as_path(), take_kept(point)?))).collect::<anyhow::Result<_>>()?;
        if let Some(tree) = take(cover, trees.root())? {
            taken.push((cover, tree, kept));
        }
    }
    for (cover, tree, kept) in &taken {
        put(tree, &cover.dir).with_context(|| format!("cannot show {} at its own path", cover.dir.display()))?;
        for (point, mount) in kept {
            put(mount, point).with_context(|| format!("cannot keep what is mounted at {}", point.display()))?;
        }
    }
    for (dir, tree) in &shown {
        put(tree, dir).with_context(|| format!("cannot show the burst tier at {}", dir.display()))?;
    }
    if let Some(place) = &trees.lent_at {
        unmount(place, UnmountFlags::DETACH).context("cannot unmount the view again")?;
    }
    Ok(())
}

/// The part of the view that shows a directory; `None` for one that nobody named and the view does not have: it is new.
fn take(cover: &Cover, view: BorrowedFd<'_>) -> anyhow::Result<Option<OwnedFd>> {
    match open(view, below_root(&cover.dir), OpenTreeFlags::empty()) {
        Ok(tree) => Ok(Some(tree)),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) if !cover.is_named => Ok(None),
        Err(Errno::NOSYS) => Err(Errno::NOSYS).context("the kernel is older than Linux 5.2"),
        Err(errno) => Err(errno).with_context(|| format!("cannot take {} from the view", cover.dir.display())),
    }
}

fn take_kept(point: &Path) -> anyhow::Result<OwnedFd> {
    open(CWD, point, OpenTreeFlags::AT_RECURSIVE)
        .with_context(|| format!("cannot keep what is mounted at {}", point.display()))
}

fn open(base: BorrowedFd<'_>, path: &Path, how: OpenTreeFlags) -> Result<OwnedFd, Errno> {
    let always = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_SYMLINK_NOFOLLOW
        | OpenTreeFlags::AT_NO_AUTOMOUNT;
    open_tree(base, path, always | how)
}

fn put(tree: &OwnedFd, path: &Path) -> Result<(), Errno> {
    move_mount(tree, "", CWD, path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
}
