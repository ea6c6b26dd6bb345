//! What files are on the backing file system, by which they are known there again.

use forebay_types::{Backed, FileId, Kind};
use forebay_wire::write::Place;

use super::{Landing, Recognised};

impl Landing {
    /// What was there before the job.
    pub fn adopt(&mut self, file: FileId, kind: Kind, place: &Place, backed: Backed) {
        self.names.insert(file, vec![place.clone()]);
        self.kinds.insert(file, kind);
        self.insert_backed(file, backed);
        self.there.insert(place.clone(), file);
    }

    /// A file that is there, and has names in the tree, by what is found at another place.
    #[must_use]
    pub fn found_as(&self, found: &Backed) -> Option<FileId> {
        let file = *self.by_inode.get(&found.generation.ino)?;
        let is_it =
            self.backed.get(&file).is_some_and(|backed| backed.is_same_file(found) && backed.kind == found.kind);
        (is_it && self.place(file).is_some() && self.names.contains_key(&file)).then_some(file)
    }

    /// A file that was there before has this place too.
    pub fn adopt_link(&mut self, file: FileId, place: &Place) {
        self.names.entry_or_default(&file).push(place.clone());
        self.there.insert(place.clone(), file);
    }

    /// What a file is there, or is about to be.
    pub fn set_backed(&mut self, file: FileId, backed: Backed) {
        self.changing.remove(&file);
        self.insert_backed(file, backed);
    }

    /// The tier is about to change a file that is there.
    pub fn change(&mut self, file: FileId) {
        self.changing.insert(file);
    }

    /// What became of a file that is there, by what is found at its place.
    #[must_use]
    pub fn recognise(&self, file: FileId, found: &Backed) -> Recognised {
        match self.backed.get(&file) {
            // What it was is not known any more.
            None => Recognised::AsLeft,
            Some(backed) if !backed.is_same_file(found) => Recognised::Another,
            Some(backed) if backed.is_same_version(found) || self.changing.contains(&file) => Recognised::AsLeft,
            Some(_) => Recognised::Changed,
        }
    }

    /// What a file is there, as far as it is known.
    #[must_use]
    pub fn backed(&self, file: FileId) -> Option<Backed> {
        self.backed.get(&file).copied()
    }

    pub(super) fn insert_backed(&mut self, file: FileId, backed: Backed) {
        if let Some(before) = self.backed.insert(file, backed) {
            self.forget_inode(file, before.generation.ino);
        }
        self.by_inode.insert(backed.generation.ino, file);
    }

    pub(super) fn forget_backed(&mut self, file: FileId) {
        if let Some(backed) = self.backed.remove(&file) {
            self.forget_inode(file, backed.generation.ino);
        }
        self.changing.remove(&file);
    }

    fn forget_inode(&mut self, file: FileId, ino: u64) {
        if self.by_inode.get(&ino) == Some(&file) {
            self.by_inode.remove(&ino);
        }
    }
}
