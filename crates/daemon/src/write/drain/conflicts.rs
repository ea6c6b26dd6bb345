//! Changes by others on the backing file system to places that the tree is about to change.
//!
//! No file of theirs is written over or removed. Where they have something at a name that the tree brings, or have changed what the
//! tree is about to change, the tree's file lands beside it; where they have taken away what the tree had landed, what was to be done
//! to it is over. Directories that they have taken away are made again for what lands in them.

use std::fs::File;
use std::os::unix::fs::FileExt;

use forebay_store::{Draft, Held};
use forebay_types::{Backed, Errno, FileId, Name, ViewPath, limits};
use forebay_wire::journal::LeaderEntry;
use forebay_wire::write::Place;
use forebay_write::{Action, Recognised};

use super::drafts::note_draft;
use super::rights;
use crate::write::calls::BackingCalls;
use crate::write::contents::read_exactly;
use crate::write::tree::owner::Owner;
use crate::write::tree::paths::{draft_path, landed_attributes};

/// Second names that are tried.
const NAMES_MAX: u32 = 1000;

/// Bytes that are copied at a time.
const COPY_BYTES: u64 = 4 << 20;

/// See the module.
#[derive(Clone, Copy)]
pub struct Conflicts<'a> {
    pub owner: &'a Owner,
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
    pub fn make_way(&self, action: &Action) -> Result<bool, Errno> {
        let backed = |file| self.owner.tree().backed(file);
        match action {
            Action::Publish { file, places, .. } => {
                for place in places {
                    if self.is_taken(place, Some(*file))? {
                        return self.set_aside(place).map(|()| true);
                    }
                }
                Ok(false)
            }
            Action::Update { file, place, .. } => self.make_way_to_update(*file, place),
            Action::Remove { place, .. } => self.make_way_to_remove(place),
            Action::Link { file, from, to } => self.make_way_between(from, to, backed(*file)),
            Action::Rename { from, to, is_exchange: false } => {
                let (ours, file) = {
                    let tree = self.owner.tree();
                    (tree.backed_at(from), tree.directory_at(from))
                };
                // A directory moves with all that is still to land in it.
                let is_missing = file.is_some() && self.at(from)?.is_none() && self.at(to)?.is_none();
                match file.filter(|_| is_missing) {
                    Some(directory) => self.remake(directory),
                    None => self.make_way_between(from, to, ours),
                }
            }
            Action::Rename { from, to, is_exchange: true } => self.make_way_to_exchange(from, to),
            Action::SetAttributes { file, place: Some(place) } => self.make_way_to_set(*file, place),
            _ => Ok(false),
        }
    }

    fn make_way_to_exchange(&self, one: &Place, other: &Place) -> Result<bool, Errno> {
        let [first, second] = [one, other].map(|place| self.owner.tree().backed_at(place));
        let is_done = match first {
            Some(first) => self.is_at(other, &first)?,
            None => false,
        };
        Ok(!is_done && (self.note_if_gone(one, first)? || self.note_if_gone(other, second)?))
    }

    fn make_way_between(&self, from: &Place, to: &Place, ours: Option<Backed>) -> Result<bool, Errno> {
        let Some(ours) = ours else {
            // The backing identity of the tree's file is not known any more.
            return if self.at(from)?.is_none() && self.at(to)?.is_none() {
                self.gone(from).map(|()| true)
            } else {
                Ok(false)
            };
        };
        if self.is_at(to, &ours)? {
            return Ok(false);
        }
        if self.note_if_gone(from, Some(ours))? {
            return Ok(true);
        }
        if self.is_taken(to, None)? {
            return self.set_aside(to).map(|()| true);
        }
        Ok(false)
    }

    /// Whether what an action brings is there: the daemon before this one may have done it.
    ///
    /// # Errors
    /// As `make_way`.
    pub fn is_there(&self, action: &Action) -> Result<bool, Errno> {
        match action {
            Action::Publish { file, places, .. } => {
                let Some(own) = self.owner.tree().backed(*file) else { return Ok(false) };
                let is_at = places.iter().map(|place| self.is_at(place, &own)).collect::<Result<Vec<_>, _>>()?;
                Ok(is_at.contains(&true))
            }
            // Which it is nobody knows any more; one of another kind is not it.
            Action::Make { kind, place, .. } => Ok(self.at(place)?.is_some_and(|found| found.kind == *kind)),
            _ => Ok(false),
        }
    }

    /// Makes directories again that lead to where an action happens. Whether any was missing.
    ///
    /// # Errors
    /// The backing file system's error.
    pub fn remake_directories(&self, action: &Action) -> Result<bool, Errno> {
        let places: Vec<&Place> = match action {
            Action::Make { place, .. } | Action::Update { place, .. } => vec![place],
            Action::Publish { places, .. } => places.iter().collect(),
            Action::Link { from, to, .. } | Action::Rename { from, to, .. } => vec![from, to],
            Action::Remove { .. }
            | Action::UpdateUnnamed { .. }
            | Action::SetAttributes { .. }
            | Action::Discard { .. } => return Ok(false),
        };
        places.into_iter().try_fold(false, |any, place| Ok(self.remake(place.directory)? | any))
    }

    fn remake(&self, directory: FileId) -> Result<bool, Errno> {
        // Out of the lock, which the lookups below take.
        let above = self.owner.tree().backing_place(directory).map(|place| place.directory);
        let Some(above) = above else { return Ok(false) };
        let is_below_new = self.remake(above)?;
        let path: ViewPath = self.owner.backing_path(directory).ok_or(Errno::ENOENT)?;
        let (at, calls) = (&self.owner.local.place, &self.owner.local.calls);
        if found(calls.land(|| at.attributes(&path)))?.is_some() {
            return Ok(is_below_new);
        }
        tracing::warn!(%path, "others have removed this directory; it is made again, because files land in it");
        calls.land(|| at.make_directory(&path))?;
        let made = calls.land(|| at.hold(&path))?;
        let (attributes, extended) = {
            let tree = self.owner.tree();
            (landed_attributes(&tree, directory), tree.extended(directory).ok().flatten().cloned())
        };
        if let Some(extended) = extended {
            calls.land(|| made.set_extended(&extended, None))?;
        }
        if let Some(attributes) = attributes {
            rights::give_all(self.owner, &made, &attributes, &path)?;
        }
        self.owner.note(&LeaderEntry::Publishing { file: directory, backed: made.backed() })?;
        Ok(true)
    }

    /// The entry at a place, if any.
    fn at(&self, place: &Place) -> Result<Option<Backed>, Errno> {
        // A place in a missing directory is empty.
        let Some(path) = found(self.owner.path_of(place))? else { return Ok(None) };
        found(self.owner.local.calls.land(|| self.owner.local.place.backed(&path)))
    }

    /// Whether this file is at a place, whatever is in it.
    fn is_at(&self, place: &Place, ours: &Backed) -> Result<bool, Errno> {
        Ok(self.at(place)?.is_some_and(|found| found.is_same_file(ours)))
    }

    fn is_taken(&self, place: &Place, own: Option<FileId>) -> Result<bool, Errno> {
        Ok(self.occupant(place, own)? == Occupant::Stranger)
    }

    /// The occupant of a place; `own` is the file that the tree brings there.
    ///
    /// # Errors
    /// As `make_way`.
    pub fn occupant(&self, place: &Place, own: Option<FileId>) -> Result<Occupant, Errno> {
        let Some(found) = self.at(place)? else { return Ok(Occupant::Nobody) };
        let tree = self.owner.tree();
        let own = own.filter(|own| tree.backed(*own).is_some());
        let is_as_left = |file| tree.recognise(file, &found) == Recognised::AsLeft;
        let is_tree = own.into_iter().chain(tree.file_at(place)).any(is_as_left);
        Ok(if is_tree { Occupant::Tree } else { Occupant::Stranger })
    }

    /// A file that is there is about to be changed there: it has become theirs where others have changed it, and gone where it is
    /// another now. Whether it was.
    ///
    /// # Errors
    /// As `make_way`.
    pub fn make_way_to_update(&self, file: FileId, place: &Place) -> Result<bool, Errno> {
        let Some(found) = self.at(place)? else { return self.gone(place).map(|()| true) };
        let (recognised, base) = {
            let tree = self.owner.tree();
            (tree.recognise(file, &found), tree.base_of(file))
        };
        // Bytes that they have cut off are nowhere.
        let is_whole = base.iter().all(|(offset, len)| offset + len <= found.generation.size_bytes);
        match recognised {
            Recognised::AsLeft => Ok(false),
            Recognised::Changed if is_whole => self.fork(file, place, &base).map(|()| true),
            Recognised::Changed | Recognised::Another => self.gone(place).map(|()| true),
        }
    }

    /// A file of which others have taken one name away is found by the others.
    fn make_way_to_set(&self, file: FileId, place: &Place) -> Result<bool, Errno> {
        let (has_others, ours) = {
            let tree = self.owner.tree();
            (tree.is_elsewhere(file, place), tree.backed(file))
        };
        if has_others { self.note_if_gone(place, ours) } else { Ok(false) }
    }

    fn make_way_to_remove(&self, place: &Place) -> Result<bool, Errno> {
        let (Some(found), Some(file)) = (self.at(place)?, self.owner.tree().file_at(place)) else { return Ok(false) };
        let recognised = self.owner.tree().recognise(file, &found);
        match recognised {
            Recognised::AsLeft => Ok(false),
            Recognised::Changed | Recognised::Another => self.gone(place).map(|()| true),
        }
    }

    /// Others have changed a file in place: it stays as it is. Bytes of the tree's file that only it has are copied to a draft, so
    /// that the whole file lands beside it.
    fn fork(&self, file: FileId, place: &Place, base: &[(u64, u64)]) -> Result<(), Errno> {
        let path = self.owner.path_of(place)?;
        let bytes = base.iter().map(|(_, len)| len).sum();
        tracing::warn!(%path, bytes, "others have changed this file, which is left as it is; the job's file lands beside it, and \
                                      has these bytes, which the job did not write, as they are now");
        self.keep_extended(file);
        let theirs = self.owner.hold(file, &path)?;
        let rights = rights::of_copy(self.owner, file, theirs.attributes());
        let draft = if base.is_empty() { None } else { Some(self.copy_base(file, place.directory, &theirs, base)?) };
        self.owner.note(&LeaderEntry::Forked { file, draft, bytes, rights })
    }

    /// Adopts the extended attributes of theirs, which are the job's too.
    fn keep_extended(&self, file: FileId) {
        let is_known = self.owner.tree().extended(file).is_ok_and(|own| own.is_some());
        if is_known {
            return;
        }
        let kept = self.owner.look_there(file, |there| there.all()).and_then(|found| match found.is_empty() {
            true => Ok(()),
            false => self.owner.note(&LeaderEntry::AdoptExtended { file, found }),
        });
        match kept {
            Ok(()) | Err(Errno::EOPNOTSUPP) => {}
            Err(errno) => {
                tracing::warn!(%file, %errno, "the job's file lands without the extended attributes of theirs")
            }
        }
    }

    fn copy_base(&self, file: FileId, directory: FileId, theirs: &Held, base: &[(u64, u64)]) -> Result<Backed, Errno> {
        note_draft(self.owner, file, directory)?;
        self.owner.make_durable()?;
        let (at, calls) = (&self.owner.local.place, &self.owner.local.calls);
        let from = calls.land(|| theirs.open_to_read())?;
        let (to, number) = {
            let tree = self.owner.tree();
            (draft_path(&tree, file).ok_or(Errno::ESTALE)?, tree.draft_number(file))
        };
        let draft = calls.land(|| at.draft(&to, number))?;
        for (offset, len) in base {
            copy(calls, &from, draft.file(), *offset, *len)?;
        }
        let backed = calls.land(|| at.backed_draft(&draft))?;
        calls.land(|| Draft::keep(draft))?;
        Ok(backed)
    }

    /// Where `ours` is not at its place any more, the tree learns that.
    fn note_if_gone(&self, place: &Place, ours: Option<Backed>) -> Result<bool, Errno> {
        let Some(ours) = ours else { return Ok(false) };
        if self.is_at(place, &ours)? {
            return Ok(false);
        }
        self.gone(place).map(|()| true)
    }

    /// The tree's entry at a place is not there any more.
    ///
    /// # Errors
    /// The error that kept it from being recorded.
    pub fn gone(&self, place: &Place) -> Result<(), Errno> {
        let path = self.owner.path_of(place).map_or_else(|_| format!("{:?}", place.name), |path| path.to_string());
        tracing::warn!(
            path,
            "others have changed or removed what had landed here; it \
                                                            is left as it is"
        );
        self.owner.note(&LeaderEntry::Gone { place: place.clone() })
    }

    /// The tree's entry at a place gets another name there.
    ///
    /// # Errors
    /// The backing file system's error; EEXIST when too many names are taken.
    pub fn set_aside(&self, place: &Place) -> Result<(), Errno> {
        let path = self.owner.path_of(place)?;
        let (directory, _) = path.split().ok_or(Errno::EINVAL)?;
        for number in 1..=NAMES_MAX {
            let name = second_name(&place.name, &self.owner.local.job, number)?;
            let second = directory.join_deep(name.as_bytes()).map_err(|_| Errno::ENAMETOOLONG)?;
            if found(self.owner.local.calls.land(|| self.owner.local.place.attributes(&second)))?.is_none() {
                tracing::warn!(%path, %second, "others have put something here; the job's file lands beside it");
                return self.owner.note(&LeaderEntry::SetAside { place: place.clone(), name });
            }
        }
        Err(Errno::EEXIST)
    }
}

/// Copies a range of a file to the same place of another, as other landing: at its rate, and not beyond the end.
fn copy(calls: &BackingCalls, from: &File, to: &File, offset: u64, len: u64) -> Result<(), Errno> {
    let mut bytes = vec![0; len.min(COPY_BYTES) as usize];
    for start in (offset..offset + len).step_by(COPY_BYTES as usize) {
        let part = &mut bytes[..(offset + len - start).min(COPY_BYTES) as usize];
        calls.land(|| read_exactly(from, start, part))?;
        calls.write(part.len() as u64, || to.write_all_at(part, start).map_err(|error| Errno::of(&error)))?;
    }
    Ok(())
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
