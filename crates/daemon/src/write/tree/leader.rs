//! The leader: carries changes out, in the order in which it writes them down.
//!
//! A change is applied and its note appended under one lock, so that the log has the order in which things happened. A change
//! that was not written down never happened: when the log fails, everything is refused from then on.

use std::collections::BTreeSet;
use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use forebay_store::Held;
use forebay_types::{Errno, FileId, Map, NodeRank, ViewPath};
use forebay_wire::journal::EntryRef;
use forebay_wire::write::{Change, Done, Operation, Place};
use forebay_wire::write_message::{Changed, ReplicatedIndex};
use forebay_write::timing::{BELIEVED_BY_LEADER_BEFORE, LEASE_TTL_HELD};
use forebay_write::{Entries, Invalidation, Leases, Lineage, Refusal, Released, Tree};
use tokio::sync::Notify;

use super::calling::{BackingPart, On};
use super::election::Election;
use super::memory::{Footprint, Forgetting};
use super::paths::backing_path;
use super::replicator::TreeReplicator;
use super::stores::Stores;
use super::unverified::Unverified;
use crate::write::local::Local;
use crate::write::notes::Note;
use crate::write::page_cache::PageCache;
use crate::write::remote::Nodes;

/// Changes within such a time land together.
const GATHER: Duration = Duration::from_millis(5);

/// How often is looked whether the kernel can be told, when the daemon begins.
const KERNEL_LOOK: Duration = Duration::from_millis(5);

/// The tree with what it stands on.
pub struct Leader {
    /// For calls on other threads.
    pub(super) own: Weak<Self>,
    pub(super) backing_part: BackingPart,
    pub local: Arc<Local>,
    tree: Mutex<Tree>,
    /// Something may be to be done on the backing file system.
    changed: Notify,
    has_failed: AtomicBool,
    /// Files of the backing file system that have no name there any more, and that programs have open.
    unlinked: Mutex<Map<FileId, Arc<File>>>,
    /// Nodes' reports on their stores.
    pub(super) stores: Stores,
    /// Nodes whose logs may lack what the tree says they have.
    pub unverified: Unverified,
    pub nodes: Arc<Nodes>,
    /// Those who let this node lead the tree.
    pub election: Arc<Election>,
    /// The part of the tree that the standby has.
    pub replicator: TreeReplicator,
    /// The leases of other nodes.
    leases: Mutex<Leases>,
    /// The answers that this node's kernel believes.
    cache: Arc<PageCache>,
    pub(super) forgetting: Forgetting,
    pub(super) footprint: Footprint,
}

/// A change that was carried out, and of which nodes have not been told.
pub struct Applied {
    node: NodeRank,
    done: Done,
    have: Option<ReplicatedIndex>,
    /// By whom it is believed.
    to_tell: Vec<Invalidation>,
    touched: Vec<FileId>,
}

impl Applied {
    /// Its outcome, with the tree's history afterwards, if that has a standby.
    pub fn outcome(&self) -> (Done, Option<ReplicatedIndex>) {
        (self.done, self.have)
    }

    /// Whether no node has to forget anything because of it, nor the kernel of `own`, which leads the tree.
    pub fn is_for_all(&self, own: NodeRank) -> bool {
        self.to_tell.is_empty() && (self.node == own || self.touched.is_empty())
    }
}

/// Of a leader among others of a tree.
pub struct Life {
    /// Otherwise those before it may have told nodes of the tree.
    pub is_first: bool,
    /// The node that it has taken the tree over from.
    pub leader_before: Option<NodeRank>,
    /// How its tree came to be as it is.
    pub history: (Lineage, Entries<Vec<u8>>),
    /// Whether the tree has a standby.
    pub has_standby: bool,
    /// Of the node's kernel.
    pub cache: Arc<PageCache>,
    /// Memory that the node may take for the exports and the tree together.
    pub budget_bytes: u64,
}

impl Leader {
    /// The leader of `tree`.
    pub fn new(local: &Arc<Local>, nodes: &Arc<Nodes>, election: &Arc<Election>, tree: Tree, life: Life) -> Arc<Self> {
        let left = |node| match Some(node) == life.leader_before {
            true => BELIEVED_BY_LEADER_BEFORE,
            false => LEASE_TTL_HELD,
        };
        let told = nodes.others().into_iter().filter(|_| !life.is_first).map(|node| (node, left(node)));
        // The election reaches these calls itself: a strong reference would be a cycle.
        let held = Arc::downgrade(election);
        local.calls.land_only_while(move || held.upgrade().is_some_and(|election| election.is_held()));
        Arc::new_cyclic(|own| Self {
            own: Weak::clone(own),
            backing_part: BackingPart::default(),
            local: Arc::clone(local),
            forgetting: Forgetting::new(life.budget_bytes, tree.listed_directories()),
            footprint: Footprint::default(),
            tree: Mutex::new(tree),
            changed: Notify::new(),
            has_failed: AtomicBool::new(false),
            unlinked: Mutex::default(),
            stores: Stores::default(),
            unverified: Unverified::new([nodes.others(), vec![local.rank]].concat()),
            leases: Mutex::new(Leases::unknown(nodes.now(), told)),
            nodes: Arc::clone(nodes),
            election: Arc::clone(election),
            replicator: TreeReplicator::new(local, nodes, election, life.history, life.has_standby),
            cache: life.cache,
        })
    }

    /// The nodes whose stores fill.
    pub fn filling(&self) -> BTreeSet<NodeRank> {
        let own = self.local.is_filling().then_some(self.local.rank);
        self.stores.filling().into_iter().chain(own).collect()
    }

    /// The nodes that answer, of those whose stores have anything.
    pub fn answering(&self) -> BTreeSet<NodeRank> {
        self.stores.answering().into_iter().chain([self.local.rank]).collect()
    }

    /// The tree, to be looked at.
    pub fn tree(&self) -> MutexGuard<'_, Tree> {
        self.tree.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer to a node whose change came to this.
    pub fn changed_by(&self, outcome: Result<(Done, Option<ReplicatedIndex>), Errno>) -> Changed {
        let safe = self.replicator.has();
        match outcome {
            Ok((done, have)) => Changed { outcome: Ok(done), have, safe },
            Err(errno) => Changed { outcome: Err(errno), have: None, safe },
        }
    }

    /// Takes a step of the tree's history and writes it down. Waits for no other node; `tell_of` is to follow.
    ///
    /// # Errors
    /// The error that the program gets, or the refusal of a tree that needs to know more first.
    pub fn apply<'a>(&self, entry: impl Into<EntryRef<'a>>) -> Result<Applied, Refusal> {
        self.apply_where(entry, |_| Ok(()))
    }

    /// The same where the tree, as it is then, is one for which it may be.
    ///
    /// # Errors
    /// As `apply`; the error of `may`.
    pub fn apply_where<'a, E: From<Refusal>>(
        &self,
        entry: impl Into<EntryRef<'a>>,
        may: impl FnOnce(&Tree) -> Result<(), E>,
    ) -> Result<Applied, E> {
        let (entry, mut released) = (entry.into(), Released::default());
        let node = match entry {
            EntryRef::Request(change) => change.id.node,
            EntryRef::Leader(_) => self.local.rank,
        };
        let applied = {
            let mut tree = self.tree();
            if self.has_failed() {
                return Err(Refusal::from(Errno::EIO).into());
            }
            may(&tree)?;
            let touched = tree.touched_by(entry);
            let done = tree.apply(entry, &mut released)?;
            if let Err(error) = self.local.log.append_note(&Note::own(self.replicator.next_count(), entry)) {
                tracing::error!(%error, "a change cannot be recorded: no further changes are accepted");
                self.has_failed.store(true, Ordering::Relaxed);
                return Err(Refusal::from(Errno::EIO).into());
            }
            let have = self.replicator.note(entry);
            let (mut leases, now) = (self.leases(), self.nodes.now());
            if let EntryRef::Request(change) = entry {
                leases.note(now, node, &change.operation, &done);
            }
            let to_tell = leases.to_tell(now, node, &touched);
            Applied { node, done, have, to_tell, touched }
        };
        self.release(&released, applied.have);
        if matches!(entry, EntryRef::Request(Change { operation: Operation::CloseAll, .. })) {
            self.unverified.note(node);
        }
        self.changed.notify_one();
        self.replicator.wake();
        Ok(applied)
    }

    /// Waits until no node believes any more what it knew before a change.
    ///
    /// # Errors
    /// EIO where this node ends meanwhile.
    pub async fn tell_of(&self, applied: &Applied) -> Result<(), Errno> {
        let Applied { node, to_tell, touched, .. } = applied;
        if *node != self.local.rank && !touched.is_empty() {
            self.invalidate(touched).await?;
        }
        if !to_tell.is_empty() {
            self.nodes.invalidate_all(to_tell, &|told| self.leases().ends(told)).await;
            if self.nodes.is_ending() {
                return Err(Errno::EIO);
            }
            let mut leases = self.leases();
            to_tell.iter().for_each(|told| leases.forgotten(told));
        }
        Ok(())
    }

    /// This node's kernel is told.
    async fn invalidate(&self, files: &[FileId]) -> Result<(), Errno> {
        while let Err(errno) = self.cache.invalidate(files).await {
            if self.nodes.is_ending() {
                return Err(errno);
            }
            self.nodes.pause(KERNEL_LOOK).await;
        }
        Ok(())
    }

    /// All changes until now survive the loss of power, and of this node where the standby follows.
    ///
    /// # Errors
    /// EIO, also when this node may not lead the tree any more.
    pub async fn make_durable(&self) -> Result<(), Errno> {
        self.replicator.make_durable_on(On::Task).await
    }

    pub(super) fn leases(&self) -> MutexGuard<'_, Leases> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the file at `path` open, which is about to lose its last name there.
    pub async fn keep_open(&self, file: FileId, path: &ViewPath) {
        let at = path.clone();
        match self.local.land(move |place| place.open_to_read(&at)).await {
            Ok(open) => {
                self.unlinked().insert(file, Arc::new(open));
                // It may have been closed meanwhile.
                if self.tree().state(file).is_err() {
                    self.unlinked().remove(&file);
                }
            }
            Err(errno) => tracing::warn!(%file, %errno, "a file that programs have open is lost with its name"),
        }
    }

    /// A file that was kept open.
    pub fn kept_open(&self, file: FileId) -> Option<Arc<File>> {
        self.unlinked().get(&file).map(Arc::clone)
    }

    fn unlinked(&self) -> MutexGuard<'_, Map<FileId, Arc<File>>> {
        self.unlinked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Files that nobody reaches any more take no room in the log, and are not kept open.
    fn release(&self, released: &Released, have: Option<ReplicatedIndex>) {
        for file in &released.files {
            self.unlinked().remove(file);
        }
        self.replicator.release(released.extents.iter().filter(|extent| extent.node == self.local.rank), have);
    }

    /// Where a file lies on the backing file system by now, below the place of the tree; `None` when it is not there.
    pub fn backing_path(&self, file: FileId) -> Option<ViewPath> {
        backing_path(&self.tree(), file)
    }

    /// Where a name of a directory lies there by now.
    ///
    /// # Errors
    /// ENOENT when the directory is not there.
    pub fn path_of(&self, place: &Place) -> Result<ViewPath, Errno> {
        let tree = self.tree();
        let directory = backing_path(&tree, place.directory).ok_or(Errno::ENOENT)?;
        directory.join_deep(tree.backing_name(place).as_bytes()).map_err(|_| Errno::ENAMETOOLONG)
    }

    /// Takes hold of a file on the backing file system.
    ///
    /// # Errors
    /// ESTALE when another is there now: somebody else has put it there.
    pub async fn hold(&self, file: FileId, path: &ViewPath) -> Result<Held, Errno> {
        let at = path.clone();
        let held = self.local.land(move |place| place.hold(&at)).await?;
        let backed = self.tree().backed(file);
        match backed.is_none_or(|backed| backed.is_same_file(&held.backed())) {
            true => Ok(held),
            false => Err(Errno::ESTALE),
        }
    }

    /// Whether nothing can be changed any more.
    pub fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// Waits until there may be something to be done on the backing file system, or for a time. Changes soon after are done with
    /// it: otherwise each change would wake who lands it.
    pub async fn wait_for_change(&self, time: Duration) {
        self.replicator.release_safe();
        tokio::select! {
            biased;
            () = self.changed.notified() => self.nodes.pause(GATHER).await,
            () = self.nodes.pause(time) => {}
        }
    }
}
