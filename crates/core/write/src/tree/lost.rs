//! Bytes that cannot be had: those of nodes that do not answer, with bytes that nobody else has, and those that a loss of power has
//! taken from a node's log before they were synced.
//!
//! A file with such bytes is held back: its name shows on the backing file system what it showed there before, or nothing, and
//! what comes after it does not wait. When its nodes answer again, or all of those bytes are overwritten, it lands.
//!
//! A record that is gone from its log has moved (`LeaderEntry::Relocated`) to a node that there is not: `gone_from` its node.

use std::collections::{BTreeMap, BTreeSet};

use forebay_types::{FileId, NodeRank};
use forebay_wire::write::{BURST_ROOT, WrittenExtent};

use super::nodes::{Contents, Node};
use super::state::Tree;
use crate::extents::Extents;

/// The ranges of a file that cannot land.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LostFile {
    /// Below the root; empty where it has no name.
    pub path: Vec<u8>,
    /// The nodes that have it, or had; none where others have taken it from the backing file system.
    pub nodes: BTreeSet<NodeRank>,
    /// Whether some of it is gone from their logs, so that waiting for them changes nothing.
    pub is_gone: bool,
    /// Offset and length.
    pub ranges: Vec<(u64, u64)>,
}

/// No rank of a node has it.
const GONE: u32 = 1 << 31;

/// Where records are that are gone from the log of `node`.
#[must_use]
pub fn gone_from(node: NodeRank) -> NodeRank {
    NodeRank(node.0 | GONE)
}

/// The node that such records are gone from.
#[must_use]
pub fn node_of_gone(node: NodeRank) -> NodeRank {
    NodeRank(node.0 & !GONE)
}

/// Whether that is where an extent's record is.
#[must_use]
pub fn is_gone(node: NodeRank) -> bool {
    node.0 & GONE != 0
}

impl Tree {
    /// The nodes that do not answer.
    #[must_use]
    pub fn lost_nodes(&self) -> &BTreeSet<NodeRank> {
        &self.lost
    }

    /// Files with bytes that cannot be had, by their paths.
    #[must_use]
    pub fn lost_files(&self) -> Vec<LostFile> {
        let mut files: BTreeMap<FileId, LostFile> = BTreeMap::new();
        let lost = self.nodes.active().map(|(file, _)| *file).filter(|file| self.is_lost(*file));
        files.extend(lost.map(|file| (file, self.lost_of(file))));
        let paths = self.paths_of(files.keys().copied().collect());
        files.iter_mut().for_each(|(file, lost)| lost.path = paths.get(file).cloned().unwrap_or_default());
        let mut files: Vec<LostFile> = files.into_values().collect();
        files.sort_by(|a, b| a.path.cmp(&b.path));
        files
    }

    /// The ranges of a file that no node can supply.
    #[must_use]
    pub fn lost_of(&self, file: FileId) -> LostFile {
        let lost: Vec<_> = self.extents(file).into_iter().flat_map(|extents| self.lost_extents(extents)).collect();
        let nodes = lost.iter().map(|extent| NodeRank(extent.node.0 & !GONE)).collect();
        let is_gone = lost.iter().any(|extent| is_gone(extent.node));
        let ranges: Vec<_> = lost.iter().map(|extent| (extent.offset, extent.len)).collect();
        let mut ranges = [ranges, self.backing_removed_of(file)].concat();
        ranges.sort_unstable();
        LostFile { path: vec![], nodes, is_gone, ranges: joined(ranges.into_iter()) }
    }

    /// Whether an extent's bytes cannot be had from its log.
    #[must_use]
    pub fn is_lost_extent(&self, extent: &WrittenExtent) -> bool {
        is_gone(extent.node) || self.lost.contains(&extent.node)
    }

    /// A path of each of `files` that has one, below the root.
    pub(super) fn paths_of(&self, files: BTreeSet<FileId>) -> BTreeMap<FileId, Vec<u8>> {
        let (mut paths, mut directories) = (BTreeMap::new(), vec![(BURST_ROOT, vec![])]);
        while let Some((directory, path)) = directories.pop().filter(|_| !files.is_empty()) {
            let Some(Contents::Directory(entries)) = self.nodes.get(&directory).map(|node| &node.contents) else {
                continue;
            };
            for (name, file) in entries.entries_after(None) {
                let below = if path.is_empty() {
                    name.as_bytes().to_vec()
                } else {
                    [&path, &b"/"[..], name.as_bytes()].concat()
                };
                match files.contains(file) {
                    true => drop(paths.insert(*file, below)),
                    false => directories.push((*file, below)),
                }
            }
        }
        paths
    }

    /// The ranges of a file that were only in a base that others have taken away.
    fn backing_removed_of(&self, file: FileId) -> Vec<(u64, u64)> {
        match self.nodes.get(&file) {
            Some(Node { contents: Contents::File(extents), is_backing_removed: true, .. }) => {
                extents.backing_resident()
            }
            _ => vec![],
        }
    }

    /// The extents that no node can supply and that are not in the file's draft.
    fn lost_extents<'a>(&'a self, extents: &'a Extents) -> impl Iterator<Item = &'a WrittenExtent> {
        extents.written().filter(|extent| self.is_lost_extent(extent) && !extents.is_sent(extent))
    }

    pub(super) fn is_lost(&self, file: FileId) -> bool {
        let has_lost = |extents| self.lost_extents(extents).next().is_some();
        self.extents(file).is_ok_and(has_lost) || !self.backing_removed_of(file).is_empty()
    }

    /// A file that was to be published waits until it is whole.
    pub(super) fn hold_back(&mut self, file: FileId) {
        if self.is_lost(file)
            && let Some(node) = self.nodes.get_mut(&file)
        {
            node.is_dirty = true;
        }
    }
}

/// Ranges in their order, those that touch as one.
pub(super) fn joined(ranges: impl Iterator<Item = (u64, u64)>) -> Vec<(u64, u64)> {
    let mut joined: Vec<(u64, u64)> = vec![];
    for (offset, len) in ranges {
        match joined.last_mut().filter(|last| last.0 + last.1 == offset) {
            Some(last) => last.1 += len,
            None => joined.push((offset, len)),
        }
    }
    joined
}
