//! Sending ahead what open files have in stores that fill, and what of them is old (`forebay_write::Drain`).

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use forebay_store::Draft;
use forebay_types::{Errno, FileId, ViewPath};
use forebay_wire::write::{Drained, Operation, Source};
use forebay_write::{Action, Ages, Ahead, Drain};

use super::commits::Commits;
use super::contents::Reader;
use super::owner::{Owner, draft_path};
use super::sending::{Meter, Snapshot};

/// How much is sent before the landing goes on.
const PART_BYTES: u64 = 64 << 20;

/// What programs have written so long ago, and not overwritten since, is sent. Shorter, more would be sent that is overwritten or
/// removed soon; longer, more of a checkpoint that is written slowly would be left for its close.
const OLD: Duration = Duration::from_secs(20);

/// See the module.
pub struct Draining {
    owner: Arc<Owner>,
    reader: Arc<Reader>,
    commits: Arc<Commits>,
    meter: Arc<Meter>,
    ages: Mutex<Ages>,
}

impl Draining {
    pub fn new(owner: &Arc<Owner>, reader: &Arc<Reader>, commits: &Arc<Commits>, meter: &Arc<Meter>) -> Self {
        let (owner, reader) = (Arc::clone(owner), Arc::clone(reader));
        let (commits, meter) = (Arc::clone(commits), Arc::clone(meter));
        Self { owner, reader, commits, meter, ages: Mutex::new(Ages::new(OLD)) }
    }

    /// Sends a part, if there is need and anything to be sent: where nothing else `is_to_land`, also of what is old. Whether there was.
    pub fn send_ahead(&self, is_to_land: bool) -> Result<bool, String> {
        let Some((drain, is_kept)) = self.next_drain(is_to_land)? else { return Ok(false) };
        let directory = self.owner.tree().directory_for_draft(drain.file);
        let noted = if drain.is_there { Ok(()) } else { note_draft(&self.owner, drain.file, directory) };
        // No loss of power takes back what is sent, perhaps to a file that is there already.
        let is_safe = noted.and_then(|()| self.owner.make_durable());
        let sent = is_safe.and_then(|()| self.drain(&drain, is_kept)).map_err(|errno| {
            let path =
                self.owner.backing_path(drain.file).map_or_else(|| "an open file".to_owned(), |path| path.to_string());
            format!("sending {path} ahead: {errno}")
        });
        sent.map(|()| true)
    }

    /// What is to be sent, and whether logs keep it.
    fn next_drain(&self, is_to_land: bool) -> Result<Option<(Drain, bool)>, String> {
        let filling = self.owner.filling();
        // Only what is committed can be sent.
        let committed = match filling.contains(&self.owner.local.rank) {
            true => self.commits.commit_all(),
            false => self.commits.commit_old(),
        };
        committed.map_err(|errno| format!("committing what open files have: {errno}"))?;
        if !filling.is_empty()
            && let Some(drain) = self.owner.tree().next_drain(Ahead::OfNodes(&filling), PART_BYTES)
        {
            return Ok(Some((drain, false)));
        }
        let now = self.owner.nodes.now();
        let mut ages = self.ages.lock().unwrap_or_else(PoisonError::into_inner);
        if ages.is_due(now) {
            ages.mark(now, self.owner.tree().written_to_open());
        }
        let mut old = ages.old(now);
        // Who waits for a node that is gone keeps what could land.
        let answering = self.owner.answering();
        old.retain(|node, _| answering.contains(node));
        if is_to_land || old.is_empty() {
            return Ok(None);
        }
        let drain = self.owner.tree().next_drain(Ahead::Old(&old), PART_BYTES);
        if drain.is_none() {
            ages.all_sent();
        }
        Ok(drain.map(|drain| (drain, true)))
    }

    fn drain(&self, drain: &Drain, is_kept: bool) -> Result<(), Errno> {
        let Drain { file, version, size_bytes, is_there, extents } = drain;
        let mut snapshot = Snapshot::of(&self.owner, *file)?;
        if snapshot.version != *version {
            // The next look sees what it is now.
            return Ok(());
        }
        {
            let tree = self.owner.tree();
            let is_to_send = |extent| extents.contains(&extent) && !tree.is_sent(*file, &extent);
            let is_to_send = |source| matches!(source, Source::Log(extent) if is_to_send(extent));
            snapshot.pieces.retain(|piece| piece.source == Source::Hole || is_to_send(piece.source));
        }
        let place = &self.owner.local.place;
        let path = self.owner.backing_path(*file).ok_or(Errno::ENOENT)?;
        let began = Instant::now();
        if !is_there && !self.owner.tree().has_part(*file) {
            let number = self.owner.tree().draft_number(*file);
            let draft = place.draft(&path, number)?;
            snapshot.write(&self.reader, &self.meter, *file, draft.file())?;
            draft.keep()?;
        } else {
            let held = self.owner.hold(*file, &path).or_else(|errno| begin_anew(&self.owner, *file, errno))?;
            snapshot.write(&self.reader, &self.meter, *file, &held.open_to_write()?)?;
        }
        self.meter.note_rate(snapshot.bytes(), began.elapsed());
        let generation = place.attributes(&path)?.generation();
        let (version, size_bytes, extents) = (*version, *size_bytes, extents.clone());
        let drained = Drained { version, size_bytes, generation, extents, is_kept };
        self.owner.carry_out_own(Operation::Drained { file: *file, drained }).map(drop)
    }
}

/// A file is about to have a draft, which goes with it whatever happens to this daemon.
///
/// # Errors
/// What keeps that from being written down.
pub fn note_draft(owner: &Owner, file: FileId, directory: FileId) -> Result<(), Errno> {
    let has_draft = owner.tree().draft(file).is_some();
    if has_draft { Ok(()) } else { owner.carry_out_own(Operation::Drafting { file, directory }).map(drop) }
}

/// Somebody has removed a draft. Where logs have all that was in it, it is made again, by whoever looks next.
///
/// # Errors
/// EAGAIN then; else what was the matter.
pub fn begin_anew<T>(owner: &Owner, file: FileId, errno: Errno) -> Result<T, Errno> {
    let draft = {
        let tree = owner.tree();
        tree.draft(file).filter(|_| !tree.has_base(file))
    };
    match (errno, draft) {
        (Errno::ENOENT | Errno::ESTALE, Some((directory, _))) => {
            owner.carry_out_own(Operation::Drafting { file, directory })?;
            Err(Errno::EAGAIN)
        }
        _ => Err(errno),
    }
}

/// Drafts that are in a directory which an action takes away go to the root's.
///
/// # Errors
/// What the backing file system says.
pub fn save_drafts(owner: &Owner, action: &Action) -> Result<(), Errno> {
    let (Action::Remove { place: at, is_directory: true } | Action::Rename { to: at, is_exchange: false, .. }) = action
    else {
        return Ok(());
    };
    let tree = owner.tree();
    let moves = tree.drafts_at(at).into_iter().map(|file| {
        let from = draft_path(&tree, file).ok_or(Errno::ENOENT)?;
        let to = Draft::path(&ViewPath::root(), tree.draft_number(file))?;
        Ok((from, to, tree.backed(file).map(|backed| backed.ino), tree.has_base(file)))
    });
    let moves = moves.collect::<Result<Vec<_>, Errno>>()?;
    drop(tree);
    let place = &owner.local.place;
    // A daemon that died before it could say so has moved it, and perhaps removed the directory.
    let is_moved = |to: &ViewPath, ino| place.attributes(to).is_ok_and(|found| Some(found.ino) == ino);
    moves.into_iter().filter(|(_, to, ino, _)| !is_moved(to, *ino)).try_for_each(|(from, to, ino, has_base)| {
        match place.rename(&from, &to, false, ino) {
            // It was noted, and never made.
            Err(Errno::ENOENT) if !has_base => Ok(()),
            renamed => renamed,
        }
    })
}
