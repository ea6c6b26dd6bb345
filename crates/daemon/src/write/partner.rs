//! A node that is other nodes' partner: it has copies of what they write in its own log.
//!
//! It follows each of them (`replication`; `Copying` leads): it asks what comes next, reads that from their logs and appends it to its own. A
//! copy goes when neither the tree nor its node needs the record. When a node is gone, its records are where the copies are: see `failover`.

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_log::LogError;
use forebay_types::{Errno, LogPosition, NodeRank};
use forebay_wire::log_record::RecordData;
use forebay_wire::write::Copy;
use forebay_wire::write_message::{LogPart, ReplicatedIndex, ToCopy, WriteMessage};
use forebay_write::timing::{COPIES_LOOKED_AT_EVERY, COPIES_LOOKED_AT_WITHIN};

use super::copying::Record;
use super::files::Files;
use super::local::Local;
use super::peers::copy;
use super::remote::Nodes;
use super::replication::follower::{Stream, follow};
use super::tree::tree_link::TreeLink;

/// See the module.
pub struct Partner {
    local: Arc<Local>,
    nodes: Arc<Nodes>,
    tree: TreeLink,
    files: Arc<Files>,
}

/// Another node's log, as far as it is copied here.
struct Followed {
    partner: Arc<Partner>,
    of: NodeRank,
    have: Option<ReplicatedIndex>,
}

impl Stream for Followed {
    type Answer = ToCopy;

    fn leader(&self) -> NodeRank {
        self.of
    }

    fn question(&self) -> WriteMessage {
        WriteMessage::Copy { have: self.have }
    }

    async fn take(&mut self, ToCopy { have, records }: ToCopy) -> Result<(), String> {
        if !records.is_empty() {
            self.partner.copy(self.of, records).await.map_err(|errno| errno.to_string())?;
        }
        self.have = Some(have);
        Ok(())
    }

    async fn fail(&mut self, failed: String) -> bool {
        tracing::warn!(of = %self.of, failed, "what a node writes is not copied");
        false
    }
}

impl Partner {
    /// Of the node that has this log.
    pub fn new(local: &Arc<Local>, nodes: &Arc<Nodes>, tree: TreeLink, files: &Arc<Files>) -> Self {
        let (local, nodes, files) = (Arc::clone(local), Arc::clone(nodes), Arc::clone(files));
        Self { local, nodes, tree, files }
    }

    /// Copies what a node writes, until all is over.
    pub async fn follow(self: Arc<Self>, of: NodeRank) {
        follow(&self.nodes, Followed { partner: Arc::clone(&self), of, have: None }).await;
    }

    /// Drops the copies of what a node has written that nobody needs any more, until all is over.
    pub async fn look(self: Arc<Self>, of: NodeRank) {
        while !self.nodes.is_ending() {
            self.nodes.pause(COPIES_LOOKED_AT_EVERY).await;
            if let Err(errno) = self.drop_unneeded(of, false).await {
                tracing::debug!(%of, %errno, "which copies are needed is not known");
            }
        }
    }

    /// A call that may block, on a thread of the pool.
    async fn block<T: Send + 'static>(
        self: &Arc<Self>,
        call: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Result<T, Errno> {
        let partner = Arc::clone(self);
        self.nodes.block(move || call(&partner)).await.ok_or(Errno::EIO)
    }

    async fn copy(self: &Arc<Self>, of: NodeRank, mut records: Vec<Record>) -> Result<(), Errno> {
        let lacking = move |partner: &Self| {
            let copies = partner.local.copies();
            // A daemon that begins hands those again that the one before may have handed.
            records.retain(|(position, len)| *len > 0 && !copies.has(of, *position));
            records
        };
        let mut batches = vec![self.block(lacking).await?];
        while let Some(records) = batches.pop().filter(|records| !records.is_empty()) {
            let len = records.iter().map(|(_, len)| *len as usize).sum();
            match self.nodes.read_parts(of, &contents_of(&records), len).await {
                Ok(parts) => {
                    let append = move |partner: &Self| {
                        let mut bytes = vec![0; len];
                        copy(&parts, &mut bytes);
                        partner.append_all(of, &records, &bytes)
                    };
                    self.block(append).await??;
                }
                // Some of them are not needed any more.
                Err(Errno::ESTALE) if records.len() > 1 => {
                    batches.extend(records.into_iter().rev().map(|record| vec![record]));
                }
                Err(Errno::ESTALE) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    fn append_all(&self, of: NodeRank, records: &[Record], mut bytes: &[u8]) -> Result<(), Errno> {
        for (from, len) in records {
            let (contents, rest) = bytes.split_at(*len as usize);
            bytes = rest;
            // Records that are appended are known before anybody counts.
            let _noting = self.files.noting();
            let appended = self.local.log.append_data(RecordData::Copy { of, from: *from }, contents);
            let to = appended.map_err(LogError::errno)?.position;
            self.local.copies().insert(of, Copy { from: *from, to, len: *len });
        }
        Ok(())
    }

    /// Drops the copies that nobody needs. Of a node that does not answer only what the tree needs is kept if it `is_gone`, else all.
    ///
    /// # Errors
    /// Why that is not known.
    pub async fn drop_unneeded(self: &Arc<Self>, of: NodeRank, is_gone: bool) -> Result<(), Errno> {
        let newest = self.block(move |partner| partner.local.copies().newest(of)).await?;
        let Some(newest) = newest else { return Ok(()) };
        let asked = self.nodes.answer_of::<BTreeMap<u64, u64>>(of, &WriteMessage::Pending, COPIES_LOOKED_AT_WITHIN);
        let pending = match asked.await {
            Err(_) if is_gone => BTreeMap::new(),
            pending => pending?,
        };
        let needed = self.tree.needed_of(of).await?;
        let is_needed = move |from: LogPosition| {
            from > newest || pending.contains_key(&from.segment) || needed.contains_key(&from.segment)
        };
        self.block(move |partner| partner.drop(of, is_needed)).await
    }

    fn drop(&self, of: NodeRank, is_needed: impl Fn(LogPosition) -> bool) {
        let dropped = self.local.copies().drop_of(of, is_needed);
        // Elsewhere it is counted (`reclaim`).
        let of_leader = dropped.into_iter().filter(|_| self.tree.here().is_some());
        for copy in of_leader {
            if let Err(error) = self.local.log.release(copy.to, copy.len.into()) {
                tracing::warn!(%error, "room in the store that is not given back");
            }
        }
    }
}

fn contents_of(records: &[Record]) -> WriteMessage {
    let part = |(position, len): &Record| LogPart { position: *position, skip: 0, len: *len };
    WriteMessage::Contents { parts: records.iter().map(part).collect() }
}
