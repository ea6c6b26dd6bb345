//! Bytes that a loss of power has taken from nodes' logs.
//!
//! The tree may know of bytes that were written and committed, and not synced, when the power of their node went: the log of that
//! node ends before them. So the leader looks, when a node begins anew, whether its log has what the tree says. Missing bytes
//! are where the node's partner has copied them, or gone: their file is held back and named, as one with bytes that only
//! lost nodes have (`forebay_write::LostFile`). A partner that does not answer is looked at when it does: until then the bytes are gone,
//! so that nothing waits for them, and its copies of them stay. A log's records never change their places, so nothing else is found there. Until that is
//! known of a node, no file is changed in place with what it has. A node that has taken the tree over looks at its own log, too: the tree
//! came from another node, which may have known more of it.
//!
//! A node that does not answer at all (`LeaderEntry::Lost`) is asked in the same way until it does.

use std::collections::{BTreeMap, BTreeSet};

use forebay_types::threads::NODES_ASKED_AT_ONCE;
use forebay_types::{Errno, FileId, LogPosition, NodeRank};
use forebay_wire::Outcome;
use forebay_wire::journal::{LeaderEntry, RELOCATED_MAX};
use forebay_wire::write::{Copy, Source};
use forebay_wire::write_message::{CONTENTS_PARTS_MAX, LogPart, WriteMessage};
use forebay_write::timing::VERIFIED_WITHIN;
use forebay_write::{gone_from, is_gone, node_of_gone};

use super::calling::On;
use super::leader::Leader;
use crate::write::peers::{Waiting, all};

impl Leader {
    /// Looks whether logs have what the tree says, of the nodes of which that is not known.
    pub async fn verify_logs(&self) {
        if self.has_failed() || !self.election.is_held() {
            return;
        }
        // The log of the tree's first leader has nothing after what is missing in it, and so does the tree.
        let is_first = self.local.leadership().term == 0;
        let due = self.unverified.take().into_iter().filter(|node| !is_first || *node != self.local.rank);
        let (lost, due): (Vec<_>, Vec<_>) = due.partition(|node| self.tree().lost_nodes().contains(node));
        if lost.is_empty() && due.is_empty() {
            return;
        }
        for nodes in lost.chunks(NODES_ASKED_AT_ONCE) {
            let looks = nodes.iter().map(|node| Box::pin(self.look_again(*node, true)) as Waiting<'_, _>);
            all(looks.collect()).await;
        }
        for node in due {
            self.look_again(node, false).await;
        }
    }

    async fn look_again(&self, node: NodeRank, is_lost: bool) {
        let verified = if is_lost { self.look_for_lost(node).await } else { self.verify_log(node).await };
        if let Err(errno) = verified {
            tracing::debug!(%node, %errno, "whether a node has what it wrote is not known yet");
            self.unverified.put_back(node);
        }
    }

    /// Whether a node does not answer, as far as is known.
    pub fn is_lost(&self, node: NodeRank) -> bool {
        self.tree().lost_nodes().contains(&node)
    }

    /// A node asks something that is lost. If it answers, what it has can be had again before it is answered. By a task.
    ///
    /// # Errors
    /// EIO where the daemon ends.
    pub async fn hear(&self, node: NodeRank) -> Result<(), Errno> {
        let heard = self.unverified.heard(node);
        let _alone = self.unverified.hearing().await;
        // Otherwise an earlier request of the node has had it looked for.
        if self.unverified.heard(node) == heard {
            if let Err(errno) = self.look_for_lost(node).await {
                tracing::debug!(%node, %errno, "a node asks, and does not answer");
            }
            self.unverified.note_heard(node);
        }
        if self.nodes.is_ending() { Err(Errno::EIO) } else { Ok(()) }
    }

    /// Why a file that is there cannot be changed yet: when some of it turns out to be gone, it would stay as it is in part.
    pub fn why_unverified(&self, file: FileId) -> Option<String> {
        let tree = self.tree();
        let size = tree.state(file).ok()?.attributes.size_bytes;
        let pieces = tree.pieces(file, 0..size).ok()?;
        let node = pieces.iter().find_map(|piece| match piece.source {
            Source::Log(extent) => Some(extent.node).filter(|node| self.unverified.has(*node)),
            _ => None,
        })?;
        Some(format!("whether node {node} still has what was written there is not known yet"))
    }

    /// Gives records of a node that does not answer, or is known as lost, the places of their copies. Whether any may have them now.
    ///
    /// A leader that has just taken the tree over has not looked yet for copies of what the leader before had.
    ///
    /// # Errors
    /// As `failover`; EIO where the daemon ends.
    pub async fn find_elsewhere(&self, on: On, node: NodeRank) -> Result<bool, Errno> {
        if !is_gone(node) {
            return self.failover(on, node).await;
        }
        let node = node_of_gone(node);
        let is_first = self.is_lost(node) && self.unverified.heard(node) == 0;
        if is_first {
            self.hear(node).await?;
        }
        Ok(is_first)
    }

    /// Looks whether a node that did not answer does. Its partner's copies are used meanwhile.
    pub(super) async fn look_for_lost(&self, node: NodeRank) -> Result<(), Errno> {
        let asked = self.nodes.ask_once::<BTreeMap<u64, u64>>(node, &WriteMessage::Pending, VERIFIED_WITHIN);
        let answers = asked.await.is_some();
        // One after the other changes which nodes are lost.
        let _alone = self.unverified.looking().await;
        if !self.call(On::Pool, move |leader| leader.is_lost(node)).await? {
            return Ok(());
        }
        if !answers {
            let records = self.call(On::Pool, move |leader| leader.tree().records_of(node)).await?;
            for partner in self.nodes.partners_of(node) {
                let copies = self.copies_at(partner, node, &records).await.unwrap_or_default();
                self.move_to(On::Pool, node, partner, &copies).await?;
            }
            return Err(Errno::EIO);
        }
        self.verify_log(node).await?;
        self.take_gone_from(node).await?;
        let others = move |leader: &Self| -> Vec<NodeRank> {
            leader.tree().lost_nodes().iter().copied().filter(|lost| *lost != node).collect()
        };
        let nodes = self.call(On::Pool, others).await?;
        tracing::info!(%node, "a node answers again");
        self.note_by_task(On::Pool, LeaderEntry::Lost { nodes }).await
    }

    pub(super) async fn verify_log(&self, node: NodeRank) -> Result<(), Errno> {
        let mut missing = BTreeSet::new();
        let ends = self.call(On::Pool, move |leader| leader.ends_of(node)).await?;
        for ends in ends.chunks(CONTENTS_PARTS_MAX) {
            if self.has(node, ends.to_vec()).await? {
                continue;
            }
            for end in ends {
                if !self.has(node, vec![*end]).await? {
                    missing.insert(end.position);
                }
            }
        }
        let mut away = vec![];
        for partner in self.nodes.partners_of(node) {
            if self.call(On::Pool, move |leader| leader.is_lost(partner)).await? {
                away.push(partner);
                continue;
            }
            let copies = self.copies_at(partner, node, &missing).await?;
            self.move_to(On::Pool, node, partner, &copies).await?;
            self.take_gone(node, partner).await?;
        }
        if missing.is_empty() {
            return Ok(());
        }
        let left = self.call(On::Pool, move |leader| leader.tree().records_of(node)).await?;
        let gone: Vec<Copy> =
            left.intersection(&missing).map(|position| Copy { from: *position, to: *position, len: 0 }).collect();
        for copies in gone.chunks(RELOCATED_MAX) {
            let moved = LeaderEntry::Relocated { node, to: gone_from(node), copies: copies.to_vec() };
            self.note_by_task(On::Pool, moved).await?;
        }
        if !gone.is_empty() {
            let records = gone.len();
            tracing::error!(%node, records, ?away, "the loss of its power has taken what a node wrote and did not sync; nodes that are away may \
                                                   have copies");
        }
        Ok(())
    }

    /// A partner answers: it may have what is gone from other nodes' logs.
    ///
    /// # Errors
    /// EIO where it does not answer any more, else the error that kept its copies from being recorded.
    pub async fn take_gone_from(&self, partner: NodeRank) -> Result<(), Errno> {
        let nodes = self.nodes.others().into_iter().chain([self.local.rank]);
        for node in nodes.filter(|node| self.nodes.partners_of(*node).contains(&partner)) {
            self.take_gone(node, partner).await?;
        }
        Ok(())
    }

    async fn take_gone(&self, node: NodeRank, partner: NodeRank) -> Result<(), Errno> {
        let gone = gone_from(node);
        let records = self.call(On::Pool, move |leader| leader.tree().records_of(gone)).await?;
        let copies = self.copies_at(partner, node, &records).await?;
        self.move_to(On::Pool, gone, partner, &copies).await
    }

    /// Nodes that do not answer, and that may have copies of what is gone from the logs of `nodes`.
    pub fn partners_away(&self, nodes: &BTreeSet<NodeRank>) -> BTreeSet<NodeRank> {
        let partners = nodes.iter().flat_map(|node| self.nodes.partners_of(*node));
        partners.filter(|partner| self.is_lost(*partner)).collect()
    }

    /// The last byte that the tree needs of each record of a node.
    fn ends_of(&self, node: NodeRank) -> Vec<LogPart> {
        let mut ends = BTreeMap::<LogPosition, u32>::new();
        for extent in self.tree().written().filter(|extent| extent.node == node) {
            let last = extent.skip + u32::try_from(extent.len - 1).unwrap_or(u32::MAX);
            let end = ends.entry(extent.position).or_default();
            *end = last.max(*end);
        }
        ends.into_iter().map(|(position, skip)| LogPart { position, skip, len: 1 }).collect()
    }

    /// Whether a node's log has all of these.
    async fn has(&self, node: NodeRank, parts: Vec<LogPart>) -> Result<bool, Errno> {
        if node == self.local.rank {
            return self.call(On::Pool, move |leader| leader.has_here(&parts)).await?;
        }
        match self.nodes.call_once(node, &WriteMessage::Contents { parts }, VERIFIED_WITHIN).await {
            Ok((Outcome::Body, _)) => Ok(true),
            Ok((Outcome::Bundle(errors), _)) if errors == [Some(Errno::ESTALE)] => Ok(false),
            _ => Err(Errno::EIO),
        }
    }

    fn has_here(&self, parts: &[LogPart]) -> Result<bool, Errno> {
        let read = |part: &LogPart| self.local.read(part.position, part.skip, &mut vec![0; part.len as usize]);
        match parts.iter().try_for_each(read) {
            Err(Errno::ESTALE) => Ok(false),
            read => read.map(|()| true),
        }
    }
}
