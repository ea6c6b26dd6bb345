//! Bodies at a node: how far each has come, and who waits for more of it.
//!
//! A core's handle names a body of its own node. While the body grows it is in the node's list; a handle that is not
//! found there is whole. A body may be the second or third at a node for the same question (a bundle's files get bodies
//! of their own), so handles are never compared by what they hold.

use forebay_node::AttemptId;
use forebay_node::{Part, PeerTicket};

use super::network::NodeIndex;

/// A core's handle of a body: its number at any node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Handle {
    pub body: u32,
    /// Bytes as the model counts them.
    pub bytes: u32,
    /// Real bytes for each.
    pub weight: u32,
}

/// A body that arrives.
#[derive(Clone, Debug)]
pub(super) struct Growing {
    pub handle: Handle,
    pub call: AttemptId,
    pub arrived: u32,
    /// The sizes of its files, if it is a bundle.
    pub members: Option<Vec<u32>>,
    pub watchers: Vec<Watcher>,
}

/// Who waits for more of a body.
#[derive(Clone, Debug)]
pub(super) enum Watcher {
    /// A node that it is sent on to.
    Peer { to: NodeIndex, call: AttemptId },
    /// A node that gets several parts in one when all are there.
    Parts { ticket: PeerTicket, parts: Vec<Part<Handle>> },
    /// This node's program, until so many bytes are there.
    Read { until: u32 },
}
