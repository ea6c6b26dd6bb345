//! The identities of the tree's files on the backing file system, by which they are known there again.

use std::collections::BTreeSet;
use std::ops::Range;

use forebay_types::{BackingId, FileId};
use serde::{Deserialize, Serialize};

use crate::versioned::Versioned;

/// The fate of a file of the backing file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Identified {
    /// It is as the tree has met or left it, or as the tier itself was changing it.
    Unmodified,
    /// Others have changed it.
    Changed,
    /// It is another file.
    Another,
}

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct BackedFiles {
    /// Files as they are there, or are about to be. Files that are gone from the tree stay until nothing of them is there.
    files: Versioned<FileId, BackingId>,
    /// The same by their inode numbers there.
    by_inode: Versioned<u64, FileId>,
    /// Files there that the tier is changing itself, or was when its daemon died.
    changing: BTreeSet<FileId>,
    /// How many names files have there that the tree does not know; never 0.
    names_elsewhere: Versioned<FileId, u32>,
}

impl BackedFiles {
    /// A file as it is there, if that is known.
    pub fn get(&self, file: FileId) -> Option<BackingId> {
        self.files.get(&file).copied()
    }

    /// A file by what is found there.
    pub fn find(&self, found: &BackingId) -> Option<FileId> {
        let file = *self.by_inode.get(&found.generation.ino)?;
        let is_it = |backed: BackingId| backed.is_same_file(found) && backed.kind == found.kind;
        self.get(file).is_some_and(is_it).then_some(file)
    }

    /// The fate of a file, by what is found at its place.
    pub fn identify(&self, file: FileId, found: &BackingId) -> Identified {
        match self.files.get(&file) {
            // Its former state is not known any more.
            None => Identified::Unmodified,
            Some(backed) if !backed.is_same_file(found) => Identified::Another,
            Some(backed) if backed.is_same_version(found) || self.changing.contains(&file) => Identified::Unmodified,
            Some(_) => Identified::Changed,
        }
    }

    /// The tier is about to change a file.
    pub fn change(&mut self, file: FileId) {
        self.changing.insert(file);
    }

    /// Whether the tier is changing a file.
    pub fn is_changing(&self, file: FileId) -> bool {
        self.changing.contains(&file)
    }

    /// Notes a file as it is there, or is about to be.
    pub fn insert(&mut self, file: FileId, backed: BackingId) {
        let is_same = self.get(file).is_some_and(|before| before.is_same_file(&backed));
        let names_elsewhere = if is_same { self.names_elsewhere(file) } else { 0 };
        self.remove(file);
        self.files.insert(file, backed);
        self.by_inode.insert(backed.generation.ino, file);
        self.set_names_elsewhere(file, names_elsewhere);
    }

    /// How many names a file has there that the tree does not know.
    pub fn names_elsewhere(&self, file: FileId) -> u32 {
        self.names_elsewhere.get(&file).copied().unwrap_or(0)
    }

    /// Notes that.
    pub fn set_names_elsewhere(&mut self, file: FileId, count: u32) {
        match count {
            0 => drop(self.names_elsewhere.remove(&file)),
            count => drop(self.names_elsewhere.insert(file, count)),
        }
    }

    /// Forgets a file of which nothing is there any more.
    pub fn remove(&mut self, file: FileId) {
        self.changing.remove(&file);
        self.names_elsewhere.remove(&file);
        let Some(backed) = self.files.remove(&file) else { return };
        let ino = backed.generation.ino;
        if self.by_inode.get(&ino) == Some(&file) {
            self.by_inode.remove(&ino);
        }
    }

    /// The contents of some parts (`Versioned::only`): the first one also has what is not in parts.
    pub fn parts(&self, parts: Range<usize>) -> Self {
        let changing = if parts.start == 0 { self.changing.clone() } else { BTreeSet::new() };
        Self {
            files: self.files.only(parts.clone()),
            by_inode: self.by_inode.only(parts.clone()),
            changing,
            names_elsewhere: self.names_elsewhere.only(parts),
        }
    }

    /// Adds what other parts than the first have.
    pub fn absorb(&mut self, other: Self) {
        self.files.absorb(other.files);
        self.by_inode.absorb(other.by_inode);
        self.names_elsewhere.absorb(other.names_elsewhere);
    }
}
