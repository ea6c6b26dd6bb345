//! Sending ahead what open files have in stores that fill, and what of them is old (`forebay_write::Drain`).

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use forebay_types::{BackingId, Errno, FileId, ViewPath};
use forebay_wire::journal::{Drained, LeaderEntry};
use forebay_wire::write::Source;
use forebay_write::{AgeWatermarks, Ahead, Drain};

use super::conflicts::Conflicts;
use super::drafts::{begin_anew, check_same, discard, keep, note_draft, note_unmodified, or_discard};
use super::failure::Failure;
use super::meter::Meter;
use super::rights;
use super::snapshot::Snapshot;
use crate::write::commits::Commits;
use crate::write::contents::Reader;
use crate::write::tree::leader::Leader;

/// How much is sent before the landing goes on.
pub const PART_BYTES: u64 = 64 << 20;

/// Bytes that programs wrote so long ago, and have not overwritten since, are sent. Shorter, more would be sent that is overwritten or
/// removed soon; longer, more of a checkpoint that is written slowly would be left for its close.
const OLD: Duration = Duration::from_secs(20);

/// See the module.
pub struct EarlyWriter {
    leader: Arc<Leader>,
    reader: Arc<Reader>,
    commits: Arc<Commits>,
    meter: Arc<Meter>,
    age_watermarks: Mutex<AgeWatermarks>,
}

impl EarlyWriter {
    pub fn new(leader: &Arc<Leader>, reader: &Arc<Reader>, commits: &Arc<Commits>, meter: &Arc<Meter>) -> Self {
        let (leader, reader) = (Arc::clone(leader), Arc::clone(reader));
        let (commits, meter) = (Arc::clone(commits), Arc::clone(meter));
        Self { leader, reader, commits, meter, age_watermarks: Mutex::new(AgeWatermarks::new(OLD)) }
    }

    /// Sends a part, if there is need and anything to be sent: where nothing else `is_to_land`, also of what is old. Whether there was.
    pub async fn send_ahead(&self, is_to_land: bool) -> Result<bool, Failure> {
        let Some((drain, is_kept)) = self.next_drain(is_to_land).await? else { return Ok(false) };
        let now = || self.leader.nodes.now();
        let sent = match self.prepare(&drain).await {
            Ok(true) => self.meter.measure(now, self.drain(&drain, is_kept)).await,
            prepared => prepared.map(drop),
        };
        // A file that programs have removed meanwhile is no failure.
        if sent.is_err() && self.leader.tree().state(drain.file).is_err() {
            return Ok(true);
        }
        let sent = sent.map_err(|errno| {
            let path =
                self.leader.backing_path(drain.file).map_or_else(|| "an open file".to_owned(), |path| path.to_string());
            Failure::of(format!("sending {path} ahead"), errno)
        });
        sent.map(|()| true)
    }

    /// The next part to be sent, and whether logs keep it.
    async fn next_drain(&self, is_to_land: bool) -> Result<Option<(Drain, bool)>, Failure> {
        let filling = self.leader.filling();
        // Only what is committed can be sent.
        let committed = match filling.contains(&self.leader.local.rank) {
            true => self.commits.commit_all().await,
            false => self.commits.commit_old().await,
        };
        committed.map_err(|errno| Failure::because(format!("committing what open files have: {errno}")))?;
        if !filling.is_empty()
            && let Some(drain) = self.leader.tree().next_drain(Ahead::OfNodes(&filling), PART_BYTES)
        {
            return Ok(Some((drain, false)));
        }
        let now = self.leader.nodes.now();
        let mut age_watermarks = self.age_watermarks.lock().unwrap_or_else(PoisonError::into_inner);
        if age_watermarks.is_due(now) {
            age_watermarks.mark(now, self.leader.tree().written_to_open());
        }
        let mut old = age_watermarks.old(now);
        // A wait for a node that is gone would keep back bytes that could land.
        let answering = self.leader.answering();
        old.retain(|node, _| answering.contains(node));
        if is_to_land || old.is_empty() {
            return Ok(None);
        }
        let drain = self.leader.tree().next_drain(Ahead::Old(&old), PART_BYTES);
        if drain.is_none() {
            age_watermarks.all_sent();
        }
        Ok(drain.map(|drain| (drain, true)))
    }

    /// Whether it can be sent: where others have changed the file, the next look sees what it is now.
    async fn prepare(&self, drain: &Drain) -> Result<bool, Errno> {
        if drain.is_there {
            let place = self.leader.tree().backing_place(drain.file).cloned().ok_or(Errno::ESTALE)?;
            if (Conflicts { leader: &self.leader }).make_way_to_update(drain.file, &place).await? {
                return Ok(false);
            }
        } else {
            let directory = self.leader.tree().directory_for_draft(drain.file);
            note_draft(&self.leader, drain.file, directory).await?;
        }
        Ok(true)
    }

    async fn drain(&self, drain: &Drain, is_kept: bool) -> Result<(), Errno> {
        let Drain { file, version, size_bytes, is_there, extents } = drain;
        let mut snapshot = Snapshot::of(&self.leader, *file)?;
        if snapshot.version != *version {
            // The next look sees what it is now.
            return Ok(());
        }
        {
            let tree = self.leader.tree();
            let is_to_send = |extent| extents.contains(&extent) && !tree.is_sent(*file, &extent);
            let is_to_send = |source| matches!(source, Source::Log(extent) if is_to_send(extent));
            snapshot.pieces.retain(|piece| piece.source == Source::Hole || is_to_send(piece.source));
        }
        let path = self.leader.backing_path(*file).ok_or(Errno::ENOENT)?;
        // A draft may be a name of a file of others, too.
        let may_be_changed = *is_there || self.leader.tree().has_names_elsewhere(*file);
        if may_be_changed {
            self.leader.note_found(LeaderEntry::Changing { file: *file }).await?;
        }
        // No loss of power takes back what is sent, perhaps to a file that is there already.
        let written = match self.leader.make_durable().await {
            Ok(()) => self.write(drain, &snapshot, &path).await,
            Err(errno) => Err((errno, true)),
        };
        let backed = match written {
            Ok(backed) => backed,
            Err((errno, is_begun)) => {
                if is_begun {
                    note_unmodified(&self.leader, *file, &path).await;
                }
                return Err(errno);
            }
        };
        let (version, size_bytes, extents) = (*version, *size_bytes, extents.clone());
        let drained = Drained { version, size_bytes, backed, extents, is_kept };
        self.leader.note_found(LeaderEntry::Drained { file: *file, drained }).await
    }

    /// Writes to a new draft, or to what is there. An error says whether what is there may have been changed.
    async fn write(&self, drain: &Drain, snapshot: &Snapshot, path: &ViewPath) -> Result<BackingId, (Errno, bool)> {
        let file = drain.file;
        let has_part = {
            let tree = self.leader.tree();
            // A draft that is a name of the file itself has a part of it, even if all is written.
            tree.has_part(file) || tree.has_names_elsewhere(file)
        };
        if !drain.is_there && !has_part {
            return self.write_draft(file, snapshot, path).await.map_err(|errno| (errno, false));
        }
        self.write_in_place(file, snapshot, path).await.map_err(|errno| (errno, true))?;
        let at = path.clone();
        let backed = self.leader.local.land(move |place| place.backed(&at)).await;
        let backed = backed.and_then(|backed| check_same(&self.leader, file, &backed).map(|()| backed));
        backed.map_err(|errno| (errno, false))
    }

    async fn write_draft(&self, file: FileId, snapshot: &Snapshot, path: &ViewPath) -> Result<BackingId, Errno> {
        let number = self.leader.tree().draft_number(file);
        let (at, size_bytes) = (path.clone(), snapshot.attributes.size_bytes);
        let failed = |error: std::io::Error| Errno::of(&error);
        let begin = self.leader.local.land_together(2, move |place, may_land| {
            let draft = may_land.call(|| place.draft(&at, number))?;
            let sized = may_land.call(|| draft.file().set_len(size_bytes).map_err(failed));
            let open = sized.and_then(|()| draft.file().try_clone().map_err(failed));
            let open = open.inspect_err(|_| discard(&draft, may_land))?;
            Ok((draft, Arc::new(open)))
        });
        let (draft, open) = begin.await?;
        let written = snapshot.write(&self.reader, &self.meter, &open).await;
        let draft = or_discard(&self.leader, draft, written).await?;
        keep(&self.leader, draft).await
    }

    async fn write_in_place(&self, file: FileId, snapshot: &Snapshot, path: &ViewPath) -> Result<(), Errno> {
        let held = match self.leader.hold(file, path).await {
            Ok(held) => Arc::new(held),
            Err(errno) => return begin_anew(&self.leader, file, errno).await,
        };
        let (calls, of_file) = (&self.leader.local.calls, Arc::clone(&held));
        let open = Arc::new(calls.land(move || of_file.open_to_write()).await?);
        let write = snapshot.write_in_place(&self.reader, &self.meter, &open);
        rights::write_to(&self.leader, file, &held, write).await?;
        // Its times too: they tell others' changes from ours.
        calls.land(move || open.sync_all().map_err(|error| Errno::of(&error))).await
    }
}
