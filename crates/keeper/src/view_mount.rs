//! The mount of a node's view: its name in the table of mounts, and whether what is at a path is that mount.
//!
//! The name is the mount's source and tells job, rank and keeper, so that `down` finds the mounts of its job wherever they
//! are. Others may give a mount of theirs the same name, but not the job's user, whom the kernel writes down itself. To use
//! the view at its path, a process opens the directory first and compares device and name of the mount that it opened.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use anyhow::{Context, bail};
use forebay_fuse::MountedAt;
use forebay_launch::NodeRecord;
use forebay_types::NodeRank;
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

/// The type of our mounts in the table of mounts.
pub const MOUNT_TYPE: &str = "fuse.forebay";

/// A view's mount, as its keeper describes it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ViewMount {
    /// Where it was mounted.
    pub path: PathBuf,
    /// Its name.
    pub source: String,
    /// Major and minor device number of its files; without it the mount cannot be told from another.
    pub device: Option<(u32, u32)>,
}

/// The name of the mount of `rank`'s view.
pub fn source(job: &str, rank: NodeRank, keeper_pid: u32) -> String {
    format!("forebay:{job}/{rank}@{keeper_pid}")
}

/// The mounts that the keeper of this record has made and not undone, as seen from here.
///
/// # Errors
/// The error of reading the table.
pub fn left_by(job: &str, record: &NodeRecord) -> io::Result<Vec<MountedAt>> {
    let (name, own) = (source(job, record.rank, record.process.pid), geteuid().as_raw());
    let is_of_it = |mounted: &MountedAt| {
        mounted.is_whole && mounted.file_system == MOUNT_TYPE && mounted.source == name && mounted.user == Some(own)
    };
    Ok(MountedAt::all()?.into_iter().filter(is_of_it).collect())
}

impl ViewMount {
    /// The root of the view, if that is what is seen at its path from here. Asks the view nothing.
    ///
    /// # Errors
    /// When it cannot be told.
    pub fn open(&self) -> anyhow::Result<Option<OwnedFd>> {
        let Ok(place) = forebay_fuse::open_place(&self.path) else { return Ok(None) };
        let failed = || format!("cannot tell what is mounted at {}", self.path.display());
        let mounted = MountedAt::of(&place).with_context(failed)?;
        Ok(mounted.filter(|mounted| self.is(mounted)).map(|_| place))
    }

    /// The same, where it must be.
    ///
    /// # Errors
    /// When something else is there.
    pub fn open_or_refuse(&self, rank: NodeRank) -> anyhow::Result<OwnedFd> {
        let Some(place) = self.open()? else {
            bail!(
                "what is at {} is not the view of node {rank}: it was unmounted, or somebody moved a directory above it; run \
                 nothing from there; forebay down, then start the job with --view in a directory that only you can change",
                self.path.display()
            );
        };
        Ok(place)
    }

    fn is(&self, mounted: &MountedAt) -> bool {
        mounted.is_whole
            && mounted.file_system == MOUNT_TYPE
            && mounted.source == self.source
            && self.device == Some(mounted.device)
    }
}
