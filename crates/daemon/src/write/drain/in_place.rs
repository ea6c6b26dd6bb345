//! Files that are there on the backing file system, by their names or as drafts, and are changed where they lie.

use std::sync::Arc;

use forebay_types::{BackingId, Errno, FileId, Kind, ViewPath};
use forebay_wire::journal::{LandedContents, LeaderEntry, StepOutcome};
use forebay_wire::write::Place;
use forebay_write::{Action, Identified};

use super::conflicts::Conflicts;
use super::drafts;
use super::meter::Meter;
use super::rights;
use super::snapshot::Snapshot;
use crate::write::contents::Reader;
use crate::write::tree::leader::Leader;
use crate::write::tree::paths::{draft_path, landed_attributes};

/// A file that was to land has changed.
pub const CHANGED: Errno = Errno::EAGAIN;

/// See the module.
pub struct InPlace {
    pub leader: Arc<Leader>,
    pub reader: Arc<Reader>,
    pub meter: Arc<Meter>,
}

impl InPlace {
    /// Gives a file that is there what programs have set.
    ///
    /// # Errors
    /// The backing file system's error, or that of the store.
    pub async fn set_attributes(&self, file: FileId, path: &ViewPath) -> Result<StepOutcome, Errno> {
        let (attributes, is_own, extended) = {
            let tree = self.leader.tree();
            (landed_attributes(&tree, file), tree.has_own_rights(file), tree.extended_to_land(file).cloned())
        };
        let Some(attributes) = attributes else { return Ok(StepOutcome::Done) };
        let calls = &self.leader.local.calls;
        let held = Arc::new(self.leader.hold(file, path).await?);
        let found = held.backed();
        if self.leader.tree().identify(file, &found) == Identified::Changed {
            tracing::warn!(%path, "others have changed this file; its mode, owner, times and extended attributes are left as they are");
            return Ok(StepOutcome::LeftOut);
        }
        let has_extended = extended.is_some();
        if let Some(extended) = extended {
            let held = Arc::clone(&held);
            calls.land(move || held.set_extended(&extended.attributes, Some(&extended.changed))).await?;
        }
        // The time of change tells others' changes from ours.
        if found.kind != Kind::File || found.generation.mtime == attributes.mtime {
            rights::give(&self.leader, &held, (&attributes, is_own), path).await?;
            // The tree keeps them no longer.
            if has_extended {
                calls.land(move || held.sync()).await?;
            }
            return Ok(StepOutcome::Done);
        }
        self.leader.note_found(LeaderEntry::Changing { file }).await?;
        self.leader.make_durable().await?;
        rights::give(&self.leader, &held, (&attributes, is_own), path).await?;
        let at = path.clone();
        let sync = self.leader.local.land_together(2, move |place, may_land| {
            may_land.call(|| held.sync())?;
            may_land.call(|| place.backed(&at))
        });
        let backed = sync.await?;
        drafts::check_same(&self.leader, file, &backed)?;
        Ok(StepOutcome::Made(backed))
    }

    /// Publishes a file of which a part was sent ahead.
    ///
    /// # Errors
    /// The backing file system's error, or that of the store; `CHANGED`.
    pub async fn publish_sent(&self, action: &Action, file: FileId, places: &[Place]) -> Result<LandedContents, Errno> {
        let paths = places.iter().map(|place| self.leader.path_of(place)).collect::<Result<Vec<_>, _>>()?;
        let (first, others) = paths.split_first().ok_or(Errno::ENOENT)?;
        let mut snapshot = Snapshot::of_settled(&self.leader, file).ok_or(CHANGED)?;
        snapshot.leave_out_sent(&self.leader, file);
        // It may get its name without this being noted.
        self.leader.note_found(LeaderEntry::Changing { file }).await?;
        self.leader.make_durable().await?;
        if let Err(errno) = self.write_and_name(action, file, &snapshot, first).await {
            return drafts::begin_anew(&self.leader, file, errno).await;
        }
        let number = self.leader.tree().draft_number(file);
        for other in others {
            let (from, to) = (first.clone(), other.clone());
            self.leader.local.land(move |place| place.link(&from, &to, number)).await?;
        }
        self.contents(file, first, &snapshot).await
    }

    async fn write_and_name(
        &self,
        action: &Action,
        file: FileId,
        snapshot: &Snapshot,
        to: &ViewPath,
    ) -> Result<(), Errno> {
        let draft = draft_path(&self.leader.tree(), file).ok_or(Errno::ESTALE)?;
        if self.write_draft(file, snapshot, &draft, to).await? {
            return Ok(());
        }
        // Others may have put something there while it was written.
        if (Conflicts { leader: &self.leader }).make_way(action).await? {
            return Err(CHANGED);
        }
        let ino = self.leader.tree().backed(file).map(|backed| backed.generation.ino);
        let to = to.clone();
        self.leader.local.land(move |place| place.rename(&draft, &to, false, ino)).await
    }

    /// Changes a file where it lies.
    ///
    /// # Errors
    /// As `publish_sent`.
    pub async fn update(&self, file: FileId, path: &ViewPath) -> Result<LandedContents, Errno> {
        let snapshot = Snapshot::of_settled(&self.leader, file).ok_or(CHANGED)?;
        self.leader.note_found(LeaderEntry::Changing { file }).await?;
        self.leader.make_durable().await?;
        if let Err(errno) = self.write_at(file, &snapshot, path, false).await {
            drafts::note_unmodified(&self.leader, file, path).await;
            return Err(errno);
        }
        self.contents(file, path, &snapshot).await
    }

    /// Changes a file that only others have names of. Its draft is one, too.
    ///
    /// # Errors
    /// As `publish_sent`.
    pub async fn update_unnamed(&self, file: FileId) -> Result<StepOutcome, Errno> {
        let path = draft_path(&self.leader.tree(), file).ok_or(Errno::ESTALE)?;
        let is_unmodified = match self.leader.hold(file, &path).await {
            Err(Errno::ENOENT | Errno::ESTALE) => false,
            held => self.leader.tree().identify(file, &held?.backed()) == Identified::Unmodified,
        };
        if is_unmodified {
            return self.update(file, &path).await.map(StepOutcome::Contents);
        }
        tracing::warn!(%path, "others have changed or removed this file, whose name the job has removed; it is left as it is");
        Ok(StepOutcome::LeftOut)
    }

    /// Whether it has its name already.
    async fn write_draft(
        &self,
        file: FileId,
        snapshot: &Snapshot,
        draft: &ViewPath,
        to: &ViewPath,
    ) -> Result<bool, Errno> {
        let backed = self.leader.tree().backed(file);
        let (at, other) = (draft.clone(), to.clone());
        let look = self.leader.local.land_together(2, move |place, may_land| {
            // A daemon that died after the renaming has not said so.
            let is_renamed = |at: BackingId| backed.is_some_and(|backed| backed.is_same_file(&at));
            match may_land.call(|| place.backed(&at)) {
                Err(Errno::ENOENT) if may_land.call(|| place.backed(&other)).is_ok_and(is_renamed) => Ok(true),
                found => found.map(|_| false),
            }
        });
        let is_named = look.await?;
        self.write_at(file, snapshot, if is_named { to } else { draft }, true).await?;
        Ok(is_named)
    }

    /// Writes to a file that is there: a draft gets all attributes, what others may have changed those that programs have changed.
    async fn write_at(&self, file: FileId, snapshot: &Snapshot, path: &ViewPath, is_draft: bool) -> Result<(), Errno> {
        let (held, calls) = (Arc::new(self.leader.hold(file, path).await?), &self.leader.local.calls);
        let of_file = Arc::clone(&held);
        let open = Arc::new(calls.land(move || of_file.open_to_write()).await?);
        let write = snapshot.write_in_place(&self.reader, &self.meter, &open);
        rights::write_to(&self.leader, file, &held, write).await?;
        if let Some(extended) = snapshot.extended.clone() {
            let held = Arc::clone(&held);
            let set = move || held.set_extended(&extended.attributes, (!is_draft).then_some(&extended.changed));
            calls.land(set).await?;
        }
        match is_draft {
            true => rights::give_all(&self.leader, &held, &snapshot.attributes, path).await?,
            false => {
                rights::give(&self.leader, &held, (&snapshot.attributes, snapshot.has_own_rights), path).await?;
            }
        }
        calls.land(move || open.sync_all().map_err(|error| Errno::of(&error))).await
    }

    /// The landed contents at a path. A user who may change its directory can have put another file there meanwhile.
    async fn contents(&self, file: FileId, path: &ViewPath, snapshot: &Snapshot) -> Result<LandedContents, Errno> {
        let at = path.clone();
        let (backed, blocks) = self.leader.local.land(move |place| place.landed(&at)).await?;
        drafts::check_same(&self.leader, file, &backed)?;
        Ok(LandedContents { version: snapshot.version, backed, blocks })
    }
}
