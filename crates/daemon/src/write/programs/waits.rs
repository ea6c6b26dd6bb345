//! Requests that may wait for another node, for the backing file system, or for room. While they wait, the session's last readers serve the
//! others (`forebay_fuse::Handler`).
//!
//! Reads of what is in this node's log, and writes that fit and that need no commit, are not among them.

use std::sync::Arc;

use forebay_fuse::limits::WRITE_BYTES_MAX;
use forebay_fuse::{Change as Asked, Operation as Op, Request};
use forebay_types::threads::BURST_READERS;

use super::locks::{Closing, Locking};
use super::requests::{Number, UnderWay};
use crate::options::Copied;
use crate::write::contents::Reader;
use crate::write::files::{Files, OpenFile};
use crate::write::kernel_words::{O_APPEND, file_of};
use crate::write::local::Local;
use crate::write::tree::fits::SURE_FILE_BYTES;

/// A request that may be carried out after later ones.
struct Late {
    /// The owner of the tree remembers the outcomes of all changes since it came.
    _number: Number,
    /// Requests for a lock that this close ends wait for it.
    _closing: Option<Closing>,
}

/// Bytes that all readers of a mount may append before one of them looks whether there is room.
const ROOM_BYTES_MIN: u64 = BURST_READERS as u64 * WRITE_BYTES_MAX as u64;

/// Whether a request may wait.
pub fn may_wait(reader: &Reader, files: &Files, request: &Request<'_>) -> bool {
    let file = file_of(request.node);
    match &request.operation {
        Op::Opendir { .. } | Op::Releasedir { .. } => false,
        Op::Forget { .. } | Op::BatchForget(_) | Op::Interrupt { .. } | Op::Other(_) => false,
        Op::Getattr { .. } => !reader.tree.knows(file),
        Op::Read { offset, size, .. } => !reader.is_here(files, file, *offset, *size as usize),
        Op::Change(Asked::Write { offset, data, flags, ends_lent_rights, .. }) => {
            let end = offset.saturating_add(data.len() as u64);
            flags & O_APPEND != 0
                || end > SURE_FILE_BYTES
                || write_may_wait(&reader.local, &files.entry(file), *ends_lent_rights)
        }
        _ => true,
    }
}

/// Whether a write within a file may wait: for room, for the commit that it makes, or for what the owner alone knows.
fn write_may_wait(local: &Local, open: &OpenFile, ends_lent_rights: bool) -> bool {
    let asks_copied = local.copying.as_ref().is_some_and(|copying| matches!(copying.rule, Copied::Below(_)));
    open.is_about_to_commit(BURST_READERS)
        || ends_lent_rights && open.lends_rights()
        || asks_copied && !open.knows_copied()
        || !local.log.has_room(ROOM_BYTES_MIN)
}

/// Lets others know of a request before it is carried out.
pub fn note_late(under_way: &Arc<UnderWay>, locking: &Arc<Locking>, request: &Request<'_>) -> Box<dyn Send> {
    let is_close = matches!(request.operation, Op::Release { .. });
    Box::new(Late {
        _number: under_way.begin(request),
        _closing: is_close.then(|| locking.closing(file_of(request.node))),
    })
}
