//! Changes by others on the backing file system to places that the tree is about to change.
//!
//! No file of theirs is written over or removed. Where they have something at a name that the tree brings, or have changed what the
//! tree is about to change, the tree's file lands beside it; where they have taken away what the tree had landed, what was to be done
//! to it is over. Directories that they have taken away are made again for what lands in them.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use forebay_store::Held;
use forebay_types::{BackingId, Errno, FileId, Name, ViewPath, limits};
use forebay_wire::journal::LeaderEntry;
use forebay_wire::write::Place;
use forebay_write::{Action, Identified};

use super::drafts::{keep, note_draft, or_discard};
use super::rights;
use crate::write::calls::{By, Cost};
use crate::write::contents::read_exactly;
use crate::write::tree::leader::Leader;
use crate::write::tree::paths::{draft_path, landed_attributes};

/// Second names that are tried.
const NAMES_MAX: u32 = 1000;

/// Bytes that are copied at a time.
const COPY_BYTES: u64 = 4 << 20;

/// See the module.
#[derive(Clone, Copy)]
pub struct Conflicts<'a> {
    pub leader: &'a Leader,
}

/// The occupant of a place of the backing file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Occupant {
    /// The place is empty.
    Nobody,
    /// The tree's entry there, or the file that it brings.
    Tree,
    /// An entry that somebody else has put there.
    Stranger,
}

impl Conflicts<'_> {
    /// Looks at what an action is about. Whether it is another action now.
    ///
    /// # Errors
    /// The backing file system's error.
    pub async fn make_way(&self, action: &Action) -> Result<bool, Errno> {
        match action {
            Action::Publish { file, places, .. } => {
                let found = self.at_all(places).await?;
                self.set_aside_taken(*file, places, &found).await
            }
            Action::Update { file, place, .. } => self.make_way_to_update(*file, place).await,
            Action::Remove { place, .. } => self.make_way_to_remove(place).await,
            Action::Link { file, from, to } => {
                let ours = self.leader.tree().backed(*file);
                self.make_way_between(from, to, ours).await
            }
            Action::Rename { from, to, is_exchange: false } => {
                let (ours, file) = {
                    let tree = self.leader.tree();
                    (tree.backed_at(from), tree.directory_at(from))
                };
                // A directory moves with all that is still to land in it.
                let is_missing = file.is_some() && self.at(from).await?.is_none() && self.at(to).await?.is_none();
                match file.filter(|_| is_missing) {
                    Some(directory) => self.remake(directory).await,
                    None => self.make_way_between(from, to, ours).await,
                }
            }
            Action::Rename { from, to, is_exchange: true } => self.make_way_to_exchange(from, to).await,
            Action::SetAttributes { file, place: Some(place) } => self.make_way_to_set(*file, place).await,
            _ => Ok(false),
        }
    }

    /// A file is about to appear at places where this was found: its names get out of the way of strangers. Whether there was one.
    ///
    /// # Errors
    /// As `make_way`.
    pub async fn set_aside_taken(
        &self,
        file: FileId,
        places: &[Place],
        found: &[Option<BackingId>],
    ) -> Result<bool, Errno> {
        for (place, found) in places.iter().zip(found) {
            if self.occupant_of(place, Some(file), *found) == Occupant::Stranger {
                return self.set_aside(place).await.map(|()| true);
            }
        }
        Ok(false)
    }

    /// Whether a file is among what was found.
    pub fn is_among(&self, file: FileId, found: &[Option<BackingId>]) -> bool {
        let own = self.leader.tree().backed(file);
        own.is_some_and(|own| found.iter().flatten().any(|found| found.is_same_file(&own)))
    }

    async fn make_way_to_exchange(&self, one: &Place, other: &Place) -> Result<bool, Errno> {
        let [first, second] = [one, other].map(|place| self.leader.tree().backed_at(place));
        let is_done = match first {
            Some(first) => self.is_at(other, &first).await?,
            None => false,
        };
        Ok(!is_done && (self.note_if_gone(one, first).await? || self.note_if_gone(other, second).await?))
    }

    async fn make_way_between(&self, from: &Place, to: &Place, ours: Option<BackingId>) -> Result<bool, Errno> {
        let Some(ours) = ours else {
            // The backing identity of the tree's file is not known any more.
            return if self.at(from).await?.is_none() && self.at(to).await?.is_none() {
                self.removed_externally(from).await.map(|()| true)
            } else {
                Ok(false)
            };
        };
        if self.is_at(to, &ours).await? {
            return Ok(false);
        }
        if self.note_if_gone(from, Some(ours)).await? {
            return Ok(true);
        }
        if self.is_taken(to).await? {
            return self.set_aside(to).await.map(|()| true);
        }
        Ok(false)
    }

    /// Whether what an action brings is there: the daemon before this one may have done it.
    ///
    /// # Errors
    /// As `make_way`.
    pub async fn is_there(&self, action: &Action) -> Result<bool, Errno> {
        match action {
            Action::Publish { file, places, .. } => {
                let found = self.at_all(places).await?;
                Ok(self.is_among(*file, &found))
            }
            // Which it is nobody knows any more; one of another kind is not it.
            Action::Make { kind, place, .. } => Ok(self.at(place).await?.is_some_and(|found| found.kind == *kind)),
            _ => Ok(false),
        }
    }

    /// Makes directories again that lead to where an action happens. Whether any was missing.
    ///
    /// # Errors
    /// The backing file system's error.
    pub async fn remake_directories(&self, action: &Action) -> Result<bool, Errno> {
        let places: Vec<&Place> = match action {
            Action::Make { place, .. } | Action::Update { place, .. } => vec![place],
            Action::Publish { places, .. } => places.iter().collect(),
            Action::Link { from, to, .. } | Action::Rename { from, to, .. } => vec![from, to],
            Action::Remove { .. }
            | Action::UpdateUnnamed { .. }
            | Action::SetAttributes { .. }
            | Action::Discard { .. } => return Ok(false),
        };
        let mut any = false;
        for place in places {
            any |= self.remake(place.directory).await?;
        }
        Ok(any)
    }

    /// Makes a directory again, with those above it that are missing. Whether any was.
    async fn remake(&self, directory: FileId) -> Result<bool, Errno> {
        let above: Vec<FileId> = {
            let tree = self.leader.tree();
            let above = |directory: &FileId| tree.backing_place(*directory).map(|place| place.directory);
            // The place of the tree itself has none.
            std::iter::successors(Some(directory), above).filter(|directory| above(directory).is_some()).collect()
        };
        let mut any = false;
        for directory in above.into_iter().rev() {
            any |= self.remake_one(directory).await?;
        }
        Ok(any)
    }

    async fn remake_one(&self, directory: FileId) -> Result<bool, Errno> {
        let path: ViewPath = self.leader.backing_path(directory).ok_or(Errno::ENOENT)?;
        let local = &self.leader.local;
        let at = path.clone();
        if found(local.land(move |place| place.attributes(&at)).await)?.is_some() {
            return Ok(false);
        }
        tracing::warn!(%path, "others have removed this directory; it is made again, because files land in it");
        let at = path.clone();
        let made = local.land_together(2, move |place, may_land| {
            may_land.call(|| place.make_directory(&at))?;
            may_land.call(|| place.hold(&at))
        });
        let made = Arc::new(made.await?);
        let (attributes, extended) = {
            let tree = self.leader.tree();
            (landed_attributes(&tree, directory), tree.extended(directory).ok().flatten().cloned())
        };
        if let Some(extended) = extended {
            let made = Arc::clone(&made);
            local.calls.land(move || made.set_extended(&extended, None)).await?;
        }
        if let Some(attributes) = attributes {
            rights::give_all(self.leader, &made, &attributes, &path).await?;
        }
        self.leader.note_found(LeaderEntry::Publishing { file: directory, backed: made.backed() }).await?;
        Ok(true)
    }

    /// The entry at a place, if any.
    async fn at(&self, place: &Place) -> Result<Option<BackingId>, Errno> {
        Ok(self.at_all(std::slice::from_ref(place)).await?.pop().flatten())
    }

    /// The entries at places, if any.
    ///
    /// # Errors
    /// As `make_way`.
    pub async fn at_all(&self, places: &[Place]) -> Result<Vec<Option<BackingId>>, Errno> {
        // A place in a missing directory is empty.
        let paths = places.iter().map(|place| found(self.leader.path_of(place))).collect::<Result<Vec<_>, _>>()?;
        let count = paths.iter().flatten().count() as u64;
        if count == 0 {
            return Ok(vec![None; places.len()]);
        }
        let look = self.leader.local.land_together(count, move |place, may_land| {
            let at = |path: Option<ViewPath>| match path {
                Some(path) => found(may_land.call(|| place.backed(&path))),
                None => Ok(None),
            };
            paths.into_iter().map(at).collect()
        });
        look.await
    }

    /// Whether this file is at a place, whatever is in it.
    async fn is_at(&self, place: &Place, ours: &BackingId) -> Result<bool, Errno> {
        Ok(self.at(place).await?.is_some_and(|found| found.is_same_file(ours)))
    }

    async fn is_taken(&self, place: &Place) -> Result<bool, Errno> {
        let found = self.at(place).await?;
        Ok(self.occupant_of(place, None, found) == Occupant::Stranger)
    }

    /// The occupant of a place where this was found; `own` is the file that the tree brings there.
    pub fn occupant_of(&self, place: &Place, own: Option<FileId>, found: Option<BackingId>) -> Occupant {
        let Some(found) = found else { return Occupant::Nobody };
        let tree = self.leader.tree();
        let own = own.filter(|own| tree.backed(*own).is_some());
        let is_unmodified = |file| tree.identify(file, &found) == Identified::Unmodified;
        let is_tree = own.into_iter().chain(tree.file_at(place)).any(is_unmodified);
        if is_tree { Occupant::Tree } else { Occupant::Stranger }
    }

    /// A file that is there is about to be changed there: it has become theirs where others have changed it, and gone where it is
    /// another now. Whether it was.
    ///
    /// # Errors
    /// As `make_way`.
    pub async fn make_way_to_update(&self, file: FileId, place: &Place) -> Result<bool, Errno> {
        let Some(found) = self.at(place).await? else { return self.removed_externally(place).await.map(|()| true) };
        let (identified, base) = {
            let tree = self.leader.tree();
            (tree.identify(file, &found), tree.backing_resident_of(file))
        };
        // Bytes that they have cut off are nowhere.
        let is_whole = base.iter().all(|(offset, len)| offset + len <= found.generation.size_bytes);
        match identified {
            Identified::Unmodified => Ok(false),
            Identified::Changed if is_whole => self.copy_on_conflict(file, place, &base).await.map(|()| true),
            Identified::Changed | Identified::Another => self.removed_externally(place).await.map(|()| true),
        }
    }

    /// A file of which others have taken one name away is found by the others.
    async fn make_way_to_set(&self, file: FileId, place: &Place) -> Result<bool, Errno> {
        let (has_others, ours) = {
            let tree = self.leader.tree();
            (tree.is_elsewhere(file, place), tree.backed(file))
        };
        if has_others { self.note_if_gone(place, ours).await } else { Ok(false) }
    }

    /// The entry of a place is about to be removed: it stays where others have changed it. Whether they have.
    ///
    /// # Errors
    /// As `make_way`.
    pub async fn make_way_to_remove(&self, place: &Place) -> Result<bool, Errno> {
        let found = self.at(place).await?;
        let file = self.leader.tree().file_at(place);
        let (Some(found), Some(file)) = (found, file) else { return Ok(false) };
        let identified = self.leader.tree().identify(file, &found);
        match identified {
            Identified::Unmodified => Ok(false),
            Identified::Changed | Identified::Another => self.removed_externally(place).await.map(|()| true),
        }
    }

    /// Others have changed a file in place: it stays as it is. Bytes of the tree's file that only it has are copied to a draft, so
    /// that the whole file lands beside it.
    async fn copy_on_conflict(&self, file: FileId, place: &Place, base: &[(u64, u64)]) -> Result<(), Errno> {
        let path = self.leader.path_of(place)?;
        let bytes = base.iter().map(|(_, len)| len).sum();
        tracing::warn!(%path, bytes, "others have changed this file, which is left as it is; the job's file lands beside it, and \
                                      has these bytes, which the job did not write, as they are now");
        self.keep_extended(file).await;
        let theirs = self.leader.hold(file, &path).await?;
        let rights = rights::of_copy(self.leader, file, theirs.attributes());
        let draft = match base {
            [] => None,
            base => Some(self.copy_backing_resident(file, place.directory, theirs, base).await?),
        };
        self.leader.note_found(LeaderEntry::CopiedOnConflict { file, draft, bytes, rights }).await
    }

    /// Adopts the extended attributes of theirs, which are the job's too.
    async fn keep_extended(&self, file: FileId) {
        let is_known = self.leader.tree().extended(file).is_ok_and(|own| own.is_some());
        if is_known {
            return;
        }
        let kept = match self.leader.look_there(file, |there| there.all()).await {
            Ok(found) if found.is_empty() => Ok(()),
            Ok(found) => self.leader.note_found(LeaderEntry::ImportExtended { file, found }).await,
            Err(errno) => Err(errno),
        };
        match kept {
            Ok(()) | Err(Errno::EOPNOTSUPP) => {}
            Err(errno) => {
                tracing::warn!(%file, %errno, "the job's file lands without the extended attributes of theirs")
            }
        }
    }

    async fn copy_backing_resident(
        &self,
        file: FileId,
        directory: FileId,
        theirs: Held,
        base: &[(u64, u64)],
    ) -> Result<BackingId, Errno> {
        note_draft(self.leader, file, directory).await?;
        self.leader.make_durable().await?;
        let (to, number) = {
            let tree = self.leader.tree();
            (draft_path(&tree, file).ok_or(Errno::ESTALE)?, tree.draft_number(file))
        };
        let local = &self.leader.local;
        let begin = local.land_together(2, move |place, may_land| {
            Ok((may_land.call(|| theirs.open_to_read())?, may_land.call(|| place.draft(&to, number))?))
        });
        let (from, draft) = begin.await?;
        let copied = match draft.file().try_clone() {
            Ok(to) => self.copy(from, to, base).await,
            Err(error) => Err(Errno::of(&error)),
        };
        let draft = or_discard(self.leader, draft, copied).await?;
        keep(self.leader, draft).await
    }

    /// Copies ranges of a file, each an offset and a length.
    async fn copy(&self, mut from: File, mut to: File, ranges: &[(u64, u64)]) -> Result<(), Errno> {
        for (offset, len) in ranges {
            for start in (*offset..offset + len).step_by(COPY_BYTES as usize) {
                let bytes = (offset + len - start).min(COPY_BYTES);
                let cost = Cost { bytes, calls: 2 };
                let copy = self.leader.local.calls.write(By::Leader, cost, move |may_land| {
                    let mut part = vec![0; bytes as usize];
                    may_land.call(|| read_exactly(&from, start, &mut part))?;
                    may_land.call(|| to.write_all_at(&part, start).map_err(|error| Errno::of(&error)))?;
                    Ok((from, to))
                });
                (from, to) = copy.await?;
            }
        }
        Ok(())
    }

    /// Where `ours` is not at its place any more, the tree learns that.
    async fn note_if_gone(&self, place: &Place, ours: Option<BackingId>) -> Result<bool, Errno> {
        let Some(ours) = ours else { return Ok(false) };
        if self.is_at(place, &ours).await? {
            return Ok(false);
        }
        self.removed_externally(place).await.map(|()| true)
    }

    /// The tree's entry at a place is not there any more.
    ///
    /// # Errors
    /// The error that kept it from being recorded.
    pub async fn removed_externally(&self, place: &Place) -> Result<(), Errno> {
        let path = self.leader.path_of(place).map_or_else(|_| format!("{:?}", place.name), |path| path.to_string());
        tracing::warn!(
            path,
            "others have changed or removed what had landed here; it \
                                                            is left as it is"
        );
        self.leader.note_found(LeaderEntry::NotThere { place: place.clone() }).await
    }

    /// The tree's entry at a place gets another name there.
    ///
    /// # Errors
    /// The backing file system's error; EEXIST when too many names are taken.
    pub async fn set_aside(&self, place: &Place) -> Result<(), Errno> {
        let path = self.leader.path_of(place)?;
        let (directory, _) = path.split().ok_or(Errno::EINVAL)?;
        for number in 1..=NAMES_MAX {
            let name = second_name(&place.name, &self.leader.local.job, number)?;
            let second = directory.join_deep(name.as_bytes()).map_err(|_| Errno::ENAMETOOLONG)?;
            let at = second.clone();
            if found(self.leader.local.land(move |place| place.attributes(&at)).await)?.is_none() {
                tracing::warn!(%path, %second, "others have put something here; the job's file lands beside it");
                return self.leader.note_found(LeaderEntry::SetAside { place: place.clone(), name }).await;
            }
        }
        Err(Errno::EEXIST)
    }
}

/// A missing entry is no error.
fn found<T>(looked: Result<T, Errno>) -> Result<Option<T>, Errno> {
    match looked {
        Ok(found) => Ok(Some(found)),
        Err(Errno::ENOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// `NAME.forebay-JOB`, from the second on with a number.
fn second_name(name: &Name, job: &str, number: u32) -> Result<Name, Errno> {
    let mark = match number {
        1 => format!(".forebay-{job}"),
        number => format!(".forebay-{job}-{number}"),
    };
    let room = limits::NAME_BYTES_MAX.saturating_sub(mark.len());
    let name = &name.as_bytes()[..name.as_bytes().len().min(room)];
    Name::new(&[name, mark.as_bytes()].concat()).map_err(|_| Errno::ENAMETOOLONG)
}
