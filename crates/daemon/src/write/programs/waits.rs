//! Requests that may wait for another node. While they wait, the session's last readers serve the others (`forebay_fuse::Handler`).
//!
//! Reads and writes of bytes are not among them. They wait for others only if they meet a limit, and carry too much to be copied.

use std::sync::Arc;

use forebay_fuse::{Change as Asked, Operation as Op, Request};

use super::locks::{Closing, Locking};
use super::requests::{Number, UnderWay};
use crate::write::contents::Reader;
use crate::write::kernel_words::{O_APPEND, file_of};
use crate::write::tree::fits::SURE_FILE_BYTES;

/// A request that may be carried out after later ones.
struct Late {
    /// The owner of the tree remembers the outcomes of all changes since it came.
    _number: Number,
    /// Whoever asks for a lock that this close ends waits for it.
    _closing: Option<Closing>,
}

/// Whether a request may wait for another node.
pub fn may_wait(reader: &Reader, request: &Request<'_>) -> bool {
    match &request.operation {
        Op::Read { .. } | Op::Opendir { .. } | Op::Releasedir { .. } => false,
        Op::Forget { .. } | Op::BatchForget(_) | Op::Interrupt { .. } | Op::Other(_) => false,
        Op::Getattr { .. } => !reader.tree.knows(file_of(request.node)),
        Op::Change(Asked::Write { offset, data, flags, .. }) => {
            flags & O_APPEND != 0 || offset.saturating_add(data.len() as u64) > SURE_FILE_BYTES
        }
        _ => true,
    }
}

/// What others know of a request before it is carried out.
pub fn note_late(under_way: &Arc<UnderWay>, locking: &Arc<Locking>, request: &Request<'_>) -> Box<dyn Send> {
    let is_close = matches!(request.operation, Op::Release { .. });
    Box::new(Late {
        _number: under_way.begin(request),
        _closing: is_close.then(|| locking.closing(file_of(request.node))),
    })
}
