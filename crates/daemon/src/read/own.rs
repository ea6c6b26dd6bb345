//! The answers that programs of this node would get, for the daemon itself.

use std::sync::Arc;

use forebay_body::Body;
use forebay_read::PeerAnswer;
use forebay_types::{Epoch, Errno, NodeRank};
use forebay_wire::{EntryRecord, Listing, ReadMessage};

use super::core::Core;
use super::peers::Peers;

/// This node's own questions to its read path.
pub struct Own {
    core: Arc<Core>,
    peers: Arc<Peers>,
}

impl Own {
    pub fn new(core: &Arc<Core>, peers: &Arc<Peers>) -> Arc<Self> {
        Arc::new(Self { core: Arc::clone(core), peers: Arc::clone(peers) })
    }

    /// A chunk or a bundle's file, whole. `EIO` when the daemon ends.
    pub async fn chunk(&self, message: ReadMessage) -> Result<Arc<Body>, Errno> {
        match self.peers.ask_own(message).await {
            Some(PeerAnswer::Body(body)) => body.whole_bytes().await.map(|()| body),
            Some(PeerAnswer::Failed(errno)) => Err(errno),
            _ => Err(Errno::EIO),
        }
    }

    /// The listing of a directory. `EIO` when the daemon ends.
    pub async fn listing(&self, message: ReadMessage) -> Result<Listing, Errno> {
        match self.peers.ask_own(message).await {
            Some(PeerAnswer::Listing(listing)) => Ok(listing),
            Some(PeerAnswer::Failed(errno)) => Err(errno),
            _ => Err(Errno::EIO),
        }
    }

    /// The record of a name, if there is one. `EIO` when the daemon ends.
    pub async fn record(&self, message: ReadMessage) -> Result<Option<EntryRecord>, Errno> {
        match self.peers.ask_own(message).await {
            Some(PeerAnswer::Entries(records)) => Ok(records.first().cloned().flatten()),
            Some(PeerAnswer::Failed(errno)) => Err(errno),
            _ => Err(Errno::EIO),
        }
    }

    /// Up to which refresh this node has forgotten.
    pub fn epoch(&self) -> Epoch {
        self.core.lock().epoch()
    }

    /// Nodes that are believed lost.
    pub fn suspects(&self) -> Vec<NodeRank> {
        self.core.lock().suspects()
    }
}
