//! Queries of the tree, which do not change it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use forebay_types::{Errno, FileId, LogPosition, Name, NodeRank, OperationId, ViewPath};
use forebay_wire::write::{
    BURST_ROOT, Caller, Change, FileState, HeldLock, LockRequest, Operation, Piece, Place, Source, WrittenExtent,
};

use super::lost::{gone_from, joined};
use super::nodes::{Contents, Node};
use super::permissions;
use super::state::{Refusal, Tree};
use crate::extents::Extents;

/// Offset and length of each.
type Ranges = Vec<(u64, u64)>;

/// How far a file is on its way to the backing file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Its contents have changed, and a program may go on changing them.
    Open,
    /// A node that does not answer has some of it.
    Lost,
    /// It is to be followed there.
    Queued,
    /// Its stripes are on their way there.
    Draining,
    /// They are all there, and verified; it is to be published.
    Verified,
    /// It is there as it is here.
    Landed,
}

/// The amount that the backing file system does not have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ToLand {
    /// Bytes that only logs have.
    pub bytes: u64,
    /// Bytes of these that have been sent to drafts, and verified.
    pub sent_bytes: u64,
    /// Files that have such bytes.
    pub files: u64,
}

/// An entry of a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listed {
    /// Its name.
    pub name: Name,
    /// The state of the entry's file.
    pub state: FileState,
}

impl Tree {
    /// The file that `place` names.
    ///
    /// # Errors
    /// ENOENT, ENOTDIR, EACCES; or that its directory is to be imported.
    pub fn lookup(&self, caller: &Caller, place: &Place) -> Result<FileState, Refusal> {
        let file = self.find(caller, place)?.ok_or(Errno::ENOENT)?;
        Ok(self.state(file)?)
    }

    /// Whether `caller` may do what `wanted` says: the bits of `access(2)`.
    ///
    /// # Errors
    /// EACCES, ESTALE.
    pub fn check_access(&self, caller: &Caller, file: FileId, wanted: u32) -> Result<(), Errno> {
        permissions::check(caller, &self.seen(file)?.attributes, wanted)
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// EINVAL when it is none, ESTALE when there is no such file.
    pub fn target(&self, file: FileId) -> Result<&[u8], Errno> {
        match &self.node(file)?.contents {
            Contents::Symlink(target) => Ok(target),
            _ => Err(Errno::EINVAL),
        }
    }

    /// Up to `count` entries of a directory by name, those behind `after`.
    ///
    /// # Errors
    /// ENOTDIR, ESTALE; or that it is to be imported.
    pub fn list(&self, directory: FileId, after: Option<&Name>, count: usize) -> Result<Vec<Listed>, Refusal> {
        if self.removed.get(directory).is_some() {
            return Ok(vec![]);
        }
        let entries = self.directory(directory)?.entries_after(after);
        let listed =
            entries.take(count).map(|(name, file)| Ok(Listed { name: name.clone(), state: self.state(*file)? }));
        listed.collect()
    }

    /// Whether a change has been carried out, or never will be.
    #[must_use]
    pub fn has_carried_out(&self, id: OperationId) -> bool {
        self.results.of(id).is_some()
    }

    /// The size that a file gets by a change that sets it and has not been carried out, where it grows.
    #[must_use]
    pub fn size_by(&self, change: &Change) -> Option<u64> {
        let (file, size_bytes) = match &change.operation {
            Operation::Allocate { file, least_bytes } => (file, *least_bytes),
            Operation::SetAttributes { file, changes } => (file, changes.size_bytes?),
            _ => return None,
        };
        let is_new = !self.has_carried_out(change.id);
        let grows = self.nodes.get(file).is_some_and(|node| node.attributes.size_bytes < size_bytes);
        (is_new && grows).then_some(size_bytes)
    }

    /// Whether a file is below one of these paths, or at one, by its newest name. A file that was in a directory which has gone is not.
    #[must_use]
    pub fn is_below(&self, file: FileId, paths: &[ViewPath]) -> bool {
        paths.iter().filter_map(|path| self.at_path(path)).any(|at| self.is_within(file, at) == Ok(true))
    }

    /// The file at a path. A name that was not looked up yet is absent: no path below it was looked up either.
    fn at_path(&self, path: &ViewPath) -> Option<FileId> {
        path.components().try_fold(BURST_ROOT, |directory, name| match &self.nodes.get(&directory)?.contents {
            Contents::Directory(entries) => entries.get(&Name::new(name).ok()?),
            _ => None,
        })
    }

    /// Where the bytes of a file's `range` are, as far as the file goes.
    ///
    /// # Errors
    /// EISDIR, EINVAL, ESTALE.
    pub fn pieces(&self, file: FileId, range: Range<u64>) -> Result<Vec<Piece>, Errno> {
        let node = self.node(file)?;
        let end = range.end.min(node.attributes.size_bytes);
        Ok(self.extents(file)?.pieces(range.start.min(end)..end))
    }

    /// Where a range of a file is, up to its end, for a node that reads it: nobody waits for a node that does not answer. That node
    /// itself has what it has.
    ///
    /// # Errors
    /// As `pieces`.
    pub fn pieces_for(&self, reader: NodeRank, file: FileId, range: Range<u64>) -> Result<Vec<Piece>, Errno> {
        let mut pieces = self.pieces(file, range)?;
        for piece in &mut pieces {
            if let Source::Log(extent) = &mut piece.source
                && extent.node != reader
                && self.lost.contains(&extent.node)
            {
                extent.node = gone_from(extent.node);
            }
        }
        Ok(pieces)
    }

    /// All that lies in logs, in no order.
    pub fn written(&self) -> impl Iterator<Item = WrittenExtent> {
        let of = |node: &Node| match &node.contents {
            Contents::File(extents) => extents.written().copied().collect(),
            _ => vec![],
        };
        self.nodes.active().flat_map(move |(_, node)| of(node))
    }

    /// The amount that has not landed.
    #[must_use]
    pub fn to_land(&self) -> ToLand {
        let mut to_land = ToLand::default();
        for (_, node) in self.nodes.active() {
            let Contents::File(extents) = &node.contents else { continue };
            let bytes = extents.written_bytes();
            let sent = extents.written().filter(|extent| extents.is_sent(extent));
            to_land.bytes += bytes;
            to_land.sent_bytes += sent.map(|extent| extent.len).sum::<u64>();
            to_land.files += u64::from(bytes > 0);
        }
        to_land
    }

    /// The files that have most bytes which have not landed, the largest first, by paths below the root. Their names are looked for among
    /// `names_max` at most; a file whose name is not found is left out.
    #[must_use]
    pub fn largest_to_land(&self, count_max: usize, mut names_max: usize) -> Vec<(Vec<u8>, u64)> {
        let mut largest = BTreeSet::new();
        for (file, node) in self.nodes.active() {
            let Contents::File(extents) = &node.contents else { continue };
            largest.insert((extents.written_bytes(), *file));
            if largest.len() > count_max {
                largest.pop_first();
            }
        }
        let largest = largest.into_iter().rev().filter(|(bytes, _)| *bytes > 0);
        largest.filter_map(|(bytes, file)| Some((self.path_upwards(file, &mut names_max)?, bytes))).collect()
    }

    /// The path of a file by its newest names; lowers `names_max` by those that were looked at.
    fn path_upwards(&self, mut file: FileId, names_max: &mut usize) -> Option<Vec<u8>> {
        let mut names = vec![];
        while file != BURST_ROOT {
            let directory = self.nodes.get(&file)?.directory;
            let Contents::Directory(entries) = &self.nodes.get(&directory)?.contents else { return None };
            let mut looked_at = entries.entries_after(None).take(*names_max).zip(1..);
            let ((name, _), count) = looked_at.find(|((_, of), _)| **of == file)?;
            *names_max -= count;
            names.push(name.as_bytes());
            file = directory;
        }
        names.reverse();
        Some(names.join(&b'/'))
    }

    /// The same of files that programs have open and have changed.
    pub fn written_to_open(&self) -> impl Iterator<Item = WrittenExtent> {
        let open = self.nodes.active().filter(|(_, node)| node.is_dirty && !node.open_on.is_empty());
        open.flat_map(|(_, node)| match &node.contents {
            Contents::File(extents) => extents.written().copied().collect(),
            _ => vec![],
        })
    }

    /// The lock that conflicts with a request from `node`.
    #[must_use]
    pub fn lock_in_the_way(&self, node: NodeRank, file: FileId, request: &LockRequest) -> Option<HeldLock> {
        self.locks.conflict(node, file, request)
    }

    /// Above all serials of files that a node has created and that are there.
    #[must_use]
    pub fn next_serial_of(&self, node: NodeRank) -> u64 {
        let serials = self.nodes.iter().filter(|(file, _)| file.creator == node).map(|(file, _)| file.serial);
        serials.max().map_or(1, |serial| serial + 1)
    }

    /// The record of a node's log that its last commit was about, appends aside.
    #[must_use]
    pub fn last_committed_of(&self, node: NodeRank) -> Option<LogPosition> {
        self.last_committed.get(&node).copied()
    }

    /// How much of a node's log the tree needs: bytes, by segment.
    #[must_use]
    pub fn needed_of(&self, node: NodeRank) -> BTreeMap<u64, u64> {
        let mut needed = BTreeMap::new();
        for extent in self.written().filter(|extent| extent.node == node) {
            *needed.entry(extent.position.segment).or_default() += extent.len;
        }
        needed
    }

    /// The records of a node's log that the tree needs.
    #[must_use]
    pub fn records_of(&self, node: NodeRank) -> BTreeSet<LogPosition> {
        self.written().filter(|extent| extent.node == node).map(|extent| extent.position).collect()
    }

    /// Whether anything is here that the backing file system does not have.
    #[must_use]
    pub fn is_needed(&self) -> bool {
        self.steps_to_land() > 0 || self.nodes.active().any(|(_, node)| node.is_dirty)
    }

    /// Files whose contents have changed and that are open, so that they wait.
    #[must_use]
    pub fn open_and_changed(&self) -> Vec<FileId> {
        let mut files: Vec<FileId> =
            self.nodes.active().filter(|(_, node)| node.is_dirty).map(|(file, _)| *file).collect();
        files.sort_unstable();
        files
    }

    /// The nodes that have a file open.
    ///
    /// # Errors
    /// ESTALE when there is no such file.
    pub fn open_on(&self, file: FileId) -> Result<Vec<NodeRank>, Errno> {
        Ok(self.node(file)?.open_on.keys().copied().collect())
    }

    /// How many files a node has open.
    #[must_use]
    pub fn open_files_of(&self, node: NodeRank) -> usize {
        self.nodes.active().filter(|(_, of)| of.open_on.contains_key(&node)).count()
    }

    /// The nodes that have files open. Their logs may have writes to these that they have not sent, and that have a name here alone.
    #[must_use]
    pub fn openers(&self) -> BTreeSet<NodeRank> {
        self.nodes.active().flat_map(|(_, of)| of.open_on.keys().copied()).collect()
    }

    /// Whether a node beside these has a file open.
    #[must_use]
    pub fn is_open_beside(&self, nodes: &[NodeRank]) -> bool {
        self.nodes.active().any(|(_, of)| of.open_on.keys().any(|node| !nodes.contains(node)))
    }

    /// The ranges of a file that only logs have: offset and length.
    #[must_use]
    pub fn written_ranges(&self, file: FileId) -> Vec<(u64, u64)> {
        let extents = self.extents(file).ok();
        let unsent = |extents: &Extents| {
            let unsent = extents.written().filter(|extent| !extents.is_sent(extent));
            unsent.map(|extent| (extent.offset, extent.len)).collect::<Vec<_>>()
        };
        joined(extents.into_iter().flat_map(unsent))
    }

    /// Files that have a name and that the backing file system does not have as they are, by their paths below the root, with what only
    /// logs have of each: offset and length.
    #[must_use]
    pub fn files_not_landed(&self) -> Vec<(Vec<u8>, Ranges)> {
        let under_way = self.landing.files_with_steps();
        let is_left = |file: &FileId, node: &Node| node.is_dirty || under_way.contains(file) || self.is_lost(*file);
        let moving = under_way.iter().filter_map(|file| Some((file, self.nodes.get(file)?)));
        let left = self.nodes.active().chain(moving).filter(|(file, node)| {
            matches!(node.contents, Contents::File(_)) && node.attributes.nlink > 0 && is_left(file, node)
        });
        let paths = self.paths_of(left.map(|(file, _)| *file).collect());
        let mut files: Vec<_> = paths.into_iter().map(|(file, path)| (path, self.written_ranges(file))).collect();
        files.sort();
        files
    }

    /// How far a file is on its way to the backing file system.
    ///
    /// # Errors
    /// ESTALE when there is no such file.
    pub fn way(&self, file: FileId) -> Result<Way, Errno> {
        let node = self.node(file)?;
        Ok(match () {
            () if self.is_lost(file) => Way::Lost,
            () if node.is_dirty => Way::Open,
            () if self.landing.has_steps_of(file) => node.sent_way().unwrap_or(Way::Queued),
            () => Way::Landed,
        })
    }
}
