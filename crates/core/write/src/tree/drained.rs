//! What leaves the stores before its file is published, since they fill.
//!
//! A file that programs have open cannot be published yet. What was committed of it goes to its draft on the backing file system,
//! or to the file itself where that is there already, and is read there from then on: a store takes files that are larger than
//! it is. A draft stays in the directory that it was made in, wherever the file goes, until that directory goes.

use std::collections::BTreeSet;

use forebay_types::{FileId, NodeRank};
use forebay_wire::write::{COMMIT_EXTENTS_MAX, Done, Drained, WrittenExtent};

use super::nodes::{Contents, inode_number};
use super::state::{Released, Tree};
use crate::landing::Step;

/// What is to be sent ahead.
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
    /// What lies in logs, in the file's order.
    pub extents: Vec<WrittenExtent>,
}

impl Tree {
    /// What gives the stores of `nodes` most room again, of files that are open, up to `bytes_max`.
    #[must_use]
    pub fn next_drain(&self, nodes: &BTreeSet<NodeRank>, bytes_max: u64) -> Option<Drain> {
        let of_them = |extent: &&WrittenExtent| nodes.contains(&extent.node);
        let open = self.nodes.iter().filter(|(_, node)| node.is_dirty && !node.open_on.is_empty());
        let sizes = open.filter_map(|(file, node)| match &node.contents {
            Contents::File(extents) => {
                let bytes: u64 = extents.written().filter(of_them).map(|extent| extent.len).sum();
                (bytes > 0).then_some((bytes, *file))
            }
            _ => None,
        });
        let (_, file) = sizes.max()?;
        let (node, written) = (self.nodes.get(&file)?, self.extents(file).ok()?.written());
        let mut room = bytes_max;
        let extents = written.filter(of_them).take(COMMIT_EXTENTS_MAX).take_while(|extent| {
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
    pub fn has_base(&self, file: FileId) -> bool {
        self.extents(file).is_ok_and(|extents| !extents.of_base().is_empty())
    }

    /// Where a file's draft is: its directory, and a number for its name.
    #[must_use]
    pub fn draft(&self, file: FileId) -> Option<(FileId, u128)> {
        Some((self.landing.draft_of(file)?, self.draft_number(file)))
    }

    /// What tells a file's draft from all others.
    #[must_use]
    pub fn draft_number(&self, file: FileId) -> u128 {
        u128::from(self.number) << 64 | u128::from(inode_number(file))
    }

    pub(super) fn drafting(&mut self, file: FileId, directory: FileId) -> Done {
        self.landing.drafted(file, directory);
        if !self.nodes.contains_key(&file) {
            // It has gone meanwhile.
            self.landing.push(Step::Discard { file });
        }
        Done::Nothing
    }

    pub(super) fn drained(&mut self, file: FileId, drained: &Drained, released: &mut Released) -> Done {
        // It may have gone meanwhile.
        if let Some(node) = self.nodes.get_mut(&file) {
            self.landing.set_backed(file, drained.backed);
            // What is there behind a cut are not zeros.
            if let Contents::File(extents) = &mut node.contents
                && node.cut_at <= drained.version
            {
                extents.raise_base(drained.size_bytes);
                drained.extents.iter().for_each(|extent| extents.forget(extent, &mut released.extents));
            }
        }
        Done::Nothing
    }
}
