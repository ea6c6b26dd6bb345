//! The state that operations change, and the steps that they share.

use std::collections::{BTreeMap, BTreeSet};

use forebay_types::{Attributes, Errno, FileId, Kind, LogPosition, NodeRank};
use forebay_wire::write::{BURST_ROOT, Caller, FileState, Place, WrittenExtent};
use serde::{Deserialize, Serialize};

use super::nodes::{self, Contents, Directory, Node};
use super::permissions;
use super::removed::Removed;
use super::table::Table;
use crate::extents::Extents;
use crate::landing::{Landing, Step};
use crate::locks::Locks;
use crate::results::Results;

/// All that is below one burst mount.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Tree {
    pub(super) nodes: Table,
    pub(super) results: Results,
    pub(super) landing: Landing,
    pub(super) locks: Locks,
    pub(super) removed: Removed,
    /// Nodes that do not answer.
    pub(super) lost: BTreeSet<NodeRank>,
    /// The record of each node's log that its last commit was about, appends aside.
    pub(super) last_committed: BTreeMap<NodeRank, LogPosition>,
    /// Tells it from other trees.
    pub(super) number: u64,
}

/// Why an operation was not carried out. The tree is unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The error for the program.
    Errno(Errno),
    /// The directory's entries on the backing file system are to be imported first.
    Unlisted(FileId),
    /// The file's extended attributes on the backing file system are to be imported first.
    Unread(FileId),
}

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

/// Extents and files that have become unreachable.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Released {
    /// Ranges of records.
    pub extents: Vec<WrittenExtent>,
    /// Files that are gone.
    pub files: Vec<FileId>,
}

impl Tree {
    /// A tree with nothing in it but the root, which looks like `root`. With `is_backed` the root is a directory of the
    /// backing file system, whose entries are to be imported. `number` is random.
    #[must_use]
    pub fn new(root: Attributes, is_backed: bool, number: u64) -> Self {
        let directory = Directory::new(is_backed);
        let attributes = Attributes { ino: nodes::inode_number(BURST_ROOT), nlink: 2, ..root };
        let mut nodes = Table::default();
        nodes.insert(BURST_ROOT, Node::new(attributes, Contents::Directory(directory), BURST_ROOT));
        Self {
            nodes,
            results: Results::default(),
            landing: Landing::default(),
            locks: Locks::default(),
            removed: Removed::default(),
            lost: BTreeSet::new(),
            last_committed: BTreeMap::new(),
            number,
        }
    }

    /// Tells this tree, its drafts and the stores of its nodes from others.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// A file as it is now.
    ///
    /// # Errors
    /// ESTALE when there is none.
    pub fn state(&self, file: FileId) -> Result<FileState, Errno> {
        let node = self.node(file)?;
        Ok(FileState { file, attributes: node.attributes, version: node.version })
    }

    /// A file as programs see it: as it is now, or as the directory was that has been removed.
    ///
    /// # Errors
    /// ESTALE when there is none.
    pub fn seen(&self, file: FileId) -> Result<FileState, Errno> {
        let removed = || self.removed.get(file).map(|(state, _)| *state);
        self.state(file).or_else(|errno| removed().ok_or(errno))
    }

    /// The directory that holds a directory, or held it until it was removed; the root holds itself.
    ///
    /// # Errors
    /// ENOTDIR, ESTALE.
    pub fn parent(&self, directory: FileId) -> Result<FileId, Errno> {
        if let Some((_, parent)) = self.removed.get(directory) {
            return Ok(*parent);
        }
        let node = self.node(directory)?;
        if matches!(node.contents, Contents::Directory(_)) { Ok(node.directory) } else { Err(Errno::ENOTDIR) }
    }

    /// Whether `file` is `ancestor` or below it, by its newest name.
    pub(super) fn is_within(&self, mut file: FileId, ancestor: FileId) -> Result<bool, Errno> {
        while file != ancestor {
            if file == BURST_ROOT {
                return Ok(false);
            }
            file = self.node(file)?.directory;
        }
        Ok(true)
    }

    pub(super) fn extents(&self, file: FileId) -> Result<&Extents, Errno> {
        match &self.node(file)?.contents {
            Contents::File(extents) => Ok(extents),
            Contents::Directory(_) => Err(Errno::EISDIR),
            _ => Err(Errno::EINVAL),
        }
    }

    pub(super) fn node(&self, file: FileId) -> Result<&Node, Errno> {
        self.nodes.get(&file).ok_or(Errno::ESTALE)
    }

    pub(super) fn node_mut(&mut self, file: FileId) -> Result<&mut Node, Errno> {
        self.nodes.get_mut(&file).ok_or(Errno::ESTALE)
    }

    /// A directory whose entries are all known.
    pub(super) fn directory(&self, file: FileId) -> Result<&Directory, Refusal> {
        match &self.node(file)?.contents {
            Contents::Directory(directory) if directory.is_whole() => Ok(directory),
            Contents::Directory(_) => Err(Refusal::Unlisted(file)),
            _ => Err(Errno::ENOTDIR.into()),
        }
    }

    pub(super) fn directory_mut(&mut self, file: FileId) -> Result<&mut Directory, Errno> {
        match &mut self.node_mut(file)?.contents {
            Contents::Directory(directory) => Ok(directory),
            _ => Err(Errno::ENOTDIR),
        }
    }

    /// The file that `place` names, if there is one, for a caller who may search its directory.
    pub(super) fn find(&self, caller: &Caller, place: &Place) -> Result<Option<FileId>, Refusal> {
        let Some(node) = self.nodes.get(&place.directory) else {
            return Err(self.find_in_removed(caller, place.directory));
        };
        let attributes = &node.attributes;
        if attributes.kind() != Kind::Directory {
            return Err(Errno::ENOTDIR.into());
        }
        permissions::check(caller, attributes, permissions::EXECUTE)?;
        Ok(self.directory(place.directory)?.get(&place.name))
    }

    /// A name in a directory that may have been removed: it names nothing.
    pub(super) fn find_in_removed(&self, caller: &Caller, directory: FileId) -> Refusal {
        let Some((state, _)) = self.removed.get(directory) else { return Errno::ESTALE.into() };
        permissions::check(caller, &state.attributes, permissions::EXECUTE).err().unwrap_or(Errno::ENOENT).into()
    }

    /// The same for who may also change the directory's entries.
    pub(super) fn find_to_change(&self, caller: &Caller, place: &Place) -> Result<Option<FileId>, Refusal> {
        let found = self.find(caller, place)?;
        let attributes = &self.node(place.directory)?.attributes;
        if found.is_none() {
            permissions::check(caller, attributes, permissions::WRITE)?;
        }
        Ok(found)
    }

    /// Takes a file away that has no name and is open nowhere.
    pub(super) fn release_if_unused(&mut self, file: FileId, released: &mut Released) {
        let unused = self.nodes.get(&file).is_some_and(|node| node.attributes.nlink == 0 && node.open_on.is_empty());
        if !unused || self.landing.keep(file) {
            return;
        }
        let Some(node) = self.nodes.remove(&file) else { return };
        match &node.contents {
            Contents::File(extents) => released.extents.extend(extents.written()),
            Contents::Directory(_) => self.removed.note(file, &node),
            _ => {}
        }
        if self.landing.draft_of(file).is_some() {
            self.landing.push(Step::Discard { file });
        }
        self.locks.release_file(file);
        released.files.push(file);
    }
}
