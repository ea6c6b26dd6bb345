//! The files of a tree, and which of them are more than what the backing file system has.
//!
//! Most files of a large tree are only looked at. The next step is asked for often, and must not take longer for more files of that kind.
//! So the others are known by name.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use forebay_types::FileId;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::nodes::{Node, OwnExtended};
use crate::versioned::Versioned;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Table {
    files: Versioned<FileId, Node>,
    /// Those for which `Node::is_active` holds, but for what `changed` says.
    active: BTreeSet<FileId>,
    /// Bytes of the extended attributes of those that have some, but for what `changed` says, and of all together.
    extended: BTreeMap<FileId, u64>,
    extended_bytes: u64,
    /// Given to be changed since `settle`.
    changed: Vec<FileId>,
    /// Those of them that were as they were met.
    was_as_met: Vec<FileId>,
}

impl Table {
    pub fn len(&self) -> usize {
        self.files.len()
    }

    pub fn get(&self, file: &FileId) -> Option<&Node> {
        self.files.get(file)
    }

    pub fn contains_key(&self, file: &FileId) -> bool {
        self.files.contains_key(file)
    }

    /// A file that is about to be changed is not as the backing file system had it any more.
    pub fn get_mut(&mut self, file: &FileId) -> Option<&mut Node> {
        let node = self.files.get_mut(file)?;
        self.changed.push(*file);
        if std::mem::take(&mut node.is_as_met) {
            self.was_as_met.push(*file);
        }
        Some(node)
    }

    /// The same for a caller that only notes that it is open, or is not.
    pub fn of_opener(&mut self, file: &FileId) -> Option<&mut Node> {
        let node = self.files.get_mut(file)?;
        self.changed.push(*file);
        Some(node)
    }

    pub fn insert(&mut self, file: FileId, node: Node) {
        self.changed.push(file);
        self.files.insert(file, node);
    }

    pub fn remove(&mut self, file: &FileId) -> Option<Node> {
        self.active.remove(file);
        self.extended_bytes -= self.extended.remove(file).unwrap_or(0);
        self.files.remove(file)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&FileId, &Node)> {
        self.files.iter()
    }

    /// Those that programs have open, that have changed, or that have bytes in logs.
    pub fn active(&self) -> impl Iterator<Item = (&FileId, &Node)> {
        let mut changed: Vec<&FileId> = self.changed.iter().filter(|file| !self.active.contains(file)).collect();
        changed.sort_unstable();
        changed.dedup();
        let all = self.active.iter().chain(changed);
        all.filter_map(|file| Some((file, self.files.get(file)?))).filter(|(_, node)| node.is_active())
    }

    /// An operation is over. If it was refused, the tree is unchanged: its followers have not heard of it.
    pub fn settle(&mut self, is_refused: bool) {
        for file in std::mem::take(&mut self.was_as_met) {
            if let Some(node) = self.files.get_mut(&file) {
                node.is_as_met |= is_refused;
            }
        }
        for file in std::mem::take(&mut self.changed) {
            match self.files.get(&file).is_some_and(Node::is_active) {
                true => self.active.insert(file),
                false => self.active.remove(&file),
            };
            self.recount_extended(file);
        }
    }

    /// Bytes of the extended attributes of all files together, before the operation that is under way.
    pub fn extended_bytes(&self) -> u64 {
        self.extended_bytes
    }

    fn recount_extended(&mut self, file: FileId) {
        let bytes = self.files.get(&file).and_then(|node| node.extended.as_deref()).map_or(0, bytes_of);
        let before = if bytes > 0 { self.extended.insert(file, bytes) } else { self.extended.remove(&file) };
        self.extended_bytes = self.extended_bytes - before.unwrap_or(0) + bytes;
    }

    /// How many files a part has.
    pub fn len_of(&self, part: usize) -> usize {
        self.files.len_of(part)
    }

    /// The files of some parts, shared (`Versioned::only`).
    pub fn only(&self, parts: Range<usize>) -> Self {
        Self::of(self.files.only(parts))
    }

    /// Adds the files of another one.
    pub fn absorb(&mut self, other: Self) {
        self.active.extend(other.active);
        self.extended.extend(other.extended);
        self.extended_bytes += other.extended_bytes;
        self.changed.extend(other.changed);
        self.files.absorb(other.files);
    }

    fn of(files: Versioned<FileId, Node>) -> Self {
        let active = files.iter().filter(|(_, node)| node.is_active()).map(|(file, _)| *file).collect();
        let of_one = |(file, node): (&FileId, &Node)| Some((*file, bytes_of(node.extended.as_deref()?)));
        let extended: BTreeMap<FileId, u64> = files.iter().filter_map(of_one).filter(|(_, bytes)| *bytes > 0).collect();
        let extended_bytes = extended.values().sum();
        Self { files, active, extended, extended_bytes, changed: vec![], was_as_met: vec![] }
    }
}

fn bytes_of(extended: &OwnExtended) -> u64 {
    extended.attributes.bytes() as u64
}

impl PartialEq for Table {
    fn eq(&self, other: &Self) -> bool {
        self.files == other.files
    }
}

impl Eq for Table {}

impl Serialize for Table {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.files.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Table {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Versioned::deserialize(deserializer).map(Self::of)
    }
}
