//! A node that is other nodes' partner: it has copies of what they write in its own log.
//!
//! It asks each of them what comes next (`Copying` answers), reads that from their logs and appends it to its own. A copy goes
//! when neither the tree nor its node needs the record. When a node is gone, its records are where the copies are: see `rescue`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_log::LogError;
use forebay_types::{Errno, LogPosition, NodeRank};
use forebay_wire::log_record::RecordData;
use forebay_wire::write::Copy;
use forebay_wire::write_message::{LogPart, ToCopy, WriteMessage};

use super::files::Files;
use super::local::Local;
use super::remote::Nodes;
use super::tree::tree_link::TreeLink;

/// How long a node is asked before it is looked whether all is over: longer than it waits for something to be written.
const PATIENCE: Duration = Duration::from_secs(2);

/// Pause after something went wrong.
const AGAIN_AFTER: Duration = Duration::from_millis(200);

/// How often is looked which copies are needed.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// See the module.
pub struct Partner {
    local: Arc<Local>,
    nodes: Arc<Nodes>,
    tree: TreeLink,
    files: Arc<Files>,
}

impl Partner {
    /// Of the node that has this log.
    pub fn new(local: &Arc<Local>, nodes: &Arc<Nodes>, tree: TreeLink, files: &Arc<Files>) -> Self {
        let (local, nodes, files) = (Arc::clone(local), Arc::clone(nodes), Arc::clone(files));
        Self { local, nodes, tree, files }
    }

    /// Copies what a node writes, until all is over.
    pub fn follow(&self, of: NodeRank) {
        let (mut done, mut looked_at) = (None, Instant::now());
        while !self.nodes.is_ending() {
            match self.follow_once(of, done) {
                Ok(batch) => done = Some(batch),
                Err(_) if self.nodes.is_ending() => return,
                Err(errno) => {
                    tracing::warn!(%of, %errno, "what a node writes is not copied");
                    done = None;
                    std::thread::sleep(AGAIN_AFTER);
                }
            }
            if looked_at.elapsed() >= LOOK_EVERY && self.local.copies().has_any(of) {
                looked_at = Instant::now();
                if let Err(errno) = self.drop_unneeded(of, false) {
                    tracing::debug!(%of, %errno, "which copies are needed is not known");
                }
            }
        }
    }

    fn follow_once(&self, of: NodeRank, done: Option<u64>) -> Result<u64, Errno> {
        let ToCopy { batch, records } = self.nodes.ask(of, &WriteMessage::Copy { done }, PATIENCE)?;
        let records: Vec<_> =
            records.into_iter().filter(|(position, len)| *len > 0 && !self.local.copies().has(of, *position)).collect();
        if records.is_empty() {
            return Ok(batch);
        }
        let mut bytes = vec![0; records.iter().map(|(_, len)| *len as usize).sum()];
        match self.nodes.read(of, &contents_of(&records), &mut bytes) {
            Ok(()) => self.append_all(of, &records, &bytes)?,
            // Some of them are not needed any more.
            Err(Errno::ESTALE) => records.iter().try_for_each(|record| self.copy_one(of, *record))?,
            Err(errno) => return Err(errno),
        }
        Ok(batch)
    }

    fn copy_one(&self, of: NodeRank, record: (LogPosition, u32)) -> Result<(), Errno> {
        let mut bytes = vec![0; record.1 as usize];
        match self.nodes.read(of, &contents_of(&[record]), &mut bytes) {
            Ok(()) => self.append_all(of, &[record], &bytes),
            Err(Errno::ESTALE) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    fn append_all(&self, of: NodeRank, records: &[(LogPosition, u32)], mut bytes: &[u8]) -> Result<(), Errno> {
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
    pub fn drop_unneeded(&self, of: NodeRank, is_gone: bool) -> Result<(), Errno> {
        let newest = self.local.copies().newest(of);
        let pending = match self.nodes.ask::<BTreeMap<u64, u64>>(of, &WriteMessage::Pending, PATIENCE) {
            Err(_) if is_gone => BTreeMap::new(),
            pending => pending?,
        };
        let needed = self.tree.needed_of(of)?;
        let is_needed = |from: LogPosition| {
            Some(from) > newest || pending.contains_key(&from.segment) || needed.contains_key(&from.segment)
        };
        let dropped = self.local.copies().drop_of(of, is_needed);
        // Elsewhere it is counted (`giving_back`).
        if self.tree.here().is_some() {
            for copy in dropped {
                if let Err(error) = self.local.log.release(copy.to, copy.len.into()) {
                    tracing::warn!(%error, "room in the store that is not given back");
                }
            }
        }
        Ok(())
    }
}

fn contents_of(records: &[(LogPosition, u32)]) -> WriteMessage {
    let part = |(position, len): &(LogPosition, u32)| LogPart { position: *position, skip: 0, len: *len };
    WriteMessage::Contents { parts: records.iter().map(part).collect() }
}
