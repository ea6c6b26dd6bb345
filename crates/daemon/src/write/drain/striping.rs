//! Large files on their way to their drafts: stripe by stripe, by the nodes that have them (`forebay_write::Stripes`).
//!
//! The leader has nodes write, and notes what is verified; it writes the stripes of a node that fails itself. A draft stays where it
//! is when the daemon ends, so that the next one goes on with it. It is given up when it does not fit, and when a node may write to it
//! late: one that was to write a stripe and has not said what came of that.
//!
//! Each stripe under way is a part of the task of landing.

use std::collections::BTreeSet;
use std::fs::File;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forebay_store::Draft;
use forebay_types::{BackingId, Errno, FileId, NodeRank, ViewPath, limits};
use forebay_wire::journal::LeaderEntry;
use forebay_wire::write::WrittenExtent;
use forebay_wire::write_message::{STRIPE_EXTENTS_MAX, Stripe, WriteMessage};
use forebay_write::stripes::{LARGE_BYTES, of_stripe, stripe_bytes, weights};
use forebay_write::{NextStripe, Stripes};
use tokio::sync::Notify;

use super::drafts::{discard, give_up};
use super::meter::Meter;
use super::several::several;
use super::snapshot::Snapshot;
use super::uploading::{cost_of, write_stripe};
use crate::write::calls::By;
use crate::write::contents::Reader;
use crate::write::tree::leader::Leader;

/// How long a node may take over a stripe; the leader writes it then.
const NODE_TIMEOUT: Duration = Duration::from_secs(25);

/// Stripes of all nodes under way at the same time, each a message to its node.
const UNDER_WAY_MAX: usize = 64;

/// Sends large files; see the module.
pub struct Striping<'a> {
    pub leader: &'a Leader,
    pub reader: &'a Reader,
    pub meter: &'a Meter,
}

/// A file that is being sent.
struct Sending<'a> {
    with: &'a Striping<'a>,
    file: FileId,
    version: u64,
    path: &'a ViewPath,
    draft: Arc<File>,
    backed: BackingId,
    extents: Vec<WrittenExtent>,
    stripe_bytes: u64,
    stripes: Mutex<Progress>,
    /// A stripe has ended.
    changed: Notify,
}

struct Progress {
    stripes: Stripes,
    /// Bytes that are not verified.
    left_bytes: u64,
    /// Why the leader cannot go on.
    failed: Option<Errno>,
    /// Nodes that may still write to the draft.
    late: BTreeSet<NodeRank>,
}

/// Why a stripe is not written.
struct NotWritten {
    errno: Errno,
    /// Whether it may still be.
    is_late: bool,
}

impl From<Errno> for NotWritten {
    fn from(errno: Errno) -> Self {
        Self { errno, is_late: false }
    }
}

impl Striping<'_> {
    /// Whether a file is sent by stripes.
    pub fn is_for(snapshot: &Snapshot) -> bool {
        snapshot.bytes() >= LARGE_BYTES
    }

    /// The draft of a file at `path`, with all that logs have of it. It is noted that it has a draft, durably.
    ///
    /// # Errors
    /// The backing file system's error, or that of a log; EINTR when the daemon ends. Verified bytes are not sent again.
    pub async fn draft(
        &self,
        file: FileId,
        snapshot: &Snapshot,
        path: &ViewPath,
        number: u128,
    ) -> Result<Draft, Errno> {
        let mut left_out = BTreeSet::new();
        loop {
            let (draft, Progress { failed, late, .. }) =
                self.write_draft(file, snapshot, path, number, &left_out).await?;
            let does_not_fit = matches!(failed, Some(Errno::ENOSPC | Errno::EDQUOT));
            if does_not_fit || !late.is_empty() {
                give_up(self.leader, file, draft).await?;
            } else if failed.is_none() {
                return Ok(draft);
            }
            if let Some(errno) = failed {
                return Err(errno);
            }
            tracing::warn!(%file, nodes = ?late, "nodes do not say whether they have written stripes of a file; the file gets \
                                                  another draft, without them");
            left_out.extend(late);
        }
    }

    /// Writes stripes to a draft until all are there, or something is the matter; those of nodes that are `left_out` here.
    async fn write_draft(
        &self,
        file: FileId,
        snapshot: &Snapshot,
        path: &ViewPath,
        number: u128,
        left_out: &BTreeSet<NodeRank>,
    ) -> Result<(Draft, Progress), Errno> {
        let (draft, backed, stripe_bytes, verified) = self.begin(file, snapshot, path, number).await?;
        let extents = snapshot.of_logs();
        let weights = weights(&extents, stripe_bytes);
        let mut stripes = Stripes::new(&weights, stripe_bytes, &verified, self.leader.local.rank);
        left_out.iter().for_each(|node| stripes.leave_out(*node));
        let left = weights.iter().filter(|(stripe, _)| !verified.contains(stripe));
        let bytes: u64 = left.flat_map(|(_, nodes)| nodes.values()).sum();
        let all_bytes: u64 = weights.values().flat_map(|nodes| nodes.values()).sum();
        tracing::info!(%file, bytes, stripe_bytes, nodes = stripes.nodes(), verified = verified.len(), "sending a file by stripes");
        let writers = stripes.at_once().min(UNDER_WAY_MAX);
        let open = draft.file().try_clone().map_err(|error| Errno::of(&error))?;
        let sending = Sending {
            with: self,
            file,
            version: snapshot.version,
            path,
            draft: Arc::new(open),
            backed,
            extents,
            stripe_bytes,
            stripes: Mutex::new(Progress { stripes, left_bytes: bytes, failed: None, late: BTreeSet::new() }),
            changed: Notify::new(),
        };
        self.meter.goes_on_from(all_bytes - bytes);
        self.meter.begin(bytes);
        several(writers, (0..writers).map(|_| sending.work()).collect::<Vec<_>>()).await;
        let progress = sending.stripes.into_inner().unwrap_or_else(PoisonError::into_inner);
        self.meter.give_up(progress.left_bytes);
        Ok((draft, progress))
    }

    /// The draft that a leader before this one began, with what is verified of it; otherwise a new one.
    async fn begin(
        &self,
        file: FileId,
        snapshot: &Snapshot,
        path: &ViewPath,
        number: u128,
    ) -> Result<(Draft, BackingId, u64, BTreeSet<u64>), Errno> {
        let sent = self.leader.tree().sent(file).filter(|sent| sent.version == snapshot.version).cloned();
        if let Some(sent) = sent {
            let (at, of) = (path.clone(), sent.draft);
            let again = self.leader.local.land_together(2, move |place, may_land| {
                let draft = may_land.call(|| place.draft_again(&at, number))?;
                let is_it = may_land.call(|| place.backed_draft(&draft))?.is_same_file(&of);
                Ok(is_it.then_some(draft))
            });
            if let Ok(Some(draft)) = again.await {
                return Ok((draft, sent.draft, sent.stripe_bytes, sent.verified));
            }
        }
        let (at, size_bytes) = (path.clone(), snapshot.attributes.size_bytes);
        let begin = self.leader.local.land_together(5, move |place, may_land| {
            let mut draft = may_land.call(|| place.draft(&at, number))?;
            let sized = may_land.call(|| draft.file().set_len(size_bytes).map_err(|error| Errno::of(&error)));
            let kept = sized.and_then(|()| may_land.call(|| draft.keep()));
            kept.inspect_err(|_| discard(&draft, may_land))?;
            let backed = may_land.call(|| place.backed_draft(&draft))?;
            Ok((draft, backed, may_land.call(|| place.attributes(&at))?.blksize))
        });
        let (draft, backed, block_bytes) = begin.await?;
        let stripe_bytes = stripe_bytes(&snapshot.of_logs(), block_bytes);
        let (version, stripes) = (snapshot.version, vec![]);
        let begun = LeaderEntry::Verified { file, version, draft: backed, stripe_bytes, stripes };
        self.leader.note_found(begun).await?;
        Ok((draft, backed, stripe_bytes, BTreeSet::new()))
    }
}

impl Sending<'_> {
    /// Has stripes written until there are no more.
    async fn work(&self) {
        while let Some((stripe, node)) = self.next_stripe().await {
            let extents = of_stripe(&self.extents, stripe, self.stripe_bytes);
            let cost = cost_of(&extents);
            let written = match self.with.leader.local.calls.wait_for(cost).await {
                Ok(()) => self.write(node, &extents).await,
                Err(errno) => Err(errno.into()),
            };
            let is_written = written.is_ok();
            let noted = match written {
                Ok(()) => self.note(stripe).await.map_err(NotWritten::from),
                failed => failed,
            };
            self.has_ended((stripe, node), cost.bytes, noted, is_written);
            self.changed.notify_waiters();
        }
    }

    fn has_ended(&self, (stripe, node): (u64, NodeRank), bytes: u64, noted: Result<(), NotWritten>, is_written: bool) {
        let mut progress = self.progress();
        match noted {
            Ok(()) => {
                progress.stripes.verified(stripe);
                progress.left_bytes -= bytes;
                self.with.meter.verified(bytes, self.with.leader.nodes.now());
            }
            Err(NotWritten { is_late: true, .. }) => {
                progress.late.insert(node);
            }
            Err(NotWritten { errno, .. }) => {
                // A stripe that is written and cannot be noted is the next leader's.
                if !is_written && progress.stripes.failed(stripe) {
                    tracing::warn!(%node, %errno, stripe, "a node cannot write its stripes of a file; they are written here");
                } else {
                    progress.failed = progress.failed.or(Some(errno));
                }
            }
        }
    }

    async fn next_stripe(&self) -> Option<(u64, NodeRank)> {
        loop {
            let changed = self.changed.notified();
            match self.look_for_stripe() {
                NextStripe::Write { stripe, node } => return Some((stripe, node)),
                NextStripe::Over => return None,
                NextStripe::Wait => changed.await,
            }
        }
    }

    fn look_for_stripe(&self) -> NextStripe {
        let mut progress = self.progress();
        let has_failed = progress.failed.is_some() || !progress.late.is_empty();
        if has_failed { NextStripe::Over } else { progress.stripes.next_stripe() }
    }

    async fn write(&self, node: NodeRank, extents: &[WrittenExtent]) -> Result<(), NotWritten> {
        if node == self.with.leader.local.rank {
            return Ok(write_stripe(self.with.reader, By::StripeOfLeader, &self.draft, extents).await?);
        }
        if self.path.as_bytes().len() > limits::PATH_BYTES_MAX {
            return Err(Errno::ENAMETOOLONG.into());
        }
        let nodes = &self.with.reader.nodes;
        for extents in extents.chunks(STRIPE_EXTENTS_MAX) {
            let stripe = Stripe {
                leadership: nodes.leadership(),
                path: self.path.clone(),
                draft: self.backed,
                extents: extents.to_vec(),
            };
            match nodes.answer_of::<Result<(), Errno>>(node, &WriteMessage::Stripe(stripe), NODE_TIMEOUT).await {
                Ok(Ok(())) => {}
                // It is still carrying out an earlier request.
                Ok(Err(errno)) => return Err(NotWritten { errno, is_late: errno == Errno::EBUSY }),
                Err(errno) => return Err(NotWritten { errno, is_late: true }),
            }
        }
        Ok(())
    }

    async fn note(&self, stripe: u64) -> Result<(), Errno> {
        let (file, version, draft, stripe_bytes) = (self.file, self.version, self.backed, self.stripe_bytes);
        let verified = LeaderEntry::Verified { file, version, draft, stripe_bytes, stripes: vec![stripe] };
        self.with.leader.note_found(verified).await
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.stripes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
