//! The leader goes on without a node, with what the node's partner has copied.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use forebay_types::{Errno, LogPosition, NodeRank};
use forebay_wire::journal::{LeaderEntry, RELOCATED_MAX};
use forebay_wire::write::Copy;
use forebay_wire::write_message::WriteMessage;

use super::calling::On;
use super::leader::Leader;

/// How long a node is asked whether it is there, and its partner for what it has.
const TIMEOUT: Duration = Duration::from_secs(3);

impl Leader {
    /// Looks whether a node answers, and gives its records the places of their copies if not. Whether any have them now. By a task.
    ///
    /// # Errors
    /// The error that kept it from being recorded.
    pub async fn failover(&self, on: On, node: NodeRank) -> Result<bool, Errno> {
        let answered = self.nodes.answer_of::<BTreeMap<u64, u64>>(node, &WriteMessage::Pending, TIMEOUT).await;
        if answered.is_ok() {
            return Ok(false);
        }
        let mut any = false;
        for partner in self.nodes.partners_of(node) {
            let records = self.call(on, move |leader| leader.tree().records_of(node)).await?;
            // A partner that does not answer is asked again.
            let copies = self.copies_at(partner, node, &records).await.unwrap_or_default();
            self.move_to(on, node, partner, &copies).await?;
            any |= !copies.is_empty();
        }
        Ok(any)
    }

    /// The copies that a partner has of some of a node's records.
    ///
    /// # Errors
    /// EIO where it does not answer.
    pub async fn copies_at(
        &self,
        partner: NodeRank,
        node: NodeRank,
        records: &BTreeSet<LogPosition>,
    ) -> Result<Vec<Copy>, Errno> {
        let (mut copies, mut after) = (vec![], None);
        while !records.is_empty() {
            let page = self.page_of_copies(node, partner, after).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.from);
            copies.extend(page.into_iter().filter(|copy| records.contains(&copy.from)));
        }
        Ok(copies)
    }

    /// Gives records of a node the places of their copies at its partner.
    ///
    /// # Errors
    /// The error that kept it from being recorded.
    pub async fn move_to(&self, on: On, node: NodeRank, partner: NodeRank, copies: &[Copy]) -> Result<(), Errno> {
        if partner == self.local.rank {
            // They are the tree's from now on.
            let moved: BTreeSet<LogPosition> = copies.iter().map(|copy| copy.to).collect();
            self.local.copies().drop_at(|to| moved.contains(&to));
        }
        for copies in copies.chunks(RELOCATED_MAX) {
            self.note_by_task(on, LeaderEntry::Relocated { node, to: partner, copies: copies.to_vec() }).await?;
        }
        if !copies.is_empty() {
            tracing::info!(%node, %partner, records = copies.len(), "records that a node does not have are where they were copied");
        }
        Ok(())
    }

    async fn page_of_copies(
        &self,
        node: NodeRank,
        partner: NodeRank,
        after: Option<LogPosition>,
    ) -> Result<Vec<Copy>, Errno> {
        if partner == self.local.rank {
            return Ok(self.local.copies().page(node, after));
        }
        self.nodes.answer_of(partner, &WriteMessage::Copies { of: node, after }, TIMEOUT).await
    }
}
