//! The leader's part in the stream to its standby (`replication`), and which changes are safe there.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay_types::{Errno, LogPosition};
use forebay_wire::journal::EntryRef;
use forebay_wire::message::encode;
use forebay_wire::write::WrittenExtent;
use forebay_wire::write_message::{Followed, Leadership, Renewal, ReplicatedIndex};
use forebay_write::timing::PARTS_KEPT;
use forebay_write::{Backlog, Entries, Lineage, Next, Tree};
use tokio::time::Instant;

use super::calling::On;
use super::election::Election;
use crate::write::local::Local;
use crate::write::remote::Nodes;
use crate::write::replication::replicator::Replicator;

/// Files and directories in one answer with parts of the tree; some 150 bytes each.
const PARTS_FILES_MAX: usize = 4096;

/// See the module.
pub struct TreeReplicator {
    local: Arc<Local>,
    nodes: Arc<Nodes>,
    /// Those who let this node lead the tree.
    election: Arc<Election>,
    /// As which it began.
    leadership: Leadership,
    renewals: AtomicU64,
    /// Room in the log that the standby's tree may still need, and with how many changes it does not.
    releasing: Mutex<VecDeque<(u64, LogPosition, u64)>>,
    /// For the standby, if it has one. Changes are noted while the tree is had.
    history: Replicator<Vec<u8>>,
    has_standby: bool,
    /// Whether nothing had happened before this daemon.
    begins_tree: bool,
    /// The tree that the standby gets in parts. It shares with the leader's what has not changed since.
    sending: Mutex<Option<Sending>>,
}

/// A tree on its way to the standby.
struct Sending {
    have: ReplicatedIndex,
    tree: Tree,
    asked_at: Instant,
}

impl TreeReplicator {
    /// Of a leader whose tree came to be as `history` says, and has a standby or not.
    pub fn new(
        local: &Arc<Local>,
        nodes: &Arc<Nodes>,
        election: &Arc<Election>,
        (lineage, recent): (Lineage, Entries<Vec<u8>>),
        has_standby: bool,
    ) -> Self {
        let recent = if has_standby { recent } else { Entries::default() };
        Self {
            local: Arc::clone(local),
            nodes: Arc::clone(nodes),
            election: Arc::clone(election),
            leadership: local.leadership(),
            renewals: AtomicU64::new(0),
            releasing: Mutex::default(),
            begins_tree: lineage.have().count == 0,
            history: Replicator::new(Backlog::new(lineage, recent, nodes.now())),
            has_standby,
            sending: Mutex::default(),
        }
    }

    /// A step was taken. With what history, if anybody follows it. The tree is had.
    pub fn note(&self, entry: EntryRef<'_>) -> Option<ReplicatedIndex> {
        let mut history = self.history.backlog();
        if !self.has_standby {
            history.count();
            return None;
        }
        history.note(encode(&entry));
        Some(history.have())
    }

    /// How many changes there are with the next one. The tree is had.
    pub fn next_count(&self) -> u64 {
        self.history.backlog().have().count + 1
    }

    /// How the tree came to be as it is. The tree is had.
    pub fn lineage(&self) -> Lineage {
        self.history.backlog().lineage().clone()
    }

    /// Changes that were noted may be sent.
    pub fn wake(&self) {
        self.history.wake();
    }

    /// As much as the standby has.
    pub fn has(&self) -> Option<ReplicatedIndex> {
        self.followed()?.safe()
    }

    /// All changes until now survive the loss of power, and of this node where the standby follows. For another node only once: that asks again.
    ///
    /// # Errors
    /// EIO, also when this node may not lead the tree any more; for another node EAGAIN then.
    pub async fn make_durable_on(&self, on: On) -> Result<(), Errno> {
        if on == On::Pool {
            self.local.make_durable_for_all().await?;
            self.wait_for_standby().await?;
            return self.check_held();
        }
        loop {
            self.election.hold().await?;
            self.local.make_durable_for_all().await?;
            match self.wait_for_standby().await.and_then(|()| self.check_held()) {
                Err(Errno::EAGAIN) if !self.nodes.is_ending() => {}
                Err(_) if self.nodes.is_ending() => return Err(Errno::EIO),
                outcome => return outcome,
            }
        }
    }

    /// Until it has what has happened until now, or does not follow any more.
    ///
    /// # Errors
    /// EAGAIN when this node may not lead the tree any more.
    pub async fn wait_for_standby(&self) -> Result<(), Errno> {
        if !self.has_standby {
            return Ok(());
        }
        let count = self.history.want();
        let waited = self.history.wait(&self.nodes, |history| {
            if history.is_safe(self.nodes.now(), count, self.election.may_go_on_alone()) {
                return Some(Ok(()));
            } else if !self.election.is_held() {
                return Some(Err(Errno::EAGAIN));
            }
            // Those who let this node lead the tree are to know whether it is waited for.
            self.election.wake();
            None
        });
        waited.await.unwrap_or(Err(Errno::EAGAIN))
    }

    fn check_held(&self) -> Result<(), Errno> {
        if self.election.is_held() { Ok(()) } else { Err(Errno::EAGAIN) }
    }

    /// The renewal for the voters.
    pub fn renewal(&self) -> Renewal {
        let is_followed = self.followed().is_some_and(|mut history| history.is_followed(self.nodes.now()));
        let number = self.renewals.fetch_add(1, Ordering::Relaxed);
        Renewal {
            leadership: self.leadership,
            incarnation: self.history.backlog().have().incarnation,
            number,
            is_followed,
        }
    }

    /// Changes that the standby does not have; `None` where none follows.
    pub fn second_home_behind(&self) -> Option<u64> {
        let history = self.followed()?;
        history.follower(self.nodes.now()).map(|follower| history.have().count - follower.have.count)
    }

    /// Whether no store lacks a change: that of a standby that is silent may, unless it has never followed a tree that began with this daemon.
    pub fn standby_has_all(&self) -> bool {
        let has_all = |history: &Backlog<_>| history.has_all() || self.begins_tree && !history.has_follower();
        self.followed().is_none_or(|history| has_all(&history))
    }

    /// The standby asks, and has this much. Whether the tree has one.
    pub fn hear(&self, have: Option<ReplicatedIndex>) -> bool {
        if self.has_standby {
            let is_followed = || self.history.backlog().is_followed(self.nodes.now());
            let was_followed = is_followed();
            self.history.hear(&self.nodes, have);
            if is_followed() != was_followed {
                // Those who let this node lead the tree would not let the standby take it over.
                self.election.wake();
            }
        }
        self.has_standby
    }

    /// The next answer to it.
    pub async fn next(&self) -> Next<Vec<u8>> {
        self.history.next(&self.nodes).await
    }

    /// The parts of the tree that come next, for a standby that has come to `parts` of one. A tree that changes alone no longer lead on
    /// from is begun anew: `tree` copies it, with what it is made of. May block.
    pub fn parts(
        &self,
        parts: Option<(ReplicatedIndex, u32)>,
        tree: impl FnOnce() -> (ReplicatedIndex, Tree),
    ) -> Followed {
        // One question at a time: whoever asks again meanwhile has given up the one before.
        let Ok(mut sending) = self.sending.try_lock() else { return Followed::NotNow };
        let is_usable = |sending: &Sending| self.history.backlog().leads_on_from(sending.have);
        let kept = sending.take().filter(is_usable);
        let Sending { have, tree, .. } = kept.unwrap_or_else(|| {
            let (have, tree) = tree();
            tracing::info!(files = tree.files(), "the standby gets the whole tree");
            Sending { have, tree, asked_at: Instant::now() }
        });
        let first = parts.filter(|(of, _)| *of == have).map_or(0, |(_, next)| next);
        let (some, next) = tree.parts(first as usize, PARTS_FILES_MAX);
        let next = next.map(|next| next as u32);
        *sending = Some(Sending { have, tree, asked_at: Instant::now() });
        Followed::Parts { have, first, next, tree: encode(&some) }
    }

    /// A tree that nobody asks for any more is not kept.
    fn forget_sending(&self) {
        if let Ok(mut sending) = self.sending.try_lock() {
            let is_asked_for = |sending: &Sending| sending.asked_at.elapsed() < PARTS_KEPT;
            *sending = sending.take().filter(is_asked_for);
        }
    }

    /// The tree does not need these extents of this node's log any more, since `have`.
    pub fn release<'a>(&self, extents: impl Iterator<Item = &'a WrittenExtent>, have: Option<ReplicatedIndex>) {
        let count = have.map_or(0, |have| have.count);
        self.releasing().extend(extents.map(|extent| (count, extent.position, extent.len)));
        self.release_safe();
    }

    /// Whether room may be to be given back.
    pub fn is_releasing(&self) -> bool {
        !self.releasing().is_empty()
    }

    /// Gives back the room that neither this tree nor the standby's needs. May block.
    pub fn release_safe(&self) {
        self.forget_sending();
        let safe = self.followed().map_or(u64::MAX, |mut history| {
            let count = history.have().count;
            match history.is_safe(self.nodes.now(), count, self.election.may_go_on_alone()) {
                true => count,
                false => history.safe().map_or(0, |safe| safe.count),
            }
        });
        let released: Vec<_> = {
            let mut releasing = self.releasing();
            let released = releasing.partition_point(|(count, ..)| *count <= safe);
            releasing.drain(..released).collect()
        };
        for (_, position, len) in released {
            if let Err(error) = self.local.log.release(position, len) {
                tracing::warn!(%error, "room in the store that is not given back");
            }
        }
    }

    /// Where the tree has a standby.
    fn followed(&self) -> Option<MutexGuard<'_, Backlog<Vec<u8>>>> {
        self.has_standby.then(|| self.history.backlog())
    }

    fn releasing(&self) -> MutexGuard<'_, VecDeque<(u64, LogPosition, u64)>> {
        self.releasing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
