//! A node's records on their way to its partner, as the node sees it: it leads, the partner follows (`replication`).

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use forebay_types::{Errno, LogPosition};
use forebay_wire::write_message::{ReplicatedIndex, ToCopy};
use forebay_write::{Backlog, Next};
use tokio::time::Instant;

use super::remote::Nodes;
use super::replication::replicator::Replicator;
use crate::options::Copied;

/// A record, with the bytes of its contents.
pub type Record = (LogPosition, u32);

/// See the module.
pub struct Copying {
    /// The rule for what the partner copies.
    pub rule: Copied,
    /// How long nothing may be copied before who waits for it is told that there is no room.
    timeout: Duration,
    records: Replicator<Record>,
    /// When a program was last told so.
    refused_at: Mutex<Option<Instant>>,
}

impl Copying {
    pub fn new(records: Backlog<Record>, rule: Copied, timeout: Duration) -> Self {
        Self { rule, timeout, records: Replicator::new(records), refused_at: Mutex::default() }
    }

    /// Whether what is written is copied, whatever it is written to; `None` where the leader knows which files are below the right directory.
    pub fn copies_all(&self) -> Option<bool> {
        match self.rule {
            Copied::Below(_) => None,
            Copied::All => Some(true),
            Copied::Nothing => Some(false),
        }
    }

    /// A record was appended.
    pub fn note(&self, position: LogPosition, len: u32) {
        self.records.backlog().note((position, len));
        self.records.wake();
    }

    /// The partner asks for more, and has copied what it says.
    pub async fn answer(&self, nodes: &Nodes, have: Option<ReplicatedIndex>) -> ToCopy {
        self.records.hear(nodes, have);
        let Next::Entries { have, entries } = self.records.next(nodes).await else {
            unreachable!("all records that the partner lacks are kept");
        };
        ToCopy { have, records: entries }
    }

    /// Until the partner has all that was written until now, or does not ask any more.
    ///
    /// # Errors
    /// ENOSPC when it has no room for it for a long time, EIO where the daemon ends.
    pub async fn until_copied(&self, nodes: &Nodes) -> Result<(), Errno> {
        let count = self.records.want();
        let (mut left, mut since) = (u64::MAX, Instant::now());
        let waited = self.records.wait(nodes, |backlog| {
            if backlog.has(count) || backlog.kept().next().is_none() {
                return Some(Ok(()));
            }
            let bytes = backlog.kept_bytes();
            if backlog.is_silent(nodes.now()) {
                tracing::warn!(bytes, "the partner does not answer: what programs write is on this node alone");
                return Some(Ok(()));
            }
            if bytes < left {
                since = Instant::now();
            }
            left = bytes;
            (since.elapsed() >= self.timeout).then_some(Err(Errno::ENOSPC))
        });
        let outcome = waited.await.unwrap_or(Err(Errno::EIO));
        if outcome == Err(Errno::ENOSPC) {
            *self.refused_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        }
        outcome
    }

    /// How long ago a program was last told that the partner has no room.
    pub fn refused_ago(&self) -> Option<Duration> {
        self.refused_at.lock().unwrap_or_else(PoisonError::into_inner).map(|at| at.elapsed())
    }

    /// Records that the partner does not have.
    pub fn records(&self) -> Vec<Record> {
        self.records.backlog().kept().copied().collect()
    }

    /// How much that is, bytes; `None` while the partner does not ask.
    pub fn behind_bytes(&self, nodes: &Nodes) -> Option<u64> {
        let backlog = self.records.backlog();
        (!backlog.is_silent(nodes.now())).then(|| backlog.kept_bytes())
    }
}
