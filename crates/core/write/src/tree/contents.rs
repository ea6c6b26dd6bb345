//! Files that are opened, written and closed.

use std::collections::BTreeMap;

use forebay_types::{Errno, FileId, Kind, LogPosition, NodeRank};
use forebay_wire::write::{Caller, Change, CommitAt, Copy, Done, LockRequest, WrittenExtent};

use super::nodes::Contents;
use super::permissions;
use super::state::{Refusal, Released, Tree};
use crate::landing::Step;
use crate::limits;

impl Tree {
    /// Notes that a node opens a file. The node checks access itself: it has the flags.
    pub(super) fn open(&mut self, change: &Change, file: FileId) -> Result<Done, Refusal> {
        if self.node(file)?.attributes.kind() == Kind::Directory {
            return Err(Errno::EISDIR.into());
        }
        self.nodes.of_opener(&file).ok_or(Errno::ESTALE)?.open(change.id.node);
        Ok(Done::File(self.state(file)?))
    }

    pub(super) fn close(
        &mut self,
        change: &Change,
        file: FileId,
        handle: u64,
        released: &mut Released,
    ) -> Result<Done, Refusal> {
        let of = change.id.node;
        let node = self.nodes.of_opener(&file).ok_or(Errno::ESTALE)?;
        node.close(of);
        self.locks.release_open(of, file, handle);
        self.publish_if_closed(file);
        self.release_if_unused(file, released);
        Ok(Done::Nothing)
    }

    /// Closes all files of a node: as it says itself, or since it is given up.
    pub(super) fn close_all(&mut self, of: NodeRank, released: &mut Released) {
        let mut files: Vec<FileId> =
            self.nodes.active().filter(|(_, node)| node.open_on.contains_key(&of)).map(|(file, _)| *file).collect();
        files.sort_unstable();
        for file in files {
            if let Some(node) = self.nodes.of_opener(&file) {
                node.open_on.remove(&of);
            }
            self.publish_if_closed(file);
            self.release_if_unused(file, released);
        }
        self.locks.release_node(of);
    }

    pub(super) fn lock(&mut self, change: &Change, file: FileId, request: &LockRequest) -> Result<Done, Refusal> {
        self.node(file)?;
        self.locks.set(change.id.node, file, request)?;
        Ok(Done::Nothing)
    }

    pub(super) fn commit(
        &mut self,
        change: &Change,
        file: FileId,
        written: &[WrittenExtent],
        at: CommitAt,
        released: &mut Released,
    ) -> Result<Done, Refusal> {
        let node = self.node_mut(file)?;
        let start = if at == CommitAt::End { node.attributes.size_bytes } else { 0 };
        let Contents::File(extents) = &mut node.contents else { return Err(Errno::EINVAL.into()) };
        let (written, before) = (moved(written, start, change)?, extents.counted_bytes());
        for extent in &written {
            extents.insert(*extent, &mut released.extents);
            node.attributes.size_bytes = node.attributes.size_bytes.max(extent.offset + extent.len);
        }
        node.recount(before);
        let own = written.iter().rfind(|extent| at == CommitAt::Start && extent.node == change.id.node);
        // It was written then; the node itself may have been changed since.
        let changed_at = node.attributes.ctime;
        node.contents_changed(change.now);
        node.attributes.ctime = changed_at.max(change.now);
        if let Some(own) = own {
            self.last_committed.insert(own.node, own.position);
        }
        self.end_lent_rights(&change.caller, file)?;
        self.publish_if_closed(file);
        Ok(Done::File(self.state(file)?))
    }

    /// A file is changed, and grows if it is shorter.
    pub(super) fn allocate(&mut self, change: &Change, file: FileId, least_bytes: u64) -> Result<Done, Refusal> {
        if !matches!(self.node(file)?.contents, Contents::File(_)) {
            return Err(Errno::EINVAL.into());
        }
        if least_bytes > limits::FILE_BYTES_MAX {
            return Err(Errno::EFBIG.into());
        }
        let node = self.node_mut(file)?;
        node.attributes.size_bytes = node.attributes.size_bytes.max(least_bytes);
        node.contents_changed(change.now);
        self.end_lent_rights(&change.caller, file)?;
        self.publish_if_closed(file);
        Ok(Done::File(self.state(file)?))
    }

    /// A file lends no rights any more when a user other than root has changed its contents.
    pub(super) fn end_lent_rights(&mut self, caller: &Caller, file: FileId) -> Result<(), Errno> {
        let step = self.landing.end();
        let node = self.node_mut(file)?;
        let mode = permissions::without_lent_rights(caller, &node.attributes);
        if caller.uid != 0 && mode != node.attributes.mode {
            node.attributes.mode = mode;
            node.rights_step = Some(step);
        }
        Ok(())
    }

    pub(super) fn publish_now(&mut self, file: FileId) -> Result<(), Refusal> {
        let is_lost = self.is_lost(file);
        let node = self.node_mut(file)?;
        if !is_lost && std::mem::take(&mut node.is_dirty) {
            let version = node.version;
            self.landing.push(Step::Publish { file, version });
        }
        Ok(())
    }

    /// Lets contents that have changed land, unless a program has the file open and may go on.
    pub(super) fn publish_if_closed(&mut self, file: FileId) {
        let is_due = self.nodes.get(&file).is_some_and(|node| node.is_dirty && node.open_on.is_empty());
        if is_due && let Some(node) = self.nodes.get_mut(&file) {
            node.is_dirty = false;
            self.landing.push(Step::Publish { file, version: node.version });
        }
    }

    /// These nodes do not answer; what was held back for others is not any more.
    pub(super) fn lose(&mut self, nodes: &[NodeRank]) {
        self.lost = nodes.iter().copied().collect();
        for file in self.open_and_changed() {
            if !self.is_lost(file) {
                self.publish_if_closed(file);
            }
        }
    }

    /// Records of a node have other places: `to` has copies of them, since the node is gone, or they are gone themselves.
    pub(super) fn move_records(&mut self, node: NodeRank, to: NodeRank, copies: &[Copy]) {
        let places: BTreeMap<LogPosition, LogPosition> = copies.iter().map(|copy| (copy.from, copy.to)).collect();
        let active: Vec<FileId> = self.nodes.active().map(|(file, _)| *file).collect();
        for file in active {
            if let Some(Contents::File(extents)) = self.nodes.get_mut(&file).map(|of| &mut of.contents) {
                extents.move_records(node, |position| Some((to, *places.get(&position)?)));
            }
        }
        for file in self.open_and_changed() {
            if !self.is_lost(file) {
                self.publish_if_closed(file);
            }
        }
    }
}

/// The extents of a commit, `start` bytes further on.
///
/// # Errors
/// EFBIG when one ends behind the largest file, EINVAL when one is not of the node that commits.
fn moved(written: &[WrittenExtent], start: u64, change: &Change) -> Result<Vec<WrittenExtent>, Errno> {
    let moved = written.iter().map(|extent| {
        let offset = extent.offset.checked_add(start).ok_or(Errno::EFBIG)?;
        let end = offset.checked_add(extent.len).ok_or(Errno::EFBIG)?;
        match () {
            () if end > limits::FILE_BYTES_MAX => Err(Errno::EFBIG),
            () if extent.node != change.id.node => Err(Errno::EINVAL),
            () => Ok(WrittenExtent { offset, ..*extent }),
        }
    });
    moved.collect()
}
