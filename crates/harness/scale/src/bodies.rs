//! Bodies at a node: how far each has come, and who waits for more of it.
//!
//! A core's handle names a body of its own node. While the body grows it is in the node's list; a handle that is not
//! found there is whole. A bundle is one body on its way, and its files get bodies of their own when it is there.

use forebay_read::{AttemptId, PeerTicket};
use forebay_types::Errno;

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
pub(super) struct Filling {
    pub handle: Handle,
    pub call: AttemptId,
    pub arrived: u32,
    /// Its files, if it is a bundle, which the core does not know as a body.
    pub files: Option<Files>,
    pub watchers: Vec<Watcher>,
}

/// The attempts at a bundle's files, and the files' sizes.
pub(super) type Files = Vec<(AttemptId, u32)>;

/// The consumers that wait for more of a body.
#[derive(Clone, Debug)]
pub(super) enum Watcher {
    /// A node that it is sent on to.
    Peer { to: NodeIndex, call: AttemptId },
    /// A node that gets the files of a bundle in one when all are there.
    Bundle { ticket: PeerTicket, files: Vec<Result<Handle, Errno>> },
    /// This node's program, until so many bytes are there.
    Read { until: u32 },
}
