//! Where a node's burst mount and store go: decided and made before the node starts.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use forebay_daemon::BurstOptions;
use forebay_launch::{JobDirectory, NodeAddress, ViewLayout};
use forebay_types::NodeRank;

use crate::settings::Settings;
use crate::settings::values::BurstPair;
use crate::view_directory;

/// What of the free room a store takes where nobody says how much.
const STORE_SHARE: f64 = 0.9;

/// A burst mount that can be made.
pub struct BurstMount {
    /// Where it is mounted.
    pub mount: PathBuf,
    /// The directories that were made for it, innermost first.
    pub created: Vec<PathBuf>,
    /// What its daemon is told.
    pub options: BurstOptions,
}

/// Makes ready what `settings` say of the burst tier, if anything.
///
/// # Errors
/// What is wrong with it. Directories that were made for it are gone then.
pub fn prepare(
    settings: &Settings,
    directory: &JobDirectory,
    layout: ViewLayout,
    nodes: &[NodeAddress],
    rank: NodeRank,
) -> anyhow::Result<Option<BurstMount>> {
    let BurstPair { dir, backing } = match &settings.burst[..] {
        [] => {
            ensure!(settings.burst_store.is_none(), "--burst-store without --burst DIR=BACKING has nothing to store");
            return Ok(None);
        }
        [pair] => pair.clone(),
        _ => bail!("--burst: this version has one burst tier for a job; give one DIR=BACKING"),
    };
    ensure!(
        nodes.len() == 1,
        "--burst: this version has a burst tier in jobs of one node only, this one has {}",
        nodes.len()
    );
    let Some(store) = &settings.burst_store else {
        bail!("--burst needs --burst-store DIR: a directory on the node's own disk (NVMe)");
    };
    ensure!(backing.is_dir(), "--burst: {} is not a directory; create it, or name another", backing.display());
    let base = settings.burst_mount.clone().unwrap_or_else(|| directory.burst());
    let mount = layout.view(&base, nodes, rank).join(dir.strip_prefix("/").unwrap_or(&dir));
    let store = layout.view(store, nodes, rank);
    let mut created = make_all(&mount, 0o755)?;
    match make_all(&store, 0o700) {
        Ok(of_store) => created.extend(of_store),
        Err(error) => {
            remove(&created);
            return Err(error.context("the burst store"));
        }
    }
    let prepared = view_directory::prepare(&mount).and_then(|_| capacity_bytes(settings, &store));
    let options = BurstOptions { dir, backing, store, capacity_bytes: 0 };
    match prepared {
        Ok(capacity_bytes) => {
            Ok(Some(BurstMount { mount, created, options: BurstOptions { capacity_bytes, ..options } }))
        }
        Err(error) => {
            remove(&created);
            Err(error.context("the burst mount"))
        }
    }
}

/// Removes directories that were made for a burst mount and its store, as far as they are empty.
pub fn remove(created: &[PathBuf]) {
    for path in created {
        match std::fs::remove_dir(path) {
            // A store that holds what has not landed.
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                tracing::debug!(path = %path.display(), "a directory of the burst tier stays");
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(path = %path.display(), %error, "a directory of the burst tier stays");
            }
            _ => {}
        }
    }
}

/// Makes a directory and those above it that are missing; those that were made, innermost first.
fn make_all(path: &Path, mode: u32) -> anyhow::Result<Vec<PathBuf>> {
    let missing: Vec<&Path> = path.ancestors().take_while(|path| !path.exists()).collect();
    let mut created = vec![];
    for path in missing.into_iter().rev() {
        if let Err(error) = DirBuilder::new().mode(mode).create(path) {
            remove(&created);
            return Err(error).with_context(|| format!("cannot make {}; choose another directory", path.display()));
        }
        created.insert(0, path.to_owned());
    }
    Ok(created)
}

fn capacity_bytes(settings: &Settings, store: &Path) -> anyhow::Result<u64> {
    if let Some(bytes) = settings.burst_capacity {
        return Ok(bytes);
    }
    let place = store.ancestors().find(|path| path.exists()).unwrap_or(store);
    let sizes =
        rustix::fs::statvfs(place).with_context(|| format!("cannot see how much room {} has", place.display()))?;
    Ok((sizes.f_bavail as f64 * sizes.f_frsize as f64 * STORE_SHARE) as u64)
}
