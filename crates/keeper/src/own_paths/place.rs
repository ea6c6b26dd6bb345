//! Where a process is: what decides which namespace it can enter, and what it finds there.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use forebay_types::NodeRank;
use rustix::thread::{CapabilitySet, capabilities};
use serde::{Deserialize, Serialize};

use crate::view_mount::ViewMount;

/// The namespaces of a process, by the numbers that the kernel gives them, and its root directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Place {
    /// The mount namespace.
    pub mount: u64,
    /// The user namespace.
    pub user: u64,
    /// Device and inode number of the root directory.
    pub root: (u64, u64),
    /// Whether it may mount there. One that may must not end up in a user namespace that takes its other rights.
    pub may_mount: bool,
}

/// The message where there is no `dir`.
#[must_use]
pub fn only_at(dir: &Path, backing: &Path) -> String {
    only_at_because("does not exist", dir, backing)
}

fn only_at_because(why: &str, dir: &Path, backing: &Path) -> String {
    format!(
        "{} {why} on this node, so programs find the tier only at {}. Use that path, or choose a DIR that exists (--burst).",
        dir.display(),
        backing.display()
    )
}

impl BurstPlaces {
    /// The message where its directory for programs does not exist, or has become a file.
    pub(super) fn only_at_backing(&self) -> String {
        let why = if self.dir.exists() { "is not a directory" } else { "does not exist" };
        only_at_because(why, &self.dir, &self.backing)
    }

    /// The directory below which the mount lies at `dir`: what programs know it by.
    #[must_use]
    pub fn base(&self) -> &Path {
        base(&self.mount.path, &self.dir)
    }
}

/// The directory below which `mount` lies at `dir`.
#[must_use]
pub fn base<'a>(mount: &'a Path, dir: &Path) -> &'a Path {
    let components = dir.components().filter(|component| matches!(component, std::path::Component::Normal(_)));
    mount.ancestors().nth(components.count()).unwrap_or(mount)
}

impl Place {
    /// That of this process.
    ///
    /// # Errors
    /// Without `/proc`.
    pub fn of_this() -> io::Result<Self> {
        let number = |name: &str| Ok::<_, io::Error>(std::fs::metadata(Path::new("/proc/self/ns").join(name))?.ino());
        let root = std::fs::metadata("/")?;
        let may_mount = capabilities(None)?.effective.contains(CapabilitySet::SYS_ADMIN);
        Ok(Self { mount: number("mnt")?, user: number("user")?, root: (root.dev(), root.ino()), may_mount })
    }
}

/// A burst tier, as programs see it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct BurstPlaces {
    /// Its mount.
    pub mount: ViewMount,
    /// Where it is to be seen.
    pub dir: PathBuf,
    /// The directory that it lands in, where it is to be seen as well.
    pub backing: PathBuf,
    /// Whether other nodes have it, too.
    #[serde(default)]
    pub is_shared: bool,
}

/// A node, as its keeper describes it to programs that want to see its exports at their own paths.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Node {
    /// Its rank.
    pub rank: NodeRank,
    /// Its host, as the job lists it.
    pub host: String,
    /// Its view.
    pub view: ViewMount,
    /// Its burst mount, if it has one.
    #[serde(default)]
    pub burst: Option<Box<BurstPlaces>>,
    /// Its exports, as given.
    pub exports: Vec<PathBuf>,
    /// Whether links are shown as links inside the view.
    pub links_lead_into_view: bool,
    /// Where its keeper is.
    pub place: Place,
    /// Where its keeper was before it made namespaces of its own, if it had to.
    #[serde(default)]
    pub outside: Option<Place>,
}

impl Node {
    /// Whether programs from `place` see its mounts once they have entered the namespaces of its keeper.
    #[must_use]
    pub fn lets_in(&self, place: Place) -> bool {
        self.outside == Some(place)
    }

    /// Whether the view is seen from `place`, which is where this process is.
    ///
    /// # Errors
    /// When something else is seen where its keeper is, at the path where the keeper mounted it.
    pub fn sees_view(&self, place: Place) -> anyhow::Result<bool> {
        if self.place.mount == place.mount && self.place.root == place.root {
            return self.view.open_or_refuse(self.rank).map(|_| true);
        }
        Ok(self.view.open()?.is_some())
    }
}
