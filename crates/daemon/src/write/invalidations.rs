//! Nodes that believe what a change makes old are told of it.

use std::time::Duration;

use forebay_types::{Errno, NodeRank, Time};
use forebay_wire::write_message::WriteMessage;
use forebay_write::Invalidation;

use super::peers::decoded;
use super::peers::{Waiting, all};
use super::remote::Nodes;
use super::remote::asking::{RETRY_DELAY, To};

impl Nodes {
    /// Has nodes forget what they were told, and waits until they have, or have done so by themselves when `ends` says.
    pub async fn invalidate_all(&self, told: &[Invalidation], ends: &(impl Fn(&Invalidation) -> Time + Sync)) {
        let each = told.iter().map(|told| Box::pin(self.invalidate_one(told, ends)) as Waiting<'_, ()>);
        all(each.collect()).await;
    }

    async fn invalidate_one(&self, told: &Invalidation, ends: &(impl Fn(&Invalidation) -> Time + Sync)) {
        let message = WriteMessage::invalidate(&told.files);
        while !self.is_ending() {
            let timeout = ends(told).since(self.now());
            if timeout.is_zero() || self.has_forgotten(told.node, &message, timeout).await {
                return;
            }
            self.pause(RETRY_DELAY).await;
        }
    }

    async fn has_forgotten(&self, node: NodeRank, message: &WriteMessage, timeout: Duration) -> bool {
        let answered = self.call(To::Node(node), message, timeout).await;
        answered.is_ok_and(|(_, (outcome, body))| decoded::<Result<(), Errno>>(&outcome, &body).is_ok())
    }
}
