//! Where a node's burst mount and store go: decided and made before the node starts.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail, ensure};
use forebay_daemon::{BurstOptions, Copied, DrainPolicy, holds_store};
use forebay_keeper::BurstPaths;
use forebay_keeper::own_paths::only_at;
use forebay_keeper::trusted_path;
use forebay_launch::{JobDirectory, MARK, NodeAddress, ViewLayout, job_end, open_closed};
use forebay_types::{NodeRank, ViewPath};

use crate::jobs::variable;
use crate::node_local::{self, Named};
use crate::settings::Settings;
use crate::settings::values::{BurstPair, Partnering, StorePlace, TimeLimit};
use crate::view_directory;

/// The part of the free room that a store takes where no capacity is given.
const STORE_SHARE: f64 = 0.9;

/// How often a directory is opened that other nodes of this host, of which there may be hundreds, close at the same time.
const OPENED_MAX: usize = 1000;

/// No job is longer.
const LIMIT_MAX: Duration = Duration::from_secs(10 * 366 * 24 * 3600);

/// A burst mount that can be made.
pub struct BurstMount {
    /// Where it is mounted.
    pub mount: PathBuf,
    /// The directories that were made for it, innermost first.
    pub created: Vec<PathBuf>,
    /// The mount point and directories above it that were made by nodes of this host, which the keeper closes.
    closed: Vec<PathBuf>,
    /// The options of its daemon.
    pub options: BurstOptions,
}

impl BurstMount {
    /// The keeper's part of it, in a job of so many nodes.
    pub fn paths(&self, nodes: usize) -> BurstPaths {
        let BurstOptions { dir, backing, .. } = &self.options;
        let is_shared = nodes > 1;
        let (mount, closed) = (self.mount.clone(), self.closed.clone());
        BurstPaths { mount, dir: dir.clone(), backing: backing.clone(), is_shared, closed }
    }
}

/// Makes ready what `settings` say of the burst tier, if anything.
///
/// # Errors
/// The fault in it. Directories that were made for it are gone then.
pub fn prepare(
    settings: &Settings,
    directory: &JobDirectory,
    layout: ViewLayout,
    nodes: &[NodeAddress],
    rank: NodeRank,
    told_to_up: &Named,
) -> anyhow::Result<Option<BurstMount>> {
    let Some(BurstPair { dir, backing }) = pair(settings)? else { return Ok(None) };
    let wanted = wanted_store(settings)?;
    let is_named = matches!(wanted, StorePlace::At(_));
    let store = &match wanted {
        StorePlace::At(path) => path.clone(),
        StorePlace::Auto => node_local::find("--burst-store", &format!("forebay-{}", directory.job()), told_to_up)?
            .told("burst store", rank),
    };
    let copied = copied(&settings.partner, &dir, &backing, nodes.len())?;
    check_backing(&backing)?;
    check_dir(&dir)?;
    let base = settings.burst_mount.clone().unwrap_or_else(|| directory.burst());
    let mount = layout.view(&base, nodes, rank).join(dir.strip_prefix("/").unwrap_or(&dir));
    let (store, store_base) = (layout.view(store, nodes, rank), store);
    let mut created = make_all(&mount, &base, 0o755)?;
    let is_made =
        |path: &&Path| *path != directory.base() && (is_marked(path) || created.iter().any(|made| made == path));
    let closed = mount.ancestors().take_while(is_made).map(Path::to_owned).collect();
    match make_store(&store, store_base) {
        Ok(of_store) => created.extend(of_store),
        Err(error) => {
            remove(&created);
            return Err(error.context("the burst store"));
        }
    }
    if is_named {
        node_local::tell_of(&store, &backing, rank);
    }
    let prepared =
        view_directory::prepare(&mount).and_then(|_| Ok((capacity_bytes(settings, &store)?, ends_at_ms(settings)?)));
    match prepared {
        Ok((capacity_bytes, ends_at_ms)) => {
            let options = BurstOptions {
                dir,
                backing,
                store,
                capacity_bytes,
                drain: settings.drain,
                drain_bytes_per_s: settings.drain_rate,
                drain_operations_per_s: settings.drain_ops,
                ends_at_ms,
                copied,
                switches: vec![],
            };
            Ok(Some(BurstMount { mount, created, closed, options }))
        }
        Err(error) => {
            remove(&created);
            Err(error.context("the burst mount"))
        }
    }
}

/// Whether files can land there.
fn check_backing(backing: &Path) -> anyhow::Result<()> {
    let shown = backing.display();
    ensure!(backing.is_dir(), "--burst: {shown} is not a directory; create it, or name another");
    trusted_path::check_way_to(backing).with_context(|| {
        format!("--burst: files cannot land in {shown}, because every user could exchange it for another directory")
    })
}

/// Whether the tier can be shown there. A name that is free becomes a directory.
fn check_dir(dir: &Path) -> anyhow::Result<()> {
    let shown = dir.display();
    ensure!(
        !dir.exists() || dir.is_dir(),
        "--burst: {shown} is not a directory, where the tier could be shown; name another"
    );
    Ok(())
}

/// Sees that there is a directory for `run` to show the tier at: one that is missing is made, and stays. Another job of the user may show its tier
/// there, which would be gone with the directory. The message where it cannot be made.
pub fn offer(options: &BurstOptions) -> Option<String> {
    let BurstOptions { dir, backing, .. } = options;
    let is_there = dir.is_dir() || DirBuilder::new().mode(0o755).create(dir).is_ok() || dir.is_dir();
    (!is_there).then(|| only_at(dir, backing))
}

/// Whether the settings of the burst tier agree with each other, in a job of so many nodes.
///
/// # Errors
/// The fault in them.
pub fn check(settings: &Settings, nodes: usize) -> anyhow::Result<()> {
    let Some(BurstPair { dir, backing }) = pair(settings)? else { return Ok(()) };
    wanted_store(settings)?;
    copied(&settings.partner, &dir, &backing, nodes)?;
    // `up` asks the scheduler once, for all nodes.
    if settings.time_limit != Some(TimeLimit::OfScheduler) {
        ends_at_ms(settings)?;
    }
    check_drain(settings)
}

fn wanted_store(settings: &Settings) -> anyhow::Result<&StorePlace> {
    settings
        .burst_store
        .as_ref()
        .context("--burst needs --burst-store DIR: a directory on the node's own disk (NVMe), or auto to find it")
}

fn check_drain(settings: &Settings) -> anyhow::Result<()> {
    ensure!(
        settings.time_limit.is_none() || settings.drain != DrainPolicy::Manual,
        "--time-limit makes everything land in time, and --drain manual lets nothing land: give only one of them"
    );
    Ok(())
}

/// Where programs see the burst tier and where it lands, if there is one.
fn pair(settings: &Settings) -> anyhow::Result<Option<BurstPair>> {
    match &settings.burst[..] {
        [] => {
            ensure!(
                settings.burst_store.is_none(),
                "--burst-store needs --burst DIR=BACKING, which says what is stored"
            );
            Ok(None)
        }
        [pair] => Ok(Some(pair.clone())),
        _ => bail!("--burst: this version has one burst tier for a job; give one DIR=BACKING"),
    }
}

/// Which files are copied of a burst tier that programs see at `dir` and at `backing`.
fn copied(partner: &[Partnering], dir: &Path, backing: &Path, nodes: usize) -> anyhow::Result<Copied> {
    let copied = match partner {
        [] | [Partnering::None] => Copied::Nothing,
        [Partnering::All] => Copied::All,
        several => {
            let paths = several.iter().map(|partnering| match partnering {
                Partnering::Below(path) => below(path, dir, backing),
                _ => bail!("--partner: give none, all, or directories, and only one of these"),
            });
            Copied::Below(paths.collect::<anyhow::Result<_>>()?)
        }
    };
    ensure!(
        copied == Copied::Nothing || nodes > 1,
        "--partner: this job has one node, so no other node can copy what it writes; leave the option out, or use more \
         nodes"
    );
    Ok(copied)
}

/// The directory that `--partner` names, of a burst tier that programs see at `dir` and at `backing`, below its root. One that leads there by links is meant, too.
fn below(path: &Path, dir: &Path, backing: &Path) -> anyhow::Result<ViewPath> {
    let as_written = [dir, backing].into_iter().find_map(|base| path.strip_prefix(base).ok());
    // A path that is not there yet stands as it is written.
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let real_path = real(path);
    let as_led = || [dir, backing].into_iter().find_map(|base| real_path.strip_prefix(real(base)).ok());
    let below = as_written.or_else(as_led).with_context(|| {
        format!("--partner: {} is not below {}; name directories of the burst tier", path.display(), dir.display())
    })?;
    ViewPath::new(below.as_os_str().as_bytes()).with_context(|| format!("--partner: {}", path.display()))
}

/// Removes directories that were made for a burst mount and its store, as far as they are empty; those that nodes share with
/// the last node.
pub fn remove(created: &[PathBuf]) {
    for path in created {
        let is_ours = |parent: &Path| is_marked(parent) || created.iter().any(|made| made == parent);
        match in_closed(path.parent().filter(|parent| is_ours(parent)), || std::fs::remove_dir(path)) {
            // A store that holds what has not landed.
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                tracing::debug!(path = %path.display(), "a directory of the burst tier stays");
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(path = %path.display(), %error, "a directory of the burst tier stays");
            }
            _ => remove_above(path),
        }
    }
}

/// Removes the directories above one that has gone which were made for several nodes, as far as none has anything there.
pub fn remove_above(path: &Path) {
    path.ancestors().skip(1).take_while(|shared| remove_shared(shared)).for_each(drop);
}

/// Removes a directory that was made for several nodes, unless one still has something in it. Whether it is gone.
fn remove_shared(path: &Path) -> bool {
    let mark = path.join(MARK);
    let Ok(mut entries) = std::fs::read_dir(path) else { return false };
    let is_last = mark.exists() && entries.all(|entry| entry.is_ok_and(|entry| entry.path() == mark));
    let above = path.parent().filter(|parent| is_marked(parent));
    is_last
        && in_closed(Some(path), || std::fs::remove_file(&mark)).is_ok()
        && in_closed(above, || std::fs::remove_dir(path)).is_ok()
}

fn is_marked(path: &Path) -> bool {
    path.join(MARK).exists()
}

/// Does something in a directory that is closed while burst mounts are below it, if it is `closed`. Another node of this host may close it meanwhile.
fn in_closed(closed: Option<&Path>, act: impl Fn() -> io::Result<()>) -> io::Result<()> {
    for _ in 0..OPENED_MAX {
        match act() {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && closed.is_some_and(open_closed) => {}
            done => return done,
        }
    }
    act()
}

/// Of directories that were made for burst mounts and are still there, those with files that programs wrote beside a mount.
pub fn strays(made: &[PathBuf]) -> Vec<PathBuf> {
    let is_stray =
        |entry: std::fs::DirEntry| entry.file_name() != MARK && entry.file_type().is_ok_and(|kind| !kind.is_dir());
    let has_stray =
        |path: &&Path| std::fs::read_dir(path).is_ok_and(|mut entries| entries.any(|entry| entry.is_ok_and(is_stray)));
    let shared = made.iter().flat_map(|path| path.ancestors().skip(1).take_while(|path| is_marked(path)));
    let mut with: Vec<PathBuf> = made
        .iter()
        .map(PathBuf::as_path)
        .chain(shared)
        .filter(has_stray)
        .filter(|path| !holds_store(path))
        .map(Path::to_owned)
        .collect();
    with.sort();
    with.dedup();
    with
}

/// Makes the directory of a store; those that go when it has landed.
fn make_store(path: &Path, base: &Path) -> anyhow::Result<Vec<PathBuf>> {
    // An earlier job made it, and left something in it.
    let is_of_earlier = path.exists() && path.parent().is_some_and(is_marked);
    let created = make_all(path, base, 0o700)?;
    Ok(if is_of_earlier { vec![path.to_owned()] } else { created })
}

/// Makes a directory and those above it that are missing; those that were made, innermost first, without those that other nodes
/// have a part in: `base` where `path` lies below it, and what is above. They are marked.
fn make_all(path: &Path, base: &Path, mode: u32) -> anyhow::Result<Vec<PathBuf>> {
    let missing: Vec<&Path> = path.ancestors().take_while(|path| !path.exists()).collect();
    let mut created = vec![];
    for made in missing.into_iter().rev() {
        let is_shared = path != base && base.starts_with(made);
        let above = made.parent().filter(|parent| is_marked(parent));
        match in_closed(above, || DirBuilder::new().mode(mode).create(made)) {
            // One that cannot be marked stays.
            Ok(()) if is_shared => drop(std::fs::write(made.join(MARK), "")),
            Ok(()) => created.insert(0, made.to_owned()),
            // Another node of this host was faster.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && made.is_dir() => {}
            Err(error) => {
                remove(&created);
                return Err(error).with_context(|| format!("cannot make {}; choose another directory", made.display()));
            }
        }
    }
    Ok(created)
}

/// `--time-limit auto` as all nodes are told it: whichever of them leads the tree when the end comes knows it, and one asks the scheduler.
///
/// # Errors
/// When the scheduler does not say.
pub fn decided(settings: &Settings) -> anyhow::Result<Option<(&'static str, String)>> {
    if settings.time_limit != Some(TimeLimit::OfScheduler) || settings.burst.is_empty() {
        return Ok(None);
    }
    Ok(Some(("time-limit", format!("@{}", end_of_scheduler()?.as_secs()))))
}

fn end_of_scheduler() -> anyhow::Result<Duration> {
    let end = job_end(&variable).context("--time-limit auto; give a time, for example 90min")?;
    end.duration_since(UNIX_EPOCH).context("the job's end is before 1970")
}

/// When the job's time is over, milliseconds since 1970.
fn ends_at_ms(settings: &Settings) -> anyhow::Result<Option<u64>> {
    let Some(limit) = settings.time_limit else { return Ok(None) };
    check_drain(settings)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is before 1970")?;
    let ends_at = match limit {
        TimeLimit::In(time) => now.saturating_add(time),
        TimeLimit::At(time) => time,
        // A node that no `up` has started.
        TimeLimit::OfScheduler => end_of_scheduler()?,
    };
    let seconds = ends_at.as_secs();
    ensure!(ends_at > now, "--time-limit @{seconds}: this time was {} s ago", now.as_secs() - seconds);
    ensure!(
        ends_at - now <= LIMIT_MAX,
        "--time-limit: the job would end in more than ten years; give seconds since 1970 (now {}), or a time such as 2h",
        now.as_secs()
    );
    Ok(Some(u64::try_from(ends_at.as_millis()).unwrap_or(u64::MAX)))
}

fn capacity_bytes(settings: &Settings, store: &Path) -> anyhow::Result<u64> {
    if let Some(bytes) = settings.burst_capacity {
        return Ok(bytes);
    }
    let place = store.ancestors().find(|path| path.exists()).unwrap_or(store);
    let sizes = rustix::fs::statvfs(place)
        .with_context(|| format!("cannot determine the free space of {}", place.display()))?;
    Ok((sizes.f_bavail as f64 * sizes.f_frsize as f64 * STORE_SHARE) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partners_directory_may_be_named_by_a_link() {
        let base = tempfile::tempdir().unwrap();
        let [real, backing, link] = ["real", "real/backing", "link"].map(|name| base.path().join(name));
        std::fs::create_dir_all(backing.join("d")).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let of = |path: PathBuf| copied(&[Partnering::Below(path)], Path::new("/ckpt"), &link.join("backing"), 2);
        let wanted = Copied::Below(vec![ViewPath::new(b"d").unwrap()]);
        for path in [link.join("backing/d"), backing.join("d"), "/ckpt/d".into()] {
            assert_eq!(of(path).unwrap(), wanted);
        }
        assert!(of(base.path().join("elsewhere")).is_err());
    }
}
