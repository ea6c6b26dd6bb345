//! Nodes that believe what a change makes old are told of it.

use std::time::Duration;

use forebay_types::{Errno, NodeRank, Time};
use forebay_wire::write_message::WriteMessage;
use forebay_write::Told;

use super::peers::{Waiting, all};
use super::remote::{AGAIN_AFTER, Nodes, To, decoded};

impl Nodes {
    /// Has nodes forget what they were told, and waits until they have, or have done so by themselves when `ends` says.
    pub async fn have_forget(&self, told: &[Told], ends: &(impl Fn(&Told) -> Time + Sync)) {
        let each = told.iter().map(|told| Box::pin(self.have_one_forget(told, ends)) as Waiting<'_, ()>);
        all(each.collect()).await;
    }

    async fn have_one_forget(&self, told: &Told, ends: &(impl Fn(&Told) -> Time + Sync)) {
        let message = WriteMessage::forget(&told.files);
        while !self.is_ending() {
            let patience = ends(told).since(self.now());
            if patience.is_zero() || self.has_forgotten(told.node, &message, patience).await {
                return;
            }
            self.pause(AGAIN_AFTER).await;
        }
    }

    async fn has_forgotten(&self, node: NodeRank, message: &WriteMessage, patience: Duration) -> bool {
        let answered = self.call(To::Node(node), message, patience).await;
        answered.is_ok_and(|(_, (outcome, body))| decoded::<Result<(), Errno>>(&outcome, &body).is_ok())
    }
}
