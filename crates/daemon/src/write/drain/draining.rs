//! Sending ahead what open files have in stores that fill, and what of them is old (`forebay_write::Drain`).

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use forebay_types::Errno;
use forebay_wire::write::{Drained, Operation, Source};
use forebay_write::{Ages, Ahead, Drain};

use super::conflicts::Conflicts;
use super::drafts::{begin_anew, check_same, note_as_left, note_draft};
use super::rights;
use super::sending::{Meter, Snapshot};
use crate::write::commits::Commits;
use crate::write::contents::Reader;
use crate::write::tree::owner::Owner;

/// How much is sent before the landing goes on.
const PART_BYTES: u64 = 64 << 20;

/// Bytes that programs wrote so long ago, and have not overwritten since, are sent. Shorter, more would be sent that is overwritten or
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
        let prepared = self.prepare(&drain);
        let now = || self.owner.nodes.now();
        let send = || self.meter.measure(now, || self.drain(&drain, is_kept));
        let sent = prepared.and_then(|is_ready| if is_ready { send() } else { Ok(()) });
        // A file that programs have removed meanwhile is no failure.
        if sent.is_err() && self.owner.tree().state(drain.file).is_err() {
            return Ok(true);
        }
        let sent = sent.map_err(|errno| {
            let path =
                self.owner.backing_path(drain.file).map_or_else(|| "an open file".to_owned(), |path| path.to_string());
            format!("sending {path} ahead: {errno}")
        });
        sent.map(|()| true)
    }

    /// The next part to be sent, and whether logs keep it.
    fn next_drain(&self, is_to_land: bool) -> Result<Option<(Drain, bool)>, String> {
        let filling = self.owner.filling();
        // Only what is committed can be sent.
        let committed = match filling.contains(&self.owner.local.rank) {
            true => self.owner.nodes.wait_for(self.commits.commit_all()),
            false => self.owner.nodes.wait_for(self.commits.commit_old()),
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
        // A wait for a node that is gone would keep back bytes that could land.
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

    /// Whether it can be sent: where others have changed the file, the next look sees what it is now.
    fn prepare(&self, drain: &Drain) -> Result<bool, Errno> {
        if drain.is_there {
            let place = self.owner.tree().backing_place(drain.file).cloned().ok_or(Errno::ESTALE)?;
            if (Conflicts { owner: &self.owner }).make_way_to_update(drain.file, &place)? {
                return Ok(false);
            }
        } else {
            let directory = self.owner.tree().directory_for_draft(drain.file);
            note_draft(&self.owner, drain.file, directory)?;
        }
        Ok(true)
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
        let (place, calls) = (&self.owner.local.place, &self.owner.local.calls);
        let path = self.owner.backing_path(*file).ok_or(Errno::ENOENT)?;
        // A draft may be a name of a file of others, too.
        let may_be_changed = *is_there || self.owner.tree().has_names_elsewhere(*file);
        if may_be_changed {
            self.owner.carry_out_own(Operation::Changing { file: *file })?;
        }
        // No loss of power takes back what is sent, perhaps to a file that is there already.
        let is_durable = self.owner.make_durable();
        is_durable.inspect_err(|_| note_as_left(&self.owner, *file, &path))?;
        let has_part = {
            let tree = self.owner.tree();
            // A draft that is a name of the file itself has a part of it, even if all is written.
            tree.has_part(*file) || tree.has_names_elsewhere(*file)
        };
        let backed = if !is_there && !has_part {
            let number = self.owner.tree().draft_number(*file);
            let draft = calls.land(|| place.draft(&path, number))?;
            snapshot.write(&self.reader, &self.meter, draft.file())?;
            let backed = calls.land(|| place.backed_draft(&draft))?;
            calls.land(|| draft.keep())?;
            backed
        } else {
            let held = self.owner.hold(*file, &path).or_else(|errno| begin_anew(&self.owner, *file, errno));
            let written = held.and_then(|held| {
                let open = calls.land(|| held.open_to_write())?;
                rights::write_to(&self.owner, *file, &held, || {
                    snapshot.write_in_place(&self.reader, &self.meter, &open)
                })?;
                // Its times too: they tell others' changes from ours.
                calls.land(|| open.sync_all()).map_err(|error| Errno::of(&error))
            });
            written.inspect_err(|_| note_as_left(&self.owner, *file, &path))?;
            let backed = calls.land(|| place.backed(&path))?;
            check_same(&self.owner, *file, &backed)?;
            backed
        };
        let (version, size_bytes, extents) = (*version, *size_bytes, extents.clone());
        let drained = Drained { version, size_bytes, backed, extents, is_kept };
        self.owner.carry_out_own(Operation::Drained { file: *file, drained }).map(drop)
    }
}
