//! Files that appear on the backing file system, several at once: each has to wait for its disks more than once.
//!
//! They are drafted at the same time, and take their names one after the other in the tree's order. Steps that are not noted
//! when the daemon ends are done again: the next one knows files that have appeared by their inodes.

use std::sync::Arc;

use forebay_store::{Draft, LandingPlace};
use forebay_types::{Attributes, BackingId, Errno, FileId, ViewPath};
use forebay_upload::Upload;
use forebay_wire::journal::{LandedContents, LeaderEntry};
use forebay_wire::write::WrittenExtent;
use forebay_write::{Action, OwnExtended};

use super::conflicts::{Conflicts, Occupant};
use super::drafts::{discard, or_discard};
use super::meter::Meter;
use super::several::several;
use super::snapshot::Snapshot;
use super::striping::Striping;
use super::uploading::{Extents, Part, bytes_of, cost_of, verify};
use crate::write::calls::{By, Cost, MayLand};
use crate::write::contents::Reader;
use crate::write::tree::leader::Leader;
use crate::write::tree::paths::draft_path;

/// Files that are published at once, and how many bytes more than one of them may have together.
pub const FILES_MAX: usize = 64;
pub const BYTES_MAX: u64 = 64 << 20;

/// Files that are written at the same time.
const WRITERS: usize = 8;

/// See the module.
pub struct Publisher {
    pub leader: Arc<Leader>,
    pub reader: Arc<Reader>,
    pub meter: Arc<Meter>,
}

/// A file whose draft is whole.
struct WholeDraft {
    file: FileId,
    backed: BackingId,
    version: u64,
    draft: Draft,
    paths: Vec<ViewPath>,
    /// Whether something is at the first of them.
    replaces: bool,
}

/// How far it came.
pub struct Publication {
    /// The landed contents of the first of those that were to be published.
    pub landed: Vec<LandedContents>,
    /// The error of the one after them.
    pub failed: Option<Errno>,
}

impl Publisher {
    /// Publishes the first of these: all if nothing fails, and none has changed meanwhile. All are publications, whose drafts are noted durably,
    /// each with what was found at its first place.
    ///
    /// # Errors
    /// Where it is not known how far it came: what the backing file system says, or the store.
    pub async fn publish(&self, actions: &[(&Action, Option<BackingId>)]) -> Result<Publication, Errno> {
        let mut failed = None;
        let drafting: Vec<_> = actions.iter().map(|(action, found)| self.draft(action, *found)).collect();
        let mut drafts = several(WRITERS, drafting).await.into_iter();
        let of_whole = |draft: Result<Option<WholeDraft>, Errno>| {
            draft.unwrap_or_else(|errno| {
                failed = Some(errno);
                None
            })
        };
        let drafted: Vec<_> = drafts.by_ref().map_while(of_whole).collect();
        let left_out: Vec<_> = drafts.filter_map(|draft| draft.ok().flatten()).collect();
        self.discard(left_out).await;
        // A daemon after this one knows them again, after a loss of power too.
        for WholeDraft { file, backed, .. } in &drafted {
            self.leader.note_found(LeaderEntry::Publishing { file: *file, backed: *backed }).await?;
        }
        self.leader.make_durable().await?;
        let numbers: Vec<u128> = {
            let tree = self.leader.tree();
            drafted.iter().map(|draft| tree.draft_number(draft.file)).collect()
        };
        // One rename each, and one look; and one more for the directories.
        let calls = 2 * drafted.len() as u64 + 1;
        let name = move |place: &LandingPlace, may_land: &MayLand| name(place, may_land, (drafted, numbers));
        let (landed, is_another) = self.leader.local.land_together(calls, name).await?;
        Ok(Publication { landed, failed: is_another.or(failed) })
    }

    /// Gives a file that has appeared at one of its places the others, too.
    ///
    /// # Errors
    /// The backing file system's error.
    pub async fn complete(&self, action: &Action) -> Result<(), Errno> {
        let Action::Publish { file, places, .. } = action else { return Ok(()) };
        let (backed, number) = {
            let tree = self.leader.tree();
            (tree.backed(*file), tree.draft_number(*file))
        };
        let paths = places.iter().map(|place| self.leader.path_of(place)).collect::<Result<Vec<_>, _>>()?;
        let complete = self.leader.local.land_together(2 * paths.len() as u64, move |place, may_land| {
            let is_it = |found: BackingId| backed.is_some_and(|own| own.is_same_file(&found));
            let is_at = |path: &ViewPath| may_land.call(|| place.backed(path)).is_ok_and(is_it);
            let (there, missing): (Vec<_>, Vec<_>) = paths.iter().partition(|path| is_at(path));
            let from = there.first().ok_or(Errno::ESTALE)?;
            missing.into_iter().try_for_each(|to| may_land.call(|| place.link(from, to, number)))
        });
        complete.await
    }

    /// The draft of a file; `None` where it has changed or gone meanwhile, or somebody else has come: the next look sees that.
    async fn draft(&self, action: &Action, found: Option<BackingId>) -> Result<Option<WholeDraft>, Errno> {
        let Action::Publish { file, places, .. } = action else { return Err(Errno::EINVAL) };
        let paths = places.iter().map(|place| self.leader.path_of(place)).collect::<Result<Vec<_>, _>>()?;
        let Some(snapshot) = Snapshot::of_settled(&self.leader, *file) else { return Ok(None) };
        let first = places.first().ok_or(Errno::ENOENT)?;
        let (path, number) = {
            let tree = self.leader.tree();
            (draft_path(&tree, *file).ok_or(Errno::ESTALE)?, tree.draft_number(*file))
        };
        // A place that is empty now may be taken by others while this is written: they are not replaced.
        let replaces = match (Conflicts { leader: &self.leader }).occupant_of(first, Some(*file), found) {
            Occupant::Nobody => false,
            Occupant::Tree => true,
            Occupant::Stranger => return Ok(None),
        };
        let given = Given { attributes: snapshot.attributes, extended: snapshot.extended.clone() };
        let (draft, backed) = if Striping::is_for(&snapshot) {
            let striping = Striping { leader: &self.leader, reader: &self.reader, meter: &self.meter };
            let draft = striping.draft(*file, &snapshot, &path, number).await?;
            self.end(draft, given).await?
        } else if let Some(part) = Extents::new(&snapshot.of_logs()).only_part() {
            self.draft_at_once(part, (path, number), given).await?
        } else {
            let draft = self.begin((path, number), given.attributes.size_bytes).await?;
            let written = match draft.file().try_clone() {
                Ok(file) => snapshot.write(&self.reader, &self.meter, &Arc::new(file)).await,
                Err(error) => Err(Errno::of(&error)),
            };
            let draft = or_discard(&self.leader, draft, written).await?;
            self.end(draft, given).await?
        };
        Ok(Some(WholeDraft { file: *file, backed, version: snapshot.version, draft, paths, replaces }))
    }

    /// A draft that is no more than a part: all that the backing file system does for it in one turn.
    async fn draft_at_once(
        &self,
        part: Vec<WrittenExtent>,
        (path, number): (ViewPath, u128),
        given: Given,
    ) -> Result<(Draft, BackingId), Errno> {
        let (cost, bytes) = (cost_of(&part), bytes_of(&part) as u64);
        let cost = Cost { calls: cost.calls + Given::CALLS + 2, ..cost };
        let part = Part::gather(&self.reader, part, vec![]).await?;
        let (local, calls) = (Arc::clone(&self.leader.local), &self.leader.local.calls);
        self.meter.begin(bytes);
        let make = move |may_land: &MayLand| {
            let draft = may_land.call(|| local.place.draft(&path, number))?;
            let fill = || {
                resize(&draft, given.attributes.size_bytes, may_land)?;
                let mut upload = Upload::default();
                let memory = part.write(&local, (draft.file(), may_land), &mut upload)?;
                if upload.bytes() > 0 {
                    verify(&upload, (draft.file(), may_land), memory)?;
                }
                given.end(&local.place, &draft, may_land)
            };
            let backed = fill().inspect_err(|_| discard(&draft, may_land))?;
            Ok((draft, backed))
        };
        let made = calls.write(By::Leader, cost, make).await;
        match made {
            Ok(_) => self.meter.verified(bytes, self.leader.nodes.now()),
            Err(_) => self.meter.give_up(bytes),
        }
        made
    }

    async fn begin(&self, (path, number): (ViewPath, u128), size_bytes: u64) -> Result<Draft, Errno> {
        let begin = self.leader.local.land_together(2, move |place, may_land| {
            let draft = may_land.call(|| place.draft(&path, number))?;
            let sized = resize(&draft, size_bytes, may_land).inspect_err(|_| discard(&draft, may_land));
            sized.map(|()| draft)
        });
        begin.await
    }

    async fn end(&self, draft: Draft, given: Given) -> Result<(Draft, BackingId), Errno> {
        let end = self.leader.local.land_together(Given::CALLS, move |place, may_land| {
            let backed = given.end(place, &draft, may_land).inspect_err(|_| discard(&draft, may_land))?;
            Ok((draft, backed))
        });
        end.await
    }

    /// Removes drafts that do not get their names now. The next attempt makes them anew.
    async fn discard(&self, drafts: Vec<WholeDraft>) {
        if drafts.is_empty() {
            return;
        }
        let remove = self.leader.local.land_together(drafts.len() as u64, move |_, may_land| {
            drafts.iter().for_each(|whole| discard(&whole.draft, may_land));
            Ok(())
        });
        let _ = remove.await;
    }
}

fn resize(draft: &Draft, size_bytes: u64, may_land: &MayLand) -> Result<(), Errno> {
    may_land.call(|| draft.file().set_len(size_bytes).map_err(|error| Errno::of(&error)))
}

/// The attributes that a draft gets when it is whole.
struct Given {
    attributes: Attributes,
    extended: Option<OwnExtended>,
}

impl Given {
    /// Calls that `end` makes.
    const CALLS: u64 = 4;

    /// Gives them, durably. Which file it is from now on. May block.
    fn end(self, place: &LandingPlace, draft: &Draft, may_land: &MayLand) -> Result<BackingId, Errno> {
        if let Some(extended) = &self.extended {
            may_land.call(|| draft.set_extended(&extended.attributes))?;
        }
        may_land.call(|| draft.set_attributes(&self.attributes))?;
        may_land.call(|| draft.make_durable())?;
        may_land.call(|| place.backed_draft(draft))
    }
}

/// Drafts take their names. The contents that have landed, and why the next one has not. May block.
fn name(
    place: &LandingPlace,
    may_land: &MayLand,
    (drafted, numbers): (Vec<WholeDraft>, Vec<u128>),
) -> Result<(Vec<LandedContents>, Option<Errno>), Errno> {
    let named: Vec<_> = drafted.iter().map(|whole| (&whole.draft, &whole.paths[0], whole.replaces)).collect();
    // A batch takes longer than a look at the leader lease is good for.
    let published = place.publish(&named, || may_land.call(|| Ok(())));
    // Those that have their names are no drafts any more.
    published.inspect_err(|_| drafted.iter().for_each(|whole| discard(&whole.draft, may_land)))?;
    let mut landed = vec![];
    for (WholeDraft { backed: draft, version, paths, .. }, number) in drafted.iter().zip(numbers) {
        let (first, others) = paths.split_first().ok_or(Errno::ENOENT)?;
        let (mut backed, mut blocks) = may_land.call(|| place.landed(first))?;
        // Users who may change the directory can put a file of their own at the draft's name. That is not what has landed.
        if !backed.is_same_file(draft) {
            return Ok((landed, Some(Errno::ESTALE)));
        }
        if !others.is_empty() {
            others.iter().try_for_each(|other| may_land.call(|| place.link(first, other, number)))?;
            (backed, blocks) = may_land.call(|| place.landed(first))?;
        }
        landed.push(LandedContents { version: *version, backed, blocks });
    }
    Ok((landed, None))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use forebay_types::NodeRank;

    use super::*;
    use crate::write::calls::{BackingCalls, DrainLimits};

    fn whole(place: &LandingPlace, number: u128) -> WholeDraft {
        let path = ViewPath::new(format!("file{number}").as_bytes()).unwrap();
        let draft = place.draft(&path, number).unwrap();
        let backed = place.backed_draft(&draft).unwrap();
        let file = FileId { creator: NodeRank(0), serial: number as u64 };
        WholeDraft { file, backed, version: 1, draft, paths: vec![path], replaces: false }
    }

    /// The names that are left belong to the next leader: as drafts that it knows, or as files of its own.
    #[tokio::test]
    async fn a_leader_that_is_replaced_within_a_batch_renames_and_removes_no_more() {
        let dir = tempfile::tempdir().unwrap();
        let place = LandingPlace::open(dir.path()).unwrap();
        let calls = BackingCalls::new(&(Arc::new(crate::machine::Threads::new(1)) as _), DrainLimits::default());
        let looks = AtomicUsize::new(0);
        calls.land_only_while(move || looks.fetch_add(1, Ordering::Relaxed) < 3);
        let drafted: Vec<_> = (0..8).map(|number| whole(&place, number)).collect();
        let batch = move |may_land: &MayLand| name(&place, may_land, (drafted, (0..8).collect()));
        assert_eq!(calls.land_together(17, batch).await.unwrap_err(), Errno::EAGAIN);
        let names = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let (drafts, files): (Vec<_>, Vec<_>) = names.partition(|name| Draft::is_draft(name.as_encoded_bytes()));
        assert_eq!((drafts.len(), files.len()), (5, 3));
    }
}
