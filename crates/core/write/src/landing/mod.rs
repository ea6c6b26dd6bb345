//! In which order what happened in the tree happens on the backing file system.
//!
//! The backing file system follows the tree's history step by step, later: who looks at it sees the names as they were at some
//! moment of the tree, never a rename before the file that it renamed, and never half of a step. A file appears there with
//! its first publication, when its contents are whole; until then its name shows what was there before, or nothing. So each
//! step is looked at twice: what names mean by then (`names`), and what of it is there (`there`).
//!
//! Directories, links and whatever has no contents are made at once. A step that changes nothing there is over as soon as it
//! is its turn.

mod action;
mod backing_id;
mod changes;
mod elsewhere;
mod forgetting;
mod parts;
mod room;
mod step;
mod together;

use std::collections::{BTreeMap, BTreeSet};

use forebay_types::{BackingId, FileId, Kind, Name};
use forebay_wire::write::{BURST_ROOT, Place, RenameRule};
use serde::{Deserialize, Serialize};

pub use self::action::{Action, Removable};
use self::backing_id::BackedFiles;
pub use self::backing_id::Identified;
use self::changes::Changes;
pub use self::step::Step;
use crate::versioned::Versioned;

/// The steps that the backing file system has not followed yet, and what is there.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Landing {
    steps: Versioned<u64, Step>,
    /// The number of the first of them.
    first: u64,
    /// How many of them are about names in a directory.
    of_directory: BTreeMap<FileId, u32>,
    /// The names that files have by the first step.
    names: Versioned<FileId, Vec<Place>>,
    kinds: Versioned<FileId, Kind>,
    /// Files as they are there.
    backed: BackedFiles,
    /// The files on the backing file system by the first step.
    there: Versioned<Place, FileId>,
    /// The places of files without a name, until unpublished contents replace them.
    left: BTreeMap<FileId, Place>,
    /// In which directories files that are not published have drafts.
    drafts: BTreeMap<FileId, FileId>,
    /// The names on the backing file system of places that others have taken.
    aside: BTreeMap<Place, Name>,
    /// Of files that have names there which the tree does not know.
    changes: Changes,
}

impl Landing {
    /// Adds a file that was there before the job.
    pub fn import(&mut self, file: FileId, kind: Kind, place: &Place, backed: BackingId) {
        self.names.insert(file, vec![place.clone()]);
        self.kinds.insert(file, kind);
        self.backed.insert(file, backed);
        self.there.insert(place.clone(), file);
    }

    /// A file that was there before has this place too.
    pub fn import_link(&mut self, file: FileId, kind: Kind, place: &Place) {
        self.changes.give_name(file);
        if self.drafts.contains_key(&file) {
            self.push(Step::Discard { file });
        }
        self.backed.set_names_elsewhere(file, self.backed.names_elsewhere(file).saturating_sub(1));
        self.kinds.insert(file, kind);
        self.names.entry_or_default(&file).push(place.clone());
        self.there.insert(place.clone(), file);
    }

    /// Notes a file as it is there, or is about to be.
    pub fn set_backed(&mut self, file: FileId, backed: BackingId) {
        self.backed.insert(file, backed);
    }

    /// The tier is about to change a file that is there.
    pub fn change(&mut self, file: FileId) {
        self.backed.change(file);
    }

    /// The fate of a file that is there, by what is found at its place.
    #[must_use]
    pub fn identify(&self, file: FileId, found: &BackingId) -> Identified {
        self.backed.identify(file, found)
    }

    /// A file as it is there, if that is known.
    #[must_use]
    pub fn backed(&self, file: FileId) -> Option<BackingId> {
        self.backed.get(file)
    }

    /// Others have changed a file that is there: it is theirs, by all its names. The tree's contents are in logs, and in `draft`.
    pub fn copy_on_conflict(&mut self, file: FileId, draft: Option<BackingId>) {
        for place in self.places(file).cloned().collect::<Vec<_>>() {
            self.there.remove(&place);
            self.aside.remove(&place);
        }
        self.left.remove(&file);
        self.backed.remove(file);
        if let Some(draft) = draft {
            self.backed.insert(file, draft);
        }
    }

    /// Others have something at a place: what the tree has there has this name.
    pub fn set_aside(&mut self, place: &Place, name: &Name) {
        self.aside.insert(place.clone(), name.clone());
    }

    /// The name that a place has on the backing file system.
    #[must_use]
    pub fn name_at<'a>(&'a self, place: &'a Place) -> &'a Name {
        self.aside.get(place).unwrap_or(&place.name)
    }

    /// Places that have other names there.
    pub fn aside(&self) -> impl Iterator<Item = (&Place, &Name)> {
        self.aside.iter()
    }

    /// The entry of a place is not there any more. Returns its file, if that was its last place.
    pub fn not_there(&mut self, place: &Place) -> Option<FileId> {
        let file = self.there.remove(place)?;
        self.left.remove(&file);
        self.aside.remove(place);
        let is_gone = self.place(file).is_none();
        if is_gone {
            // A draft of it may be there still.
            if !self.drafts.contains_key(&file) {
                self.backed.remove(file);
            }
            self.directory_gone(file);
        }
        is_gone.then_some(file)
    }

    /// Something happened.
    pub fn push(&mut self, step: Step) {
        for directory in step.directories() {
            *self.of_directory.entry(directory).or_default() += 1;
        }
        let number = self.end();
        if let Some(file) = step.changed().filter(|file| self.backed.names_elsewhere(*file) > 0) {
            self.changes.note(file, number);
        }
        self.steps.insert(number, step);
    }

    /// The first step is over, or is left out.
    fn pop(&mut self) -> Option<Step> {
        let step = self.steps.remove(&self.first)?;
        self.changes.is_over(step.file(), self.first);
        self.first += 1;
        for directory in step.directories() {
            if let Some(count) = self.of_directory.get_mut(&directory) {
                *count -= 1;
            }
            if self.of_directory.get(&directory) == Some(&0) {
                self.of_directory.remove(&directory);
            }
        }
        Some(step)
    }

    /// Whether names in a directory are still to change there.
    #[must_use]
    pub fn has_steps_in(&self, directory: FileId) -> bool {
        self.of_directory.contains_key(&directory)
    }

    /// Skips that step: newer contents will land, or the file has been removed since.
    pub fn leave_out(&mut self, number: u64) {
        if number != self.first {
            return;
        }
        if let Some(Step::Name { file, kind, place }) = self.pop() {
            self.kinds.insert(file, kind);
            self.names.entry_or_default(&file).push(place);
        }
    }

    /// The file at a place of the backing file system by the first step.
    #[must_use]
    pub fn file_at(&self, place: &Place) -> Option<FileId> {
        self.there.get(place).copied()
    }

    /// Whether any of the steps is about this file.
    #[must_use]
    pub fn has_steps_of(&self, file: FileId) -> bool {
        self.steps.iter().any(|(_, step)| step.file() == file)
    }

    /// The files that steps are about.
    #[must_use]
    pub fn files_with_steps(&self) -> BTreeSet<FileId> {
        self.steps.iter().map(|(_, step)| step.file()).collect()
    }

    /// The number of the step that comes next.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.first + self.steps.len() as u64
    }

    /// Steps that are to be followed.
    #[must_use]
    pub fn steps_left(&self) -> usize {
        self.steps.len()
    }

    /// Where a file lies on the backing file system: its first place there; the root, which has none, lies at the mount.
    #[must_use]
    pub fn place(&self, file: FileId) -> Option<&Place> {
        self.places(file).next()
    }

    /// All its places there.
    pub fn places(&self, file: FileId) -> impl Iterator<Item = &Place> {
        let named = self.names.get(&file).into_iter().flatten().chain(self.left.get(&file));
        named.filter(move |place| self.there.get(*place) == Some(&file))
    }

    /// Whether a file lies at another place there, too.
    #[must_use]
    pub fn is_elsewhere(&self, file: FileId, place: &Place) -> bool {
        self.places(file).any(|other| other != place)
    }

    /// The directory of the backing file system that a file which is not there yet is for.
    #[must_use]
    pub fn directory_for(&self, file: FileId) -> FileId {
        let named = self.names.get(&file).and_then(|places| places.first()).map(|place| place.directory);
        named.filter(|directory| *directory == BURST_ROOT || self.place(*directory).is_some()).unwrap_or(BURST_ROOT)
    }

    /// A file has a draft in a directory.
    pub fn drafted(&mut self, file: FileId, directory: FileId) {
        // This gives steps something to do that the leader may have done with.
        let _ = self.turn();
        self.drafts.insert(file, directory);
    }

    /// The directory with a file's draft.
    #[must_use]
    pub fn draft_of(&self, file: FileId) -> Option<FileId> {
        self.drafts.get(&file).copied()
    }

    /// Files with drafts in the directory at a place: they go to the root's before it goes.
    pub fn drafts_at(&self, place: &Place) -> impl Iterator<Item = FileId> {
        let directory = self.there.get(place).copied();
        self.drafts.iter().filter(move |(_, within)| Some(**within) == directory).map(|(file, _)| *file)
    }

    /// The number of the step whose turn it is, and what is to be done for it; steps without anything to be done are over
    /// with this.
    pub fn turn(&mut self) -> Option<(u64, Action)> {
        while let Some(step) = self.steps.get(&self.first) {
            if let Some(action) = self.action(step) {
                return Some((self.first, action));
            }
            self.finish(self.first);
        }
        None
    }

    /// The step of that number has been followed. A number whose turn is over, or not yet there, changes nothing.
    pub fn finish(&mut self, number: u64) {
        if number != self.first {
            return;
        }
        let Some(step) = self.pop() else { return };
        match step {
            Step::Name { file, kind, place } => self.name(file, kind, place),
            Step::Unname { file, place } => {
                self.unname(file, &place);
                self.leave(&place);
            }
            Step::Move { file, from, to, replaced, rule } => {
                self.rename(file, from.clone(), to, replaced, rule);
                self.leave(&from);
            }
            Step::Publish { file, .. } => self.publish(file),
            Step::Attributes { .. } => {}
            Step::Discard { file } => {
                self.drafts.remove(&file);
                self.forget_if_nowhere(file);
            }
        }
    }

    /// Notes that a place is empty of the tree's files.
    fn leave(&mut self, place: &Place) {
        if !self.there.contains_key(place) {
            self.aside.remove(place);
        }
    }

    fn action(&self, step: &Step) -> Option<Action> {
        match step {
            Step::Name { file, kind: Kind::File, place } => {
                let from = self.place(*file)?.clone();
                Some(Action::Link { file: *file, from, to: place.clone() })
            }
            Step::Name { file, kind, place } => match self.place(*file) {
                Some(from) => Some(Action::Link { file: *file, from: from.clone(), to: place.clone() }),
                None => Some(Action::Make { file: *file, kind: *kind, place: place.clone() }),
            },
            Step::Unname { place, .. } => self.removal(place),
            Step::Move { file, from, to, rule, .. } => self.movement(*file, from, to, *rule),
            Step::Publish { file, version } => self.publication(*file, *version),
            Step::Attributes { file: BURST_ROOT } => Some(Action::SetAttributes { file: BURST_ROOT, place: None }),
            Step::Attributes { file } => {
                Some(Action::SetAttributes { file: *file, place: Some(self.place(*file)?.clone()) })
            }
            Step::Discard { file } => Some(Action::Discard { file: *file, directory: self.draft_of(*file)? }),
        }
    }

    fn removal(&self, place: &Place) -> Option<Action> {
        let file = self.there.get(place)?;
        let is_directory = self.kinds.get(file) == Some(&Kind::Directory);
        Some(Action::Remove { place: place.clone(), is_directory })
    }

    fn movement(&self, file: FileId, from: &Place, to: &Place, rule: RenameRule) -> Option<Action> {
        let is_there = self.there.get(from) == Some(&file);
        let rename = |from: &Place, to: &Place, is_exchange| {
            Some(Action::Rename { from: from.clone(), to: to.clone(), is_exchange })
        };
        match rule {
            RenameRule::Exchange if is_there && self.there.contains_key(to) => rename(from, to, true),
            // The other one is not there yet: only what is there moves.
            RenameRule::Exchange if self.there.contains_key(to) => rename(to, from, false),
            _ if is_there => rename(from, to, false),
            // It has not been published: what its old name shows is what it had replaced there, and goes with the name.
            _ => self.removal(from),
        }
    }

    fn publication(&self, file: FileId, version: u64) -> Option<Action> {
        let Some(places) = self.names.get(&file).filter(|places| !places.is_empty()) else {
            return self.publication_elsewhere(file, version);
        };
        match self.place(file) {
            Some(place) => Some(Action::Update { file, version, place: place.clone() }),
            None => Some(Action::Publish { file, version, places: places.clone() }),
        }
    }

    /// A file's contents appear under the names that the tree does not know, by its old name or by its draft, which is a name of it.
    fn publication_elsewhere(&self, file: FileId, version: u64) -> Option<Action> {
        if self.backed.names_elsewhere(file) == 0 {
            return None;
        }
        match self.place(file) {
            Some(place) => Some(Action::Update { file, version, place: place.clone() }),
            None => self.drafts.get(&file).map(|_| Action::UpdateUnnamed { file, version }),
        }
    }

    fn name(&mut self, file: FileId, kind: Kind, place: Place) {
        if kind != Kind::File || self.place(file).is_some() {
            self.there.insert(place.clone(), file);
        }
        self.kinds.insert(file, kind);
        self.names.entry_or_default(&file).push(place);
    }

    fn unname(&mut self, file: FileId, place: &Place) {
        if let Some(gone) = self.there.remove(place) {
            self.replaced(gone);
            self.directory_gone(gone);
        }
        self.forget_name(file, place);
    }

    /// Drafts that were in it are in the root.
    fn directory_gone(&mut self, directory: FileId) {
        for within in self.drafts.values_mut().filter(|within| **within == directory) {
            *within = BURST_ROOT;
        }
    }

    fn forget_name(&mut self, file: FileId, place: &Place) {
        let Some(places) = self.names.get_mut(&file) else { return };
        places.retain(|other| other != place);
        if places.is_empty() {
            self.names.remove(&file);
            self.kinds.remove(&file);
        }
        self.forget_if_nowhere(file);
    }

    /// Notes that the nameless rest of a file has been replaced.
    fn replaced(&mut self, file: FileId) {
        self.left.remove(&file);
        self.forget_if_nowhere(file);
    }

    fn forget_if_nowhere(&mut self, file: FileId) {
        if !self.names.contains_key(&file) && !self.left.contains_key(&file) && !self.drafts.contains_key(&file) {
            self.backed.remove(file);
        }
    }

    fn rename(&mut self, file: FileId, from: Place, to: Place, replaced: Option<FileId>, rule: RenameRule) {
        let is_there = self.there.get(&from) == Some(&file);
        if rule == RenameRule::Exchange {
            let (ours, theirs) = (self.there.remove(&from), self.there.remove(&to));
            for (file, old, new) in [(ours, &from, &to), (theirs, &to, &from)] {
                let Some(file) = file else { continue };
                self.there.insert(new.clone(), file);
                if let Some(left) = self.left.get_mut(&file).filter(|left| *left == old) {
                    *left = new.clone();
                }
            }
            if let Some(other) = replaced {
                self.rename_one(other, &to, &from);
            }
        } else {
            if let Some(gone) = self.there.remove(&from) {
                self.replaced(gone);
            }
            if is_there && let Some(gone) = self.there.insert(to.clone(), file) {
                self.replaced(gone);
            }
            if let Some(other) = replaced {
                if self.there.get(&to) == Some(&other) {
                    self.left.insert(other, to.clone());
                }
                self.forget_name(other, &to);
                self.directory_gone(other);
            }
        }
        self.rename_one(file, &from, &to);
    }

    fn rename_one(&mut self, file: FileId, from: &Place, to: &Place) {
        let places = self.names.entry_or_default(&file);
        if let Some(place) = places.iter_mut().find(|place| *place == from) {
            *place = to.clone();
        }
    }

    fn publish(&mut self, file: FileId) {
        // Without a name nothing was published.
        let Some(places) = self.names.get(&file) else { return };
        // A file that was there has been changed there. Its draft, if any, is to be discarded.
        if self.place(file).is_none() {
            self.drafts.remove(&file);
        }
        for place in places.clone() {
            if let Some(replaced) = self.there.insert(place, file) {
                self.replaced(replaced);
            }
        }
    }
}
