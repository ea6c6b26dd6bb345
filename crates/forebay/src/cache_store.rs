//! Where a node's cache store lies and how large it may be: decided before the node starts. The daemon opens it.
//!
//! A store belongs to its user, not to a job: it stays when the job ends, and the next one starts with what it has.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf, absolute};
use std::time::Duration;

use anyhow::{Context, ensure};
use forebay_chunk_store::{limits::CAPACITY_BYTES_MIN, summary};
use forebay_daemon::CacheStoreOptions;
use forebay_launch::{NodeAddress, ViewLayout};
use forebay_types::NodeRank;
use rustix::fs::statvfs;
use rustix::process::geteuid;

use crate::node_local::{self, Named};
use crate::settings::Settings;
use crate::settings::values::{StorePlace, show_size};

/// The most that a store has by default: a user's share of a disk that others use, too.
const DEFAULT_BYTES_MAX: u64 = 256 << 30;

/// Within its clock's grain, of a second on some file systems, another change leaves a file's version as it is.
const CACHE_AFTER_MIN: Duration = Duration::from_secs(2);

/// Whether the settings of the cache store agree with each other.
///
/// # Errors
/// The fault in them.
pub fn check(settings: &Settings) -> anyhow::Result<()> {
    ensure!(
        settings.cache_store.is_some() || settings.cache_capacity.is_none(),
        "--cache-capacity needs --cache-store DIR: a directory on the node's own disk (NVMe), or auto to find it"
    );
    ensure!(
        settings.cache_after >= CACHE_AFTER_MIN,
        "--cache-after: a file's times have a grain of up to a second, so it must be left alone for {} s at least",
        CACHE_AFTER_MIN.as_secs()
    );
    if let (Some(StorePlace::At(store)), Some(view)) = (&settings.cache_store, &settings.view) {
        let [store, view] = [store, view].map(|path| absolute(path).unwrap_or_else(|_| path.clone()));
        ensure!(
            !store.starts_with(&view),
            "--cache-store: {} lies in the view ({}), which shows files and keeps none; choose a directory on the node's own disk",
            store.display(),
            view.display()
        );
    }
    let capacity_bytes = settings.cache_capacity.unwrap_or(CAPACITY_BYTES_MIN);
    ensure!(
        capacity_bytes >= CAPACITY_BYTES_MIN,
        "--cache-capacity: {capacity_bytes} bytes hold no chunk; give {} at least",
        show_size(CAPACITY_BYTES_MIN)
    );
    Ok(())
}

/// The name of the directory where `auto` puts a user's store.
pub fn name() -> String {
    format!("forebay-cache-{}", geteuid().as_raw())
}

/// The store of a node, if the settings name one.
///
/// # Errors
/// When its directory is not found or cannot be made.
pub fn prepare(
    settings: &Settings,
    layout: ViewLayout,
    nodes: &[NodeAddress],
    rank: NodeRank,
    told_to_up: &Named,
) -> anyhow::Result<Option<CacheStoreOptions>> {
    let base = match &settings.cache_store {
        None => return Ok(None),
        Some(StorePlace::At(path)) => path.clone(),
        Some(StorePlace::Auto) => node_local::find("--cache-store", &name(), told_to_up)?.told("cache store", rank),
    };
    let directory = layout.view(&base, nodes, rank);
    let above = directory.parent().unwrap_or(&directory);
    let made = DirBuilder::new().recursive(true).mode(0o700).create(above);
    made.with_context(|| format!("--cache-store: cannot make {}; choose another directory", above.display()))?;
    let own = nodes.get(rank.0 as usize).map(|node| &node.host);
    let nodes_here = nodes.iter().filter(|node| Some(&node.host) == own).count() as u64;
    let capacity_bytes = match settings.cache_capacity {
        Some(bytes) => bytes,
        None => default_bytes(&directory, nodes_here)?,
    };
    ensure!(
        capacity_bytes >= CAPACITY_BYTES_MIN,
        "--cache-store: the disk of {} has room for a store of {}, and one takes {} at least; free some, or choose another directory",
        directory.display(),
        show_size(capacity_bytes),
        show_size(CAPACITY_BYTES_MIN)
    );
    Ok(Some(CacheStoreOptions { directory, capacity_bytes, settled_after: settings.cache_after }))
}

/// The contents of the store count as free: else each job would have a smaller one than the job before.
fn default_bytes(directory: &Path, nodes_here: u64) -> anyhow::Result<u64> {
    let place = directory.ancestors().find(|path| path.exists()).unwrap_or(directory);
    let sizes = statvfs(place).with_context(|| format!("cannot determine the free space of {}", place.display()))?;
    // A directory that cannot have a store is refused by the daemon.
    let used_bytes = summary(directory).ok().flatten().map_or(0, |found| found.used_bytes);
    let free_bytes = sizes.f_bavail.saturating_mul(sizes.f_frsize).saturating_add(used_bytes);
    Ok((free_bytes / 2 / nodes_here.max(1)).min(DEFAULT_BYTES_MAX))
}

/// Directories that may hold a store: these, and those of nodes that share a host in them.
pub fn with_nodes(base: &Path) -> Vec<PathBuf> {
    let is_rank = |name: &std::ffi::OsStr| name.to_str().is_some_and(|name| name.parse::<u32>().is_ok());
    let entries = std::fs::read_dir(base).into_iter().flatten().flatten();
    let mut below: Vec<PathBuf> =
        entries.filter(|entry| is_rank(&entry.file_name())).map(|entry| entry.path()).collect();
    below.sort();
    std::iter::once(base.to_owned()).chain(below).collect()
}
