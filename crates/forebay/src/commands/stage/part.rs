//! The part of a node in staging: what it has to copy, copied by several threads, and what came of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use anyhow::{Context, bail};
use forebay_keeper::trusted_path;
use forebay_stage::{
    Copied, Entry, Kind, Listing, StageError, Target, Writers, copy_file, copy_link, has_room, missing_bytes,
    read_whole,
};
use forebay_types::NodeRank;
use serde::{Deserialize, Serialize};

use crate::commands::stage::places::{Destination, Places};
use crate::settings::values::show_size;

/// Files that a node copies at once: enough for a parallel file system, few beside what a job's programs do.
const AT_ONCE: usize = 8;

/// Entries that are named where not all is there; the others are counted.
const NAMED: usize = 100;

/// The outcome of a node's part, or the reason why there is none.
pub type NodeOutcome = Result<Outcome, (NodeRank, String)>;

/// The outcome of a node's part.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct Outcome {
    pub rank: NodeRank,
    /// The entries that it was to have, except directories.
    pub files: u64,
    pub bytes: u64,
    /// Of these, those that were there and right.
    pub were_there: u64,
    pub copied_bytes: u64,
    /// Those that are not there, the first of them by name, with the reason and how much of each is missing.
    pub missing: Vec<Missing>,
    pub missing_files: u64,
    /// Of everything, so that nodes that saw different things are noticed.
    pub digest: u32,
    /// The backing file system was not read through the view.
    pub is_direct: bool,
    /// They were there already, and were read.
    pub is_read_ahead: bool,
}

/// A file that is not there.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct Missing {
    pub path: PathBuf,
    pub bytes: u64,
    pub missing_bytes: u64,
    pub why: String,
}

/// Work that is laid out.
pub struct Part {
    rank: NodeRank,
    places: Places,
    listing: Listing,
    digest: u32,
    /// Where each entry's copy goes; not where it is only read.
    root: Option<PathBuf>,
}

impl Part {
    /// Looks at what is to be staged; `rank` takes its share of `count`.
    ///
    /// # Errors
    /// When it cannot be looked at, or there is no room for it.
    pub fn lay_out(rank: NodeRank, count: usize, places: Places) -> anyhow::Result<Self> {
        let all = Listing::of(&places.source)?;
        let root = match &places.destination {
            Destination::Same => None,
            Destination::Own(path) | Destination::Common(path) => Some(place_of(&all, &places.source, path)),
        };
        if let (Some(root), Some(first)) = (&root, all.entries().first()) {
            if root.starts_with(&places.source) {
                bail!("{} lies in {} itself", root.display(), places.source.display());
            }
            // Its kind, before anything is made there.
            let there = root.metadata().ok();
            if there.is_some_and(|there| there.is_dir() != (first.kind == Kind::Directory)) {
                bail!("{} is there, and only one of it and {} is a directory", root.display(), places.source.display());
            }
        }
        if let (Some(root), Destination::Own(_)) = (&root, &places.destination) {
            check_trusted(root)?;
        }
        let digest = all.digest();
        let listing = if places.is_shared_out { all.share(rank.0 as usize, count) } else { all };
        let part = Self { rank, places, listing, digest, root };
        part.check_room()?;
        Ok(part)
    }

    /// The bytes to read or copy.
    pub fn bytes(&self) -> u64 {
        self.listing.bytes()
    }

    fn check_room(&self) -> anyhow::Result<()> {
        let Some(root) = &self.root else { return Ok(()) };
        let files = self.listing.entries().iter().filter(|entry| entry.kind == Kind::File);
        let missing: u64 = files.map(|entry| missing_bytes(&joined(root, &entry.path), entry.bytes)).sum();
        let there = root.ancestors().find(|path| path.is_dir()).unwrap_or(Path::new("/"));
        if let Err(free) = has_room(there, missing) {
            bail!(
                "{} has {} of free space, and {} are still to be copied; nothing was copied",
                root.display(),
                show_size(free),
                show_size(missing)
            );
        }
        Ok(())
    }

    /// Copies. `done_bytes` counts.
    ///
    /// # Errors
    /// When nothing can be copied at all.
    pub fn carry_out(&self, done_bytes: &AtomicU64) -> anyhow::Result<Outcome> {
        let (directories, files): (Vec<&Entry>, Vec<&Entry>) =
            self.listing.entries().iter().partition(|entry| entry.kind == Kind::Directory);
        let target = self.root.as_ref().map(|root| self.make_directories(root, &directories)).transpose()?;
        let done = Done::default();
        let (next, is_full) = (AtomicUsize::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let work = || {
                while let Some(entry) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if is_full.load(Ordering::Relaxed) {
                        done.miss(self.missing(entry, "the copy was not started, because the disk is full".to_owned()));
                        continue;
                    }
                    match self.one(target.as_ref(), entry, done_bytes) {
                        Ok(copied) => done.count(copied),
                        Err(error) => {
                            is_full.fetch_or(is_full_disk(&error), Ordering::Relaxed);
                            done.miss(self.missing(entry, error.to_string()));
                        }
                    }
                }
            };
            let threads: Vec<_> = (0..AT_ONCE.min(files.len())).map(|_| scope.spawn(work)).collect();
            threads.into_iter().all(|thread| thread.join().is_ok()).then_some(()).context("a thread panicked")
        })?;
        let mut missing = done.missing.into_inner().unwrap_or_else(PoisonError::into_inner);
        let missing_files = missing.len() as u64;
        let missing = std::mem::take(&mut missing).into_values().take(NAMED).collect();
        Ok(Outcome {
            rank: self.rank,
            files: files.len() as u64,
            bytes: self.bytes(),
            were_there: done.were_there.into_inner(),
            copied_bytes: done.copied_bytes.into_inner(),
            missing,
            missing_files,
            digest: self.digest,
            is_direct: self.places.is_direct,
            is_read_ahead: self.root.is_none(),
        })
    }

    /// The place of the copy, with its directories.
    fn make_directories(&self, root: &Path, directories: &[&Entry]) -> anyhow::Result<Target> {
        let is_own = matches!(self.places.destination, Destination::Own(_));
        let target = Target::open(root, if is_own { Writers::Owner } else { Writers::ByUmask })?;
        directories.iter().try_for_each(|entry| target.make_directory(&entry.path))?;
        if is_own {
            // Others may have made them a moment ago.
            directories.iter().try_for_each(|entry| check_trusted(&joined(root, &entry.path)))?;
            check_trusted(root)?;
        }
        Ok(target)
    }

    fn one(&self, target: Option<&Target>, entry: &Entry, done_bytes: &AtomicU64) -> Result<Copied, StageError> {
        let source = joined(&self.places.source, &entry.path);
        let Some(target) = target else {
            return match entry.kind {
                Kind::File => read_whole(&source, done_bytes).map(|bytes| Copied::New { bytes }),
                _ => Ok(Copied::WasThere),
            };
        };
        let place = || target.place(&entry.path);
        match entry.kind {
            Kind::File => copy_file(&source, &place()?, done_bytes),
            Kind::Link => copy_link(&source, &place()?),
            Kind::Directory | Kind::Special => Err(StageError::Special(source)),
        }
    }

    fn missing(&self, entry: &Entry, why: String) -> Missing {
        let place = joined(self.root.as_ref().unwrap_or(&self.places.source), &entry.path);
        let missing_bytes = match self.root {
            Some(_) => missing_bytes(&place, entry.bytes),
            None => entry.bytes,
        };
        Missing { path: place, bytes: entry.bytes, missing_bytes, why }
    }
}

/// The threads' progress.
#[derive(Default)]
struct Done {
    were_there: AtomicU64,
    copied_bytes: AtomicU64,
    missing: Mutex<BTreeMap<PathBuf, Missing>>,
}

impl Done {
    fn count(&self, copied: Copied) {
        match copied {
            Copied::WasThere => self.were_there.fetch_add(1, Ordering::Relaxed),
            Copied::New { bytes } => self.copied_bytes.fetch_add(bytes, Ordering::Relaxed),
        };
    }

    fn miss(&self, missing: Missing) {
        let mut all = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(missing.path.clone(), missing);
    }
}

fn is_full_disk(error: &StageError) -> bool {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(error, StageError::Io { source, .. } if matches!(source.kind(), StorageFull | QuotaExceeded))
}

/// Where the copy goes: into a directory that is there, where what is copied is a file.
fn place_of(listing: &Listing, source: &Path, destination: &Path) -> PathBuf {
    let is_file = listing.entries().first().is_some_and(|entry| entry.kind == Kind::File);
    match source.file_name().filter(|_| is_file && destination.is_dir()) {
        Some(name) => destination.join(name),
        None => destination.to_owned(),
    }
}

/// Programs of the job believe what they find below a directory of the node's own: nobody else may put anything there.
fn check_trusted(path: &Path) -> anyhow::Result<()> {
    let failed = || format!("nothing is staged to {}, where somebody else could put other files", path.display());
    trusted_path::check(path).with_context(failed)
}

fn joined(root: &Path, below: &Path) -> PathBuf {
    if below.as_os_str().is_empty() { root.to_owned() } else { root.join(below) }
}
