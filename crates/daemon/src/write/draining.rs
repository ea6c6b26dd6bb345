//! Sending ahead what open files have in stores that fill (`forebay_write::Drain`).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use forebay_types::{Errno, NodeRank};
use forebay_wire::write::{Drained, Operation, Source};
use forebay_write::Drain;

use super::commits::Commits;
use super::conflicts::Conflicts;
use super::contents::Reader;
use super::drafts::{note_as_left, note_draft};
use super::owner::Owner;
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
        let sent = self.prepare(&drain).and_then(|is_ready| if is_ready { self.drain(&drain) } else { Ok(()) });
        let sent = sent.map_err(|errno| {
            let path =
                self.owner.backing_path(drain.file).map_or_else(|| "an open file".to_owned(), |path| path.to_string());
            format!("sending {path} ahead: {errno}")
        });
        sent.map(|()| true)
    }

    fn next_drain(&self, filling: &BTreeSet<NodeRank>) -> Option<Drain> {
        self.owner.tree().next_drain(filling, PART_BYTES)
    }

    /// Whether it can be sent: where others have changed the file, the next look sees what it is now.
    fn prepare(&self, drain: &Drain) -> Result<bool, Errno> {
        if drain.is_there {
            let place = self.owner.tree().backing_place(drain.file).cloned().ok_or(Errno::ESTALE)?;
            if (Conflicts { owner: &self.owner }).make_way_to_update(drain.file, &place)? {
                return Ok(false);
            }
            self.owner.carry_out_own(Operation::Changing { file: drain.file })?;
        } else {
            let directory = self.owner.tree().directory_for_draft(drain.file);
            note_draft(&self.owner, drain.file, directory)?;
        }
        // No loss of power takes back what is sent, perhaps to a file that is there already.
        self.owner.make_durable().map(|()| true)
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
            let open = self.owner.hold(*file, &path)?.open_to_write()?;
            let written = snapshot.write(&self.reader, &self.meter, *file, &open);
            // Its times too: they tell others' changes from ours.
            let synced = written.and_then(|()| open.sync_all().map_err(|error| Errno::of(&error)));
            synced.inspect_err(|_| note_as_left(&self.owner, *file, &path))?;
        }
        self.meter.note_rate(snapshot.bytes(), began.elapsed());
        let backed = place.backed(&path)?;
        let drained = Drained { version: *version, size_bytes: *size_bytes, backed, extents: extents.clone() };
        self.owner.carry_out_own(Operation::Drained { file: *file, drained }).map(drop)
    }
}
