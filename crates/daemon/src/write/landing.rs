//! Following the tree on the backing file system.
//!
//! One thread does what is to be done, in the tree's order (`forebay_write::Landing`). A file's contents are written to a draft,
//! read back and compared, and take their name when they are whole and durable. What fails is tried again, and what comes after
//! it waits: the order is the promise.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use forebay_types::{Attributes, Errno, FileId, Kind, ViewPath};
use forebay_wire::write::{BURST_ROOT, LandedContents, Operation, Piece, Place, Source, StepOutcome};
use forebay_write::{Action, Turn};
use serde::{Deserialize, Serialize};

use super::contents::Reader;
use super::owner::{Owner, backing_path};

/// Bytes that are written, and later compared, at a time.
const STRIPE_BYTES: u64 = 4 << 20;

/// How long nothing happens after something failed.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// How long the thread waits for a change at most, before it looks whether it is to end.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Mode bits without which this daemon could not go on in a directory.
const OWN_DIRECTORY: u32 = 0o700;

/// The thread's state, as others see it.
pub struct Landings {
    owner: Arc<Owner>,
    reader: Arc<Reader>,
    is_ending: AtomicBool,
    trouble: Mutex<Option<String>>,
}

/// How far it is.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Progress {
    /// Steps that the backing file system has not followed.
    pub steps: usize,
    /// What keeps the first of them, if anything.
    pub why: Option<String>,
}

impl Landings {
    pub fn new(owner: &Arc<Owner>, reader: &Arc<Reader>) -> Arc<Self> {
        let (owner, reader) = (Arc::clone(owner), Arc::clone(reader));
        Arc::new(Self { owner, reader, is_ending: AtomicBool::new(false), trouble: Mutex::default() })
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        Progress { steps: self.owner.tree().steps_to_land(), why: self.trouble().clone() }
    }

    /// No more is begun.
    pub fn end(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
    }

    /// Follows until `end`. May block.
    pub fn follow(&self) {
        while !self.is_ending.load(Ordering::Relaxed) {
            let turn = self.owner.tree().next_landing();
            let Some(turn) = turn else {
                self.owner.wait_for_change(LOOK_EVERY);
                continue;
            };
            match self.take(&turn) {
                Ok(()) => *self.trouble() = None,
                Err(failed) => {
                    tracing::warn!(failed, "landing has to wait");
                    *self.trouble() = Some(failed);
                    std::thread::sleep(AGAIN_AFTER);
                }
            }
        }
    }

    fn trouble(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does one thing, and says so to the tree.
    fn take(&self, turn: &Turn) -> Result<(), String> {
        tracing::debug!(step = turn.step, action = ?turn.action, "landing");
        let outcome = match &turn.action {
            None => StepOutcome::LeftOut,
            Some(action) => self.act(action).map_err(|errno| format!("{}: {errno}", self.told(action)))?,
        };
        let landed = Operation::Landed { step: turn.step, outcome };
        self.owner.carry_out_own(landed).map(drop).map_err(|errno| format!("writing down what has landed: {errno}"))
    }

    fn act(&self, action: &Action) -> Result<StepOutcome, Errno> {
        let place = &self.owner.local.place;
        self.keep_open(action);
        match action {
            Action::Make { file, kind, place } => self.make(*file, *kind, &self.path(place)?)?,
            Action::Publish { file, places, .. } => return self.publish(*file, places).map(StepOutcome::Contents),
            Action::Update { file, place, .. } => {
                return self.update(*file, &self.path(place)?).map(StepOutcome::Contents);
            }
            Action::Link { from, to, .. } => place.link(&self.path(from)?, &self.path(to)?)?,
            Action::Rename { from, to, is_exchange } => {
                place.rename(&self.path(from)?, &self.path(to)?, *is_exchange)?;
            }
            Action::Remove { place: at, is_directory } => place.remove(&self.path(at)?, *is_directory)?,
            Action::SetAttributes { file, place: at } => self.set_attributes(*file, &self.path(at)?)?,
        }
        Ok(StepOutcome::Done)
    }

    /// Files that an action takes the last name from, and that programs have open, stay open.
    fn keep_open(&self, action: &Action) {
        let places = match action {
            Action::Remove { place, .. } | Action::Rename { to: place, .. } | Action::Link { to: place, .. } => {
                std::slice::from_ref(place)
            }
            Action::Publish { places, .. } => places,
            _ => return,
        };
        for place in places {
            let unlinked = self.owner.tree().unlinked_at(place);
            if let (Some(file), Ok(path)) = (unlinked, self.path(place)) {
                self.owner.keep_open(file, &path);
            }
        }
    }

    /// An action in words.
    fn told(&self, action: &Action) -> String {
        let path = |place: &Place| self.path(place).map_or_else(|_| "?".to_owned(), |path| path.to_string());
        match action {
            Action::Make { place, .. } => format!("making {}", path(place)),
            Action::Publish { places, .. } => format!("publishing {}", places.first().map(path).unwrap_or_default()),
            Action::Update { place, .. } => format!("updating {}", path(place)),
            Action::Link { from, to, .. } => format!("linking {} to {}", path(to), path(from)),
            Action::Rename { from, to, .. } => format!("renaming {} to {}", path(from), path(to)),
            Action::Remove { place, .. } => format!("removing {}", path(place)),
            Action::SetAttributes { place, .. } => format!("setting the attributes of {}", path(place)),
        }
    }

    fn path(&self, place: &Place) -> Result<ViewPath, Errno> {
        let directory = backing_path(&self.owner.tree(), place.directory).ok_or(Errno::ENOENT)?;
        directory.join_deep(place.name.as_bytes()).map_err(|_| Errno::ENAMETOOLONG)
    }

    /// What a file is now; nothing when it is gone.
    fn attributes(&self, file: FileId) -> Option<Attributes> {
        let attributes = self.owner.tree().state(file).ok()?.attributes;
        let is_directory = attributes.kind() == Kind::Directory && file != BURST_ROOT;
        Some(Attributes { mode: attributes.mode | if is_directory { OWN_DIRECTORY } else { 0 }, ..attributes })
    }

    fn make(&self, file: FileId, kind: Kind, path: &ViewPath) -> Result<(), Errno> {
        let place = &self.owner.local.place;
        let attributes = self.attributes(file);
        match (kind, &attributes) {
            (Kind::Directory, _) => place.make_directory(path)?,
            (Kind::Symlink, _) => {
                let target = self.owner.tree().target(file)?.to_vec();
                place.make_symlink(path, &target)?;
            }
            (_, Some(attributes)) => place.make_special(path, attributes)?,
            (_, None) => return Ok(()),
        }
        attributes.map_or(Ok(()), |attributes| place.set_attributes(path, &attributes))
    }

    fn set_attributes(&self, file: FileId, path: &ViewPath) -> Result<(), Errno> {
        self.attributes(file).map_or(Ok(()), |attributes| self.owner.local.place.set_attributes(path, &attributes))
    }

    /// What is to be written of a file, as it is now.
    fn snapshot(&self, file: FileId) -> Result<Snapshot, Errno> {
        let tree = self.owner.tree();
        let state = tree.state(file)?;
        let pieces = tree.pieces(file, 0..state.attributes.size_bytes)?;
        Ok(Snapshot { version: state.version, attributes: state.attributes, pieces })
    }

    fn publish(&self, file: FileId, places: &[Place]) -> Result<LandedContents, Errno> {
        let paths: Vec<ViewPath> = places.iter().map(|place| self.path(place)).collect::<Result<_, _>>()?;
        let Some((first, others)) = paths.split_first() else { return Err(Errno::ENOENT) };
        let snapshot = self.snapshot(file)?;
        let place = &self.owner.local.place;
        let draft = place.draft(first, snapshot.attributes.ino)?;
        self.write(file, &snapshot, draft.file())?;
        draft.set_attributes(&snapshot.attributes)?;
        place.publish(draft, first)?;
        others.iter().try_for_each(|other| place.link(first, other))?;
        self.landed(first, &snapshot)
    }

    fn update(&self, file: FileId, path: &ViewPath) -> Result<LandedContents, Errno> {
        let snapshot = self.snapshot(file)?;
        let place = &self.owner.local.place;
        let open = place.open_to_write(path)?;
        self.write(file, &snapshot, &open)?;
        open.sync_all().map_err(|error| Errno::of(&error))?;
        place.set_attributes(path, &snapshot.attributes)?;
        self.landed(path, &snapshot)
    }

    fn landed(&self, path: &ViewPath, snapshot: &Snapshot) -> Result<LandedContents, Errno> {
        let generation = self.owner.local.place.attributes(path)?.generation();
        Ok(LandedContents { version: snapshot.version, generation })
    }

    /// Writes what the logs have of a file, and compares it with what the backing file system has then.
    fn write(&self, file: FileId, snapshot: &Snapshot, into: &File) -> Result<(), Errno> {
        let failed = |error: std::io::Error| Errno::of(&error);
        let old_len = into.metadata().map_err(failed)?.len();
        into.set_len(snapshot.attributes.size_bytes).map_err(failed)?;
        for hole in snapshot.holes(old_len) {
            into.write_all_at(&vec![0; hole.len as usize], hole.offset).map_err(failed)?;
        }
        let mut checksums = vec![];
        for stripe in snapshot.stripes() {
            let mut bytes = vec![0; stripe.len as usize];
            self.reader.fill(&stripe, &mut bytes)?;
            into.write_all_at(&bytes, stripe.offset).map_err(failed)?;
            checksums.push((stripe, crc32c::crc32c(&bytes)));
        }
        into.sync_data().map_err(failed)?;
        for (stripe, checksum) in checksums {
            let mut bytes = vec![0; stripe.len as usize];
            into.read_exact_at(&mut bytes, stripe.offset).map_err(failed)?;
            if crc32c::crc32c(&bytes) != checksum {
                tracing::error!(%file, offset = stripe.offset, "the backing file system has other bytes than were written");
                return Err(Errno::EIO);
            }
        }
        Ok(())
    }
}

/// A file as it is to land.
struct Snapshot {
    version: u64,
    attributes: Attributes,
    pieces: Vec<Piece>,
}

impl Snapshot {
    /// What of the first `old_len` bytes is zeros now, in parts.
    fn holes(&self, old_len: u64) -> impl Iterator<Item = Piece> {
        let holes = self.pieces.iter().filter(move |piece| piece.source == Source::Hole && piece.offset < old_len);
        holes.flat_map(move |hole| {
            let len = hole.len.min(old_len - hole.offset);
            (0..len)
                .step_by(STRIPE_BYTES as usize)
                .filter_map(move |start| hole.part(hole.offset + start..hole.offset + len.min(start + STRIPE_BYTES)))
        })
    }

    /// What logs have of it, in parts.
    fn stripes(&self) -> impl Iterator<Item = Piece> {
        let of_log = self.pieces.iter().filter(|piece| matches!(piece.source, Source::Log(_)));
        of_log.flat_map(|piece| {
            let starts = (0..piece.len).step_by(STRIPE_BYTES as usize);
            starts.filter_map(move |start| piece.part(piece.offset + start..piece.offset + start + STRIPE_BYTES))
        })
    }
}
