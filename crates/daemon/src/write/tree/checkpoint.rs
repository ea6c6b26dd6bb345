//! A record that stands for the beginning of a node's log, so that its segments can go. It has the tree if the node owns it, and its
//! programs' uncommitted writes.

use forebay_log::LogError;
use forebay_types::{FileId, LogPosition};
use forebay_wire::message::{Checked, encode};
use forebay_wire::write::{Change, WrittenExtent};
use forebay_wire::write_message::Leadership;
use forebay_write::{Copies, Lineage, Tree};
use serde::{Deserialize, Serialize};

use super::leader::Leader;
use super::standby::{Mirror, Standby};
use crate::write::copying::Copying;
use crate::write::files::Files;
use crate::write::local::Local;
use crate::write::notes::StoreTree;

/// Of a store's capacity, what notes may keep before they are gathered up: one part in so many, and at most so much.
const KEPT_PART: u64 = 8;
const KEPT_BYTES_MAX: u64 = 256 << 20;

/// See the module.
#[derive(PartialEq, Debug, Serialize, Deserialize, Default)]
pub struct Checkpoint {
    /// The leader.
    pub leadership: Leadership,
    /// The tree that the store is about, once that is known.
    pub store_tree: Option<StoreTree>,
    /// Of the leader.
    pub tree: Option<Tree>,
    /// How that came to be so.
    pub lineage: Lineage,
    /// Of its standby.
    pub mirror: Option<Mirror>,
    /// Of what other nodes wrote.
    pub copies: Copies,
    /// Records of its own that its partner may not have, with their bytes.
    pub uncopied: Vec<(LogPosition, u32)>,
    /// Extents that were written and not committed, in the order of writing.
    pub pending: Vec<(FileId, Vec<WrittenExtent>)>,
    /// Commits that were sent by earlier daemons and not answered, of what is pending first.
    pub sent: Vec<Change>,
    /// Bytes of the log that are held, by segment.
    pub held: Vec<(u64, u64)>,
    /// Above all identities that this node has given.
    pub next_serial: u64,
}

/// A node's knowledge beside its files.
#[derive(Clone, Copy, Default)]
pub struct Parts<'a> {
    pub leader: Option<&'a Leader>,
    pub second: Option<&'a Standby>,
}

impl Checked for Checkpoint {
    fn is_within_limits(&self) -> bool {
        // It is the node's own, and has a checksum.
        true
    }
}

/// Makes one if notes keep much of the store.
pub fn write_if_due(local: &Local, parts: Parts<'_>, files: &Files) {
    let space = local.log.space();
    if space.kept_by_notes_bytes < (space.capacity_bytes / KEPT_PART).min(KEPT_BYTES_MAX)
        || space.kept_by_notes_bytes == 0
    {
        return;
    }
    match write(local, parts, files) {
        Ok(()) => tracing::debug!(kept_bytes = space.kept_by_notes_bytes, "a checkpoint of the store"),
        Err(error) => tracing::warn!(%error, "notes keep room in the store"),
    }
}

/// Makes one.
///
/// # Errors
/// The log's error.
pub fn write(local: &Local, parts: Parts<'_>, files: &Files) -> Result<(), LogError> {
    let (checkpoint, up_to) = files.while_nobody_writes(|pending, sent| {
        // A thread that changes the tree writes that down while it has the tree.
        let tree = parts.leader.map(Leader::tree);
        let mirror = parts.second.map(Standby::mirror);
        let copies = local.copies();
        let up_to = local.log.end();
        let checkpoint = Checkpoint {
            leadership: local.leadership(),
            store_tree: local.tree(),
            tree: tree.as_deref().cloned(),
            lineage: parts.leader.map(|leader| leader.replicator.lineage()).unwrap_or_default(),
            mirror: mirror.as_ref().and_then(|mirror| (*mirror).clone()),
            copies: copies.clone(),
            uncopied: local.copying.as_ref().map_or_else(Vec::new, Copying::records),
            pending,
            sent,
            held: local.log.live_by_segment(),
            next_serial: local.next_serial(),
        };
        (checkpoint, up_to)
    });
    // Looked at after `up_to`: what it stands for does not know of another leader.
    if local.is_over() {
        return Ok(());
    }
    // A large tree takes seconds to be encoded, and shares what has not changed with this copy: nobody waits for that.
    let contents = encode(&checkpoint);
    drop(checkpoint);
    local.log.checkpoint(up_to, &contents)
}
