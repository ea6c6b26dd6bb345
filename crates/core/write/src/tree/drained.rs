//! Contents that leave the stores before their file is published: because the stores fill, or by age.
//!
//! A file that programs have open cannot be published yet. Its committed contents are written to its draft on the backing file system,
//! or to the file itself if that is there already. They are read there from then on, so a file may be larger than a store. Contents that
//! are only old are written there too, and stay in the logs, where reads are faster, until the logs fill. A draft stays in the directory
//! that it was made in, wherever the file is moved, until that directory is removed.

use std::collections::{BTreeMap, BTreeSet};

use forebay_types::{FileId, LogPosition, NodeRank};
use forebay_wire::journal::Drained;
use forebay_wire::write::{COMMIT_EXTENTS_MAX, WrittenExtent};

use super::nodes::{Contents, Node, inode_number};
use super::state::{Released, Tree};
use crate::extents::Extents;
use crate::landing::Step;

/// Which contents of open files are sent ahead.
#[derive(Clone, Copy, Debug)]
pub enum Ahead<'a> {
    /// Those that take room in the stores of these nodes.
    OfNodes(&'a BTreeSet<NodeRank>),
    /// Those that lie at or below these positions of nodes' logs, of files that are not on the backing file system: there is no need to
    /// have others see a mixture.
    Old(&'a BTreeMap<NodeRank, LogPosition>),
}

/// Contents to be sent ahead.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Drain {
    /// Of which file.
    pub file: FileId,
    /// The contents that are looked at.
    pub version: u64,
    /// How long they are, bytes.
    pub size_bytes: u64,
    /// Whether the file itself is on the backing file system, and needs no draft.
    pub is_there: bool,
    /// The extents in logs, in the file's order.
    pub extents: Vec<WrittenExtent>,
}

impl Tree {
    /// The most that `ahead` says of any open file, up to `bytes_max`.
    #[must_use]
    pub fn next_drain(&self, ahead: Ahead<'_>, bytes_max: u64) -> Option<Drain> {
        let of_them = |extents: &Extents, extent: &WrittenExtent| match ahead {
            Ahead::OfNodes(nodes) => nodes.contains(&extent.node),
            Ahead::Old(last) => {
                last.get(&extent.node).is_some_and(|last| extent.position <= *last) && !extents.is_sent(extent)
            }
        };
        let is_meant = |file, node: &Node| match ahead {
            Ahead::OfNodes(_) => true,
            Ahead::Old(_) => node.attributes.nlink > 0 && self.landing.place(file).is_none(),
        };
        let open = self.nodes.active().filter(|(_, node)| node.is_dirty && !node.open_on.is_empty());
        let open = open.filter(|(file, node)| is_meant(**file, node));
        let sizes = open.filter_map(|(file, node)| match &node.contents {
            Contents::File(extents) => {
                let of_them = extents.written().filter(|extent| of_them(extents, extent));
                let bytes: u64 = of_them.map(|extent| extent.len).sum();
                (bytes > 0).then_some((bytes, *file))
            }
            _ => None,
        });
        let (_, file) = sizes.max()?;
        let (node, of_file) = (self.nodes.get(&file)?, self.extents(file).ok()?);
        let mut room = bytes_max;
        let written = of_file.written().filter(|extent| of_them(of_file, extent));
        let extents = written.take(COMMIT_EXTENTS_MAX).take_while(|extent| {
            let is_first = room == bytes_max;
            let fits = is_first || extent.len <= room;
            room = room.saturating_sub(extent.len);
            fits
        });
        let is_there = self.landing.place(file).is_some();
        let (version, size_bytes) = (node.version, node.attributes.size_bytes);
        Some(Drain { file, version, size_bytes, is_there, extents: extents.copied().collect() })
    }

    /// The directory for a draft of a file that has none.
    #[must_use]
    pub fn directory_for_draft(&self, file: FileId) -> FileId {
        self.landing.directory_for(file)
    }

    /// Whether a part of a file is on the backing file system alone: there itself, or in its draft.
    #[must_use]
    pub fn is_backing_resident(&self, file: FileId) -> bool {
        self.extents(file).is_ok_and(|extents| !extents.backing_resident().is_empty())
    }

    /// Whether its draft, or the file itself there, has anything of it.
    #[must_use]
    pub fn has_part(&self, file: FileId) -> bool {
        self.extents(file).is_ok_and(|extents| extents.has_sent() || !extents.backing_resident().is_empty())
    }

    /// Whether a file's draft has what a range has that is written.
    #[must_use]
    pub fn is_sent(&self, file: FileId, extent: &WrittenExtent) -> bool {
        self.extents(file).is_ok_and(|extents| extents.is_sent(extent))
    }

    /// Where a file's draft is: its directory, and a number for its name.
    #[must_use]
    pub fn draft(&self, file: FileId) -> Option<(FileId, u128)> {
        Some((self.landing.draft_of(file)?, self.draft_number(file)))
    }

    /// The number that tells a file's draft from all others.
    #[must_use]
    pub fn draft_number(&self, file: FileId) -> u128 {
        u128::from(self.number) << 64 | u128::from(inode_number(file))
    }

    pub(super) fn drafting(&mut self, file: FileId, directory: FileId) {
        self.landing.drafted(file, directory);
        match self.nodes.get_mut(&file).map(|node| &mut node.contents) {
            Some(Contents::File(extents)) => extents.forget_sent(),
            Some(_) => {}
            // It has gone meanwhile.
            None => self.landing.push(Step::Discard { file }),
        }
    }

    pub(super) fn drained(&mut self, file: FileId, drained: &Drained, released: &mut Released) {
        // It may have gone meanwhile.
        if let Some(node) = self.nodes.get_mut(&file) {
            self.landing.set_backed(file, drained.backed);
            // Bytes on the backing file system behind a cut are not zeros.
            if let Contents::File(extents) = &mut node.contents
                && node.cut_at <= drained.version
            {
                if drained.is_kept {
                    drained.extents.iter().for_each(|extent| extents.note_sent(extent));
                } else {
                    extents.raise_backing(drained.size_bytes);
                    drained.extents.iter().for_each(|extent| extents.forget(extent, &mut released.extents));
                }
            }
        }
    }
}
