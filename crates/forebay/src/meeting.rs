//! Stores of several machines, brought together on the backing file system: the place where `salvage --meet` of all nodes meet.
//!
//! Nodes carry their stores to `.forebay-salvage-JOB` in the directory that they land in. The job's first node waits for the
//! others' there, and lands them with its own. While it is there a mark says so: then the others wait for what comes of it.
//!
//! Others may write to the directory around it, and put something else at the place's name at any time. So the place is opened once,
//! and found to be of this user alone; from then on everything is done below its descriptor.

use std::collections::BTreeSet;
use std::fs::DirBuilder;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail, ensure};
use forebay_log::{Owner, carry, whose};
use forebay_types::NodeRank;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, fstat, openat, unlinkat};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::output::causes;

/// How often is looked who is there.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How the place is called, before the job's name.
const PLACE: &str = ".forebay-salvage-";

/// Says in the place that the first node is there.
const FIRST: &str = "first";

/// The outcome for the stores of this machine.
pub enum Met {
    /// These are all that came; some of them in the place, if they have met.
    Here(Vec<PathBuf>, Option<Place>),
    /// The first node has them, and has landed them.
    Landed,
    /// They wait for the first node, here.
    Waiting(PathBuf),
}

/// Brings the stores at `paths` together with those of the job's other nodes, and waits for these for `wait`. Those of other nodes wait for
/// the first one, and as long again as `lands` once it is there.
///
/// # Errors
/// The store that cannot be carried, or a place that is not this user's.
pub fn meet(paths: &[PathBuf], landing: Option<&Path>, wait: Duration, lands: Duration) -> anyhow::Result<Met> {
    let mut own: Vec<(PathBuf, Owner)> = vec![];
    for path in paths {
        own.extend(whose(path)?.map(|owner| (path.clone(), owner)));
    }
    let Some((_, first)) = own.first() else { return Ok(Met::Here(vec![], None)) };
    let landing = landing.unwrap_or(&first.landing);
    ensure!(
        landing.is_dir(),
        "{}, where the stores of job {} land, does not exist: mount it, or name another directory with --burst",
        landing.display(),
        first.job
    );
    let place = Place::make(place_of(landing, &first.job))?;
    let until = Instant::now() + wait;
    if own.iter().any(|(_, owner)| owner.node == NodeRank(0)) {
        place.mark_first();
        let is_all = |there: &[PathBuf]| there.len() + own.len() >= first.nodes as usize;
        while !is_all(&stores_in(&place.path())?) && Instant::now() < until {
            std::thread::sleep(LOOK_EVERY);
        }
        let here = own.iter().map(|(path, _)| path.clone()).chain(stores_in(&place.path())?);
        return Ok(Met::Here(here.collect::<BTreeSet<_>>().into_iter().collect(), Some(place)));
    }
    let mut carried = vec![];
    for (path, owner) in &own {
        let to = place.path().join(owner.node.to_string());
        if let Err(error) = carry(path, &to) {
            // It may be the last thing there.
            let _ = std::fs::remove_dir(&place.shown);
            let copying = format!("cannot copy {} to {}", path.display(), place.shown.display());
            return Err(place.named(&anyhow::Error::new(error)).context(copying));
        }
        carried.push(to);
    }
    while carried.iter().any(|to| to.exists()) {
        let until = if place.path().join(FIRST).exists() { until + lands } else { until };
        if Instant::now() >= until {
            return Ok(Met::Waiting(place.shown));
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
        let Ok(found) = Place::open(place.to_owned()) else { continue };
        let _ = unlinkat(&found.held, FIRST, AtFlags::empty());
        let _ = std::fs::remove_dir(place);
    }
}

fn place_of(landing: &Path, job: &str) -> PathBuf {
    landing.join(format!("{PLACE}{job}"))
}

/// The place, by its descriptor.
pub struct Place {
    held: OwnedFd,
    /// Its path, for messages.
    pub shown: PathBuf,
}

impl Place {
    fn make(shown: PathBuf) -> anyhow::Result<Self> {
        match DirBuilder::new().mode(0o700).create(&shown) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                Err(error).with_context(|| format!("cannot make {}", shown.display()))
            }
            _ => Self::open(shown),
        }
    }

    fn open(shown: PathBuf) -> anyhow::Result<Self> {
        let strange =
            || format!("{} is not a directory of this user alone: somebody else has made it", shown.display());
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let held = match openat(CWD, &shown, flags, Mode::empty()) {
            Ok(held) => held,
            Err(Errno::NOTDIR | Errno::LOOP | Errno::ACCESS) => bail!(strange()),
            Err(errno) => return Err(errno).with_context(|| shown.display().to_string()),
        };
        let found = fstat(&held).with_context(|| shown.display().to_string())?;
        ensure!(found.st_uid == geteuid().as_raw() && found.st_mode & 0o077 == 0, strange());
        let place = Self { held, shown };
        // Another directory of this user's may have been moved here.
        for entry in std::fs::read_dir(place.path())? {
            let name = entry?.file_name();
            let is_known = name.to_str().is_some_and(|name| name == FIRST || is_rank(name.trim_end_matches(".part")));
            ensure!(is_known, "{} has {}, which is no store of a node", place.shown.display(), name.display());
        }
        Ok(place)
    }

    /// The path that leads there whatever is at its name now.
    fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.held.as_raw_fd()).into()
    }

    /// Says that the first node is there. Where that cannot be said, the others do not wait for what comes of it.
    fn mark_first(&self) {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let _ = openat(&self.held, FIRST, flags, Mode::RUSR | Mode::WUSR);
    }

    /// A path of a store as users know it.
    pub fn shown_path(&self, path: &Path) -> PathBuf {
        path.strip_prefix(self.path()).map_or_else(|_| path.to_owned(), |rest| self.shown.join(rest))
    }

    /// An error with the place's path as users know it.
    pub fn named(&self, error: &anyhow::Error) -> anyhow::Error {
        let text = causes(error).join("\n  because: ");
        anyhow!(text.replace(&*self.path().to_string_lossy(), &self.shown.to_string_lossy()))
    }
}

fn is_rank(name: &str) -> bool {
    name.parse::<u32>().is_ok()
}

/// The directory's parts that are stores of nodes.
///
/// # Errors
/// When it cannot be read.
pub fn stores_in(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut stores = vec![];
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(is_rank) && entry.file_type()?.is_dir() {
            stores.push(entry.path());
        }
    }
    Ok(stores)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// A place at whose name somebody else has put a link to a directory of this user's since.
    fn swapped() -> (tempfile::TempDir, Place, PathBuf) {
        let landing = tempfile::tempdir().unwrap();
        let place = Place::make(place_of(landing.path(), "7")).unwrap();
        let precious = landing.path().join("precious");
        DirBuilder::new().mode(0o700).create(&precious).unwrap();
        fs::write(precious.join(FIRST), "precious").unwrap();
        fs::rename(&place.shown, landing.path().join("moved")).unwrap();
        symlink(&precious, &place.shown).unwrap();
        (landing, place, precious.join(FIRST))
    }

    #[test]
    fn a_link_at_the_places_name_leads_nowhere() {
        let (landing, place, precious) = swapped();
        place.mark_first();
        assert_eq!(fs::read(&precious).unwrap(), b"precious");
        assert!(landing.path().join("moved").join(FIRST).exists());
        fs::create_dir(landing.path().join("moved/3")).unwrap();
        let stores = stores_in(&place.path()).unwrap();
        assert_eq!(stores.len(), 1);
        assert_eq!(place.shown_path(&stores[0]), place.shown.join("3"));
        leave(&stores, landing.path(), "7");
        assert_eq!(fs::read(&precious).unwrap(), b"precious");
    }

    #[test]
    fn a_place_is_of_this_user_alone_and_holds_stores() {
        let (_landing, place, precious) = swapped();
        let refused = || Place::make(place.shown.clone()).err().unwrap().to_string();
        assert!(refused().contains("is not a directory of this user alone"), "{}", refused());
        fs::remove_file(&place.shown).unwrap();
        fs::write(precious.with_file_name("letter"), "x").unwrap();
        fs::rename(precious.parent().unwrap(), &place.shown).unwrap();
        assert!(refused().contains("has letter, which is no store of a node"), "{}", refused());
    }
}
