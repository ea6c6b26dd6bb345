//! Stores of several machines, brought together on the backing file system: the place where `salvage --meet` of all nodes meet.
//!
//! Nodes carry their stores to `.forebay-salvage-JOB` in the directory that they land in. The job's first node waits for the
//! others' there, and lands them with its own. While it is there a mark says so: then the others wait for what comes of it.

use std::collections::BTreeSet;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use forebay_log::{Owner, carry, whose};
use forebay_types::NodeRank;

/// How often is looked who is there.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How the place is called, before the job's name.
const PLACE: &str = ".forebay-salvage-";

/// Says in the place that the first node is there.
const FIRST: &str = "first";

/// What became of the stores of this machine.
pub enum Met {
    /// These are all that came.
    Here(Vec<PathBuf>),
    /// The first node has them, and has landed them.
    Landed,
    /// They wait for the first node, here.
    Waiting(PathBuf),
}

/// Brings the stores at `paths` together with those of the job's other nodes, and waits for these for `wait`. Those of other nodes wait for
/// the first one, and as long again as `lands` once it is there.
///
/// # Errors
/// What cannot be carried, and that the place is not this user's.
pub fn meet(paths: &[PathBuf], landing: Option<&Path>, wait: Duration, lands: Duration) -> anyhow::Result<Met> {
    let mut own: Vec<(PathBuf, Owner)> = vec![];
    for path in paths {
        own.extend(whose(path)?.map(|owner| (path.clone(), owner)));
    }
    let Some((_, first)) = own.first() else { return Ok(Met::Here(vec![])) };
    let landing = landing.unwrap_or(&first.landing);
    ensure!(
        landing.is_dir(),
        "{}, where the stores of job {} land, does not exist: mount it, or name another directory with --burst",
        landing.display(),
        first.job
    );
    let place = place_of(landing, &first.job);
    make(&place)?;
    let until = Instant::now() + wait;
    if own.iter().any(|(_, owner)| owner.node == NodeRank(0)) {
        // Where it cannot be made, the others do not wait for what comes of it.
        let _ = std::fs::write(place.join(FIRST), "");
        let is_all = |there: &[PathBuf]| there.len() + own.len() >= first.nodes as usize;
        while !is_all(&stores_in(&place)?) && Instant::now() < until {
            std::thread::sleep(LOOK_EVERY);
        }
        let here = own.iter().map(|(path, _)| path.clone()).chain(stores_in(&place)?);
        return Ok(Met::Here(here.collect::<BTreeSet<_>>().into_iter().collect()));
    }
    let mut carried = vec![];
    for (path, owner) in &own {
        let to = place.join(owner.node.to_string());
        if let Err(error) = carry(path, &to) {
            // It may be the last thing there.
            let _ = std::fs::remove_dir(&place);
            return Err(error).with_context(|| format!("cannot copy {} to {}", path.display(), place.display()));
        }
        carried.push(to);
    }
    while carried.iter().any(|to| to.exists()) {
        let until = if place.join(FIRST).exists() { until + lands } else { until };
        if Instant::now() >= until {
            return Ok(Met::Waiting(place));
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(Met::Landed)
}

/// The first node is no longer where these stores have met. Removes the place, if nothing else is there any more.
pub fn leave(stores: &[PathBuf], landing: &Path, job: &str) {
    let met = place_of(landing, job);
    let places = stores
        .iter()
        .filter_map(|store| store.parent())
        .filter(|place| place.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(PLACE.as_bytes())));
    for place in places.chain([met.as_path()]).collect::<BTreeSet<_>>() {
        // There need not be one; and one with something in it stays.
        let _ = std::fs::remove_file(place.join(FIRST));
        let _ = std::fs::remove_dir(place);
    }
}

fn place_of(landing: &Path, job: &str) -> PathBuf {
    landing.join(format!("{PLACE}{job}"))
}

fn make(place: &Path) -> anyhow::Result<()> {
    match DirBuilder::new().mode(0o700).create(place) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(error).with_context(|| format!("cannot make {}", place.display()));
        }
        _ => {}
    }
    let found = std::fs::symlink_metadata(place).with_context(|| place.display().to_string())?;
    let is_own = found.is_dir() && found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o077 == 0;
    ensure!(is_own, "{} is not a directory of this user alone: somebody else has made it", place.display());
    Ok(())
}

/// The directory's parts that are stores of nodes.
///
/// # Errors
/// When it cannot be read.
pub fn stores_in(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut stores = vec![];
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let is_rank = entry.file_name().to_str().is_some_and(|name| name.parse::<u32>().is_ok());
        if is_rank && entry.file_type()?.is_dir() {
            stores.push(entry.path());
        }
    }
    Ok(stores)
}
