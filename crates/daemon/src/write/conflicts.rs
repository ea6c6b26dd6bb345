//! What others have done on the backing file system to places that the tree is about to change.
//!
//! Nothing of theirs is written over or removed. Where they have something at a name that the tree brings, the tree's file lands beside
//! it; where they have taken away what the tree had landed, what was to be done to it is over. Directories that they have taken
//! away are made again for what lands in them.

use forebay_types::{Errno, FileId, Generation, Name, ViewPath, limits};
use forebay_wire::write::{Operation, Place};
use forebay_write::Action;

use super::owner::Owner;

/// Second names that are tried.
const NAMES_MAX: u32 = 1000;

/// See the module.
#[derive(Clone, Copy)]
pub struct Conflicts<'a> {
    pub owner: &'a Owner,
}

/// What is at a place of the backing file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Occupant {
    /// Nothing.
    Nobody,
    /// What the tree has there, or the file that it brings.
    Tree,
    /// What somebody else has put there.
    Stranger,
}

impl Conflicts<'_> {
    /// Looks at what an action is about. Whether it is another action now.
    ///
    /// # Errors
    /// What the backing file system says.
    pub fn make_way(&self, action: &Action) -> Result<bool, Errno> {
        let backed = |file| self.owner.tree().backed(file);
        match action {
            Action::Publish { file, places, .. } => {
                for place in places {
                    if self.is_taken(place, backed(*file))? {
                        return self.set_aside(place).map(|()| true);
                    }
                }
                Ok(false)
            }
            Action::Update { file, place, .. } => self.note_if_gone(place, backed(*file)),
            Action::Remove { place, .. } => {
                let ours = self.owner.tree().backed_at(place);
                if self.at(place)?.is_none() { Ok(false) } else { self.note_if_gone(place, ours) }
            }
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
            _ => Ok(false),
        }
    }

    fn make_way_to_exchange(&self, one: &Place, other: &Place) -> Result<bool, Errno> {
        let [first, second] = [one, other].map(|place| self.owner.tree().backed_at(place));
        let is_done = match first {
            Some(first) => self.at(other)? == Some(first.ino),
            None => false,
        };
        Ok(!is_done && (self.note_if_gone(one, first)? || self.note_if_gone(other, second)?))
    }

    fn make_way_between(&self, from: &Place, to: &Place, ours: Option<Generation>) -> Result<bool, Errno> {
        let Some(ours) = ours else {
            // What it was is not known any more.
            return if self.at(from)?.is_none() && self.at(to)?.is_none() {
                self.gone(from).map(|()| true)
            } else {
                Ok(false)
            };
        };
        if self.at(to)? == Some(ours.ino) {
            return Ok(false);
        }
        if self.note_if_gone(from, Some(ours))? {
            return Ok(true);
        }
        if self.is_taken(to, Some(ours))? {
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
                let at = places.iter().map(|place| self.at(place)).collect::<Result<Vec<_>, _>>()?;
                Ok(at.contains(&Some(own.ino)))
            }
            // Which it is nobody knows any more; one of another kind is not it.
            Action::Make { kind, place, .. } => {
                let found = found(self.owner.local.place.attributes(&self.owner.path_of(place)?))?;
                Ok(found.is_some_and(|found| found.kind() == *kind))
            }
            _ => Ok(false),
        }
    }

    /// Makes directories again that lead to where an action happens. Whether any was missing.
    ///
    /// # Errors
    /// What the backing file system says.
    pub fn remake_directories(&self, action: &Action) -> Result<bool, Errno> {
        let places: Vec<&Place> = match action {
            Action::Make { place, .. } | Action::Update { place, .. } => vec![place],
            Action::Publish { places, .. } => places.iter().collect(),
            Action::Link { from, to, .. } | Action::Rename { from, to, .. } => vec![from, to],
            Action::Remove { .. } | Action::SetAttributes { .. } | Action::Discard { .. } => return Ok(false),
        };
        places.into_iter().try_fold(false, |any, place| Ok(self.remake(place.directory)? | any))
    }

    fn remake(&self, directory: FileId) -> Result<bool, Errno> {
        // Out of the lock, which the lookups below take.
        let above = self.owner.tree().backing_place(directory).map(|place| place.directory);
        let Some(above) = above else { return Ok(false) };
        let is_below_new = self.remake(above)?;
        let path: ViewPath = self.owner.backing_path(directory).ok_or(Errno::ENOENT)?;
        if found(self.owner.local.place.attributes(&path))?.is_some() {
            return Ok(is_below_new);
        }
        tracing::warn!(%path, "others have removed this directory; it is made again, because files land in it");
        self.owner.local.place.make_directory(&path)?;
        let made = self.owner.local.place.hold(&path)?;
        if let Some(attributes) = self.owner.landed_attributes(directory) {
            made.set_attributes(&attributes)?;
        }
        let generation = made.attributes().generation();
        self.owner.carry_out_own(Operation::Publishing { file: directory, generation })?;
        Ok(true)
    }

    /// The inode at a place, if any.
    fn at(&self, place: &Place) -> Result<Option<u64>, Errno> {
        found(self.owner.local.place.attributes(&self.owner.path_of(place)?).map(|found| found.ino))
    }

    fn is_taken(&self, place: &Place, own: Option<Generation>) -> Result<bool, Errno> {
        Ok(self.occupant(place, own)? == Occupant::Stranger)
    }

    /// What is at a place; `own` is what the tree brings there.
    ///
    /// # Errors
    /// As `make_way`.
    pub fn occupant(&self, place: &Place, own: Option<Generation>) -> Result<Occupant, Errno> {
        let Some(found) = self.at(place)? else { return Ok(Occupant::Nobody) };
        let tree = self.owner.tree();
        Ok(match (tree.is_something_at(place), tree.backed_at(place)) {
            _ if own.is_some_and(|own| own.ino == found) => Occupant::Tree,
            // What it was is not known any more.
            (true, None) => Occupant::Tree,
            (_, Some(there)) if there.ino == found => Occupant::Tree,
            _ => Occupant::Stranger,
        })
    }

    /// Where `ours` is not at its place any more, the tree learns that.
    fn note_if_gone(&self, place: &Place, ours: Option<Generation>) -> Result<bool, Errno> {
        let Some(ours) = ours else { return Ok(false) };
        if self.at(place)? == Some(ours.ino) {
            return Ok(false);
        }
        self.gone(place).map(|()| true)
    }

    /// What the tree had at a place is not there any more.
    ///
    /// # Errors
    /// What keeps it from being written down.
    pub fn gone(&self, place: &Place) -> Result<(), Errno> {
        tracing::warn!(path = %self.owner.path_of(place)?, "others have changed or removed what had landed here; it \
                                                            is left as it is");
        self.owner.carry_out_own(Operation::Gone { place: place.clone() }).map(drop)
    }

    /// What the tree has at a place gets another name there.
    ///
    /// # Errors
    /// What the backing file system says; EEXIST when too many names are taken.
    pub fn set_aside(&self, place: &Place) -> Result<(), Errno> {
        let path = self.owner.path_of(place)?;
        let (directory, _) = path.split().ok_or(Errno::EINVAL)?;
        for number in 1..=NAMES_MAX {
            let name = second_name(&place.name, &self.owner.local.job, number)?;
            let second = directory.join_deep(name.as_bytes()).map_err(|_| Errno::ENAMETOOLONG)?;
            if found(self.owner.local.place.attributes(&second))?.is_none() {
                tracing::warn!(%path, %second, "others have put something here; the job's file lands beside it");
                return self.owner.carry_out_own(Operation::SetAside { place: place.clone(), name }).map(drop);
            }
        }
        Err(Errno::EEXIST)
    }
}

/// Nothing there is no error.
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
