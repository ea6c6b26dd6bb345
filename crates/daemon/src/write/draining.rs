//! Sending ahead what open files have in stores that fill (`forebay_write::Drain`).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use forebay_store::Draft;
use forebay_types::{Errno, FileId, NodeRank, ViewPath};
use forebay_wire::write::{Drained, Operation, Source};
use forebay_write::{Action, Drain};

use super::commits::Commits;
use super::contents::Reader;
use super::owner::{Owner, draft_path};
use super::sending::{Meter, Snapshot};

/// How much is sent before the landing goes on.
const PART_BYTES: u64 = 64 << 20;

/// See the module.
pub struct Draining {
    owner: Arc<Owner>,
    reader: Arc<Reader>,
    commits: Arc<Commits>,
    meter: Arc<Meter>,
}

impl Draining {
    pub fn new(owner: &Arc<Owner>, reader: &Arc<Reader>, commits: &Arc<Commits>, meter: &Arc<Meter>) -> Self {
        let (owner, reader) = (Arc::clone(owner), Arc::clone(reader));
        Self { owner, reader, commits: Arc::clone(commits), meter: Arc::clone(meter) }
    }

    /// Sends a part, if there is need and anything to be sent. Whether there was.
    pub fn send_ahead(&self) -> Result<bool, String> {
        let filling = self.owner.filling();
        if filling.is_empty() {
            return Ok(false);
        }
        if filling.contains(&self.owner.local.rank) {
            // Only what is committed can be sent.
            self.commits.commit_all().map_err(|errno| format!("committing what open files have: {errno}"))?;
        }
        let Some(drain) = self.next_drain(&filling) else { return Ok(false) };
        let directory = self.owner.tree().directory_for_draft(drain.file);
        let noted = if drain.is_there { Ok(()) } else { note_draft(&self.owner, drain.file, directory) };
        // No loss of power takes back what is sent, perhaps to a file that is there already.
        let is_safe = noted.and_then(|()| self.owner.make_durable());
        let sent = is_safe.and_then(|()| self.drain(&drain)).map_err(|errno| {
            let path =
                self.owner.backing_path(drain.file).map_or_else(|| "an open file".to_owned(), |path| path.to_string());
            format!("sending {path} ahead: {errno}")
        });
        sent.map(|()| true)
    }

    fn next_drain(&self, filling: &BTreeSet<NodeRank>) -> Option<Drain> {
        self.owner.tree().next_drain(filling, PART_BYTES)
    }

    fn drain(&self, drain: &Drain) -> Result<(), Errno> {
        let Drain { file, version, size_bytes, is_there, extents } = drain;
        let mut snapshot = Snapshot::of(&self.owner, *file)?;
        if snapshot.version != *version {
            // The next look sees what it is now.
            return Ok(());
        }
        let is_sent = |source| matches!(source, Source::Log(extent) if extents.contains(&extent));
        snapshot.pieces.retain(|piece| piece.source == Source::Hole || is_sent(piece.source));
        let place = &self.owner.local.place;
        let path = self.owner.backing_path(*file).ok_or(Errno::ENOENT)?;
        let began = Instant::now();
        if !is_there && !self.owner.tree().has_base(*file) {
            let number = self.owner.tree().draft_number(*file);
            let draft = place.draft(&path, number)?;
            snapshot.write(&self.reader, &self.meter, *file, draft.file())?;
            draft.keep()?;
        } else {
            snapshot.write(&self.reader, &self.meter, *file, &self.owner.hold(*file, &path)?.open_to_write()?)?;
        }
        self.meter.note_rate(snapshot.bytes(), began.elapsed());
        let generation = place.attributes(&path)?.generation();
        let drained = Drained { version: *version, size_bytes: *size_bytes, generation, extents: extents.clone() };
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
