//! Large files on their way to their drafts: stripe by stripe, by the nodes that have them (`forebay_write::Stripes`).
//!
//! The owner has nodes write, and notes what is verified; it writes the stripes of a node that fails itself. A draft stays where it
//! is when the daemon ends, so that the next one goes on with it. It is given up when it does not fit, and when a node may write to it
//! late: one that was to write a stripe and has not said what came of that.

use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forebay_store::Draft;
use forebay_types::threads::STRIPES_UNDER_WAY_MAX;
use forebay_types::{Backed, Errno, FileId, NodeRank, ViewPath, limits};
use forebay_wire::journal::LeaderEntry;
use forebay_wire::write::WrittenExtent;
use forebay_wire::write_message::{STRIPE_EXTENTS_MAX, Stripe, WriteMessage};
use forebay_write::stripes::{LARGE_BYTES, of_stripe, stripe_bytes, weights};
use forebay_write::{NextStripe, Stripes};

use super::drafts::give_up;
use super::sending::{Meter, Snapshot};
use super::uploading::{calls_of, write_stripe};
use crate::write::contents::Reader;
use crate::write::tree::owner::Owner;

/// How long a node may take over a stripe; the owner writes it then.
const NODE_PATIENCE: Duration = Duration::from_secs(25);

/// Sends large files; see the module.
pub struct Striping<'a> {
    pub owner: &'a Owner,
    pub reader: &'a Reader,
    pub meter: &'a Meter,
}

/// A file that is being sent.
struct Sending<'a> {
    with: &'a Striping<'a>,
    file: FileId,
    version: u64,
    path: &'a ViewPath,
    draft: &'a Draft,
    backed: Backed,
    extents: Vec<WrittenExtent>,
    stripe_bytes: u64,
    stripes: Mutex<Progress>,
    /// A stripe has ended.
    changed: Condvar,
}

struct Progress {
    stripes: Stripes,
    /// Bytes that are not verified.
    left_bytes: u64,
    /// Why the owner cannot go on.
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
    pub fn draft(&self, file: FileId, snapshot: &Snapshot, path: &ViewPath, number: u128) -> Result<Draft, Errno> {
        let mut left_out = BTreeSet::new();
        loop {
            let (draft, Progress { failed, late, .. }) = self.write_draft(file, snapshot, path, number, &left_out)?;
            let does_not_fit = matches!(failed, Some(Errno::ENOSPC | Errno::EDQUOT));
            if does_not_fit || !late.is_empty() {
                drop(draft);
                give_up(self.owner, file, path)?;
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
    fn write_draft(
        &self,
        file: FileId,
        snapshot: &Snapshot,
        path: &ViewPath,
        number: u128,
        left_out: &BTreeSet<NodeRank>,
    ) -> Result<(Draft, Progress), Errno> {
        let (draft, backed, stripe_bytes, verified) = self.begin(file, snapshot, path, number)?;
        let extents = snapshot.of_logs();
        let weights = weights(&extents, stripe_bytes);
        let mut stripes = Stripes::new(&weights, stripe_bytes, &verified, self.owner.local.rank);
        left_out.iter().for_each(|node| stripes.leave_out(*node));
        let left = weights.iter().filter(|(stripe, _)| !verified.contains(stripe));
        let bytes: u64 = left.flat_map(|(_, nodes)| nodes.values()).sum();
        let all_bytes: u64 = weights.values().flat_map(|nodes| nodes.values()).sum();
        tracing::info!(%file, bytes, stripe_bytes, nodes = stripes.nodes(), verified = verified.len(), "sending a file by stripes");
        let writers = stripes.at_once().min(STRIPES_UNDER_WAY_MAX);
        let sending = Sending {
            with: self,
            file,
            version: snapshot.version,
            path,
            draft: &draft,
            backed,
            extents,
            stripe_bytes,
            stripes: Mutex::new(Progress { stripes, left_bytes: bytes, failed: None, late: BTreeSet::new() }),
            changed: Condvar::new(),
        };
        self.meter.goes_on_from(all_bytes - bytes);
        self.meter.begin(bytes);
        std::thread::scope(|scope| {
            let begin =
                || std::thread::Builder::new().name("stripes".to_owned()).spawn_scoped(scope, || sending.work());
            // Where there are no more threads, fewer do it, in the end this one.
            if (0..writers).map_while(|_| begin().ok()).count() == 0 {
                sending.work();
            }
        });
        let progress = sending.stripes.into_inner().unwrap_or_else(PoisonError::into_inner);
        self.meter.give_up(progress.left_bytes);
        Ok((draft, progress))
    }

    /// The draft that an owner before this one began, with what is verified of it; otherwise a new one.
    fn begin(
        &self,
        file: FileId,
        snapshot: &Snapshot,
        path: &ViewPath,
        number: u128,
    ) -> Result<(Draft, Backed, u64, BTreeSet<u64>), Errno> {
        let (place, calls) = (&self.owner.local.place, &self.owner.local.calls);
        let sent = self.owner.tree().sent(file).filter(|sent| sent.version == snapshot.version).cloned();
        if let Some(sent) = sent
            && let Ok(draft) = calls.land(|| place.draft_again(path, number))
            && calls.land(|| place.backed_draft(&draft)).is_ok_and(|found| found.is_same_file(&sent.draft))
        {
            return Ok((draft, sent.draft, sent.stripe_bytes, sent.verified));
        }
        let mut draft = calls.land(|| place.draft(path, number))?;
        let size_bytes = snapshot.attributes.size_bytes;
        calls.land(|| draft.file().set_len(size_bytes)).map_err(|error| Errno::of(&error))?;
        calls.land(|| draft.stay())?;
        let (backed, block_bytes) =
            (calls.land(|| place.backed_draft(&draft))?, calls.land(|| place.attributes(path))?.blksize);
        let stripe_bytes = stripe_bytes(&snapshot.of_logs(), block_bytes);
        let (version, stripes) = (snapshot.version, vec![]);
        let begun = LeaderEntry::Verified { file, version, draft: backed, stripe_bytes, stripes };
        self.owner.note(&begun)?;
        Ok((draft, backed, stripe_bytes, BTreeSet::new()))
    }
}

impl Sending<'_> {
    /// Has stripes written until there are no more.
    fn work(&self) {
        while let Some((stripe, node)) = self.next_stripe() {
            let extents = of_stripe(&self.extents, stripe, self.stripe_bytes);
            let bytes = extents.iter().map(|extent| extent.len).sum();
            let may_begin = self.with.owner.local.calls.wait_for(bytes, calls_of(&extents));
            let written = may_begin.map_err(NotWritten::from).and_then(|()| self.write(node, &extents));
            let is_written = written.is_ok();
            let noted = written.and_then(|()| self.note(stripe).map_err(NotWritten::from));
            let mut progress = self.progress();
            match noted {
                Ok(()) => {
                    progress.stripes.verified(stripe);
                    progress.left_bytes -= bytes;
                    self.with.meter.verified(bytes, self.with.owner.nodes.now());
                }
                Err(NotWritten { is_late: true, .. }) => {
                    progress.late.insert(node);
                }
                Err(NotWritten { errno, .. }) => {
                    // A stripe that is written and cannot be noted is the next owner's.
                    if !is_written && progress.stripes.failed(stripe) {
                        tracing::warn!(%node, %errno, stripe, "a node cannot write its stripes of a file; they are written here");
                    } else {
                        progress.failed = progress.failed.or(Some(errno));
                    }
                }
            }
            drop(progress);
            self.changed.notify_all();
        }
    }

    fn next_stripe(&self) -> Option<(u64, NodeRank)> {
        let mut progress = self.progress();
        loop {
            if progress.failed.is_some() || !progress.late.is_empty() {
                return None;
            }
            match progress.stripes.next_stripe() {
                NextStripe::Write { stripe, node } => return Some((stripe, node)),
                NextStripe::Over => return None,
                NextStripe::Wait => {
                    progress = self.changed.wait(progress).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    fn write(&self, node: NodeRank, extents: &[WrittenExtent]) -> Result<(), NotWritten> {
        if node == self.with.owner.local.rank {
            return Ok(write_stripe(self.with.reader, self.draft.file(), extents)?);
        }
        if self.path.as_bytes().len() > limits::PATH_BYTES_MAX {
            return Err(Errno::ENAMETOOLONG.into());
        }
        let nodes = &self.with.reader.nodes;
        for extents in extents.chunks(STRIPE_EXTENTS_MAX) {
            let stripe =
                Stripe { owns: nodes.owns(), path: self.path.clone(), draft: self.backed, extents: extents.to_vec() };
            match nodes.ask::<Result<(), Errno>>(node, &WriteMessage::Stripe(stripe), NODE_PATIENCE) {
                Ok(Ok(())) => {}
                // It is still carrying out an earlier request.
                Ok(Err(errno)) => return Err(NotWritten { errno, is_late: errno == Errno::EBUSY }),
                Err(errno) => return Err(NotWritten { errno, is_late: true }),
            }
        }
        Ok(())
    }

    fn note(&self, stripe: u64) -> Result<(), Errno> {
        let (file, version, draft, stripe_bytes) = (self.file, self.version, self.backed, self.stripe_bytes);
        let verified = LeaderEntry::Verified { file, version, draft, stripe_bytes, stripes: vec![stripe] };
        self.with.owner.note(&verified)
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.stripes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
