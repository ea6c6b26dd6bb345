//! The state of a node's read path, and its one way to ask and to answer. Decisions of the dispatch are not carried out
//! here but in `events`, after all earlier decisions: so there are no callbacks.

use std::collections::VecDeque;
use std::time::Duration;

use forebay_cache::Key;
use forebay_dispatch::{Dispatch, HoldId, Joined, RequestId, Source, Wanted};
use forebay_overlay::Forest;
use forebay_types::{FileSystem, NodeRank, Priority, Referral, Time, ViewPath};
use forebay_wire::ReadMessage;

use crate::bundles::Bundles;
use crate::effect::{Effect, KernelAnswer, KernelTicket, PeerAnswer, PeerTicket, StaleInode};
use crate::inode_id::InodeId;
use crate::inodes::Inodes;
use crate::kept::Kept;
use crate::links::Links;
use crate::parcels::Parcels;
use crate::prefetches::Prefetches;
use crate::reads::Reads;
use crate::rechecks::Rechecks;
use crate::recording::Recording;
use crate::referrals::Referrals;
use crate::refreshes::Refreshes;
use crate::routing::ReadRouting;
use crate::waiter::{ReadDispatch, Waiter};

/// A node's settings and its place in the job.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which node this is.
    pub rank: NodeRank,
    /// The trees, by which nodes ask each other.
    pub forest: Forest,
    /// Memory for kept objects, bytes.
    pub budget_bytes: u64,
    /// Time a request may take.
    pub deadline: Duration,
    /// Files above this size are read from the backing file system by each node itself, bytes.
    pub direct_above_bytes: Option<u64>,
    /// Whether what programs usually want next is prefetched.
    pub prefetch: bool,
    /// How long names and attributes are believed; for ever if not given. Each node keeps them so long, so on the way
    /// down the tree the times add up.
    pub entry_ttl: Option<Duration>,
    /// Which symbolic links are shown as links inside the view; all as they are if not given.
    pub links: Option<Links>,
}

/// Counts since the start; sums of a job are made of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Of requests and attempts.
    pub dispatch: forebay_dispatch::Counters,
    /// Requests that were asked before anybody wanted their answers.
    pub prefetch_issued: u64,
    /// Of these, those that were in demand then.
    pub prefetch_used: u64,
    /// Attempts at peers that travelled in the message of another.
    pub bundled: u64,
    /// Requests of peers taken.
    pub served_peers: u64,
    /// Absent names answered from a complete listing.
    pub negative_hits: u64,
    /// Refreshes that this node had missed, and made up for by forgetting all names.
    pub refreshes_missed: u64,
    /// Parcels that were taken apart.
    pub parcels: u64,
    /// Parcels that did not come, once for each time.
    pub parcels_failed: u64,
    /// Chunks that the kernel was given before it asked for them.
    pub prefilled: u64,
}

/// The state of one node's read path. `B` is the handle of a chunk's bytes, shared by cloning.
pub struct ReadPath<B> {
    pub(super) options: Options,
    /// The last time that was told.
    pub(super) now: Time,
    pub(super) inodes: Inodes,
    pub(super) kept: Kept<B>,
    pub(super) dispatch: ReadDispatch,
    pub(super) reads: Reads<B>,
    pub(super) bundles: Bundles<B>,
    pub(super) referrals: Referrals,
    pub(super) refreshes: Refreshes,
    pub(super) rechecks: Rechecks,
    pub(super) prefetches: Prefetches,
    pub(super) parcels: Parcels,
    pub(super) recording: Recording,
    /// The sizes of the file system as last told, and when.
    pub(super) sizes: Option<(Time, FileSystem)>,
    pub(super) effects: VecDeque<Effect<B>>,
    pub(super) counters: Counters,
}

impl<B: Clone> ReadPath<B> {
    /// A node that knows nothing yet.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let Options { rank, ref forest, budget_bytes, direct_above_bytes, prefetch, entry_ttl, .. } = options;
        let routing = ReadRouting { rank, forest: forest.clone(), direct_above_bytes };
        Self {
            options,
            now: Time(0),
            inodes: Inodes::new(),
            kept: Kept::new(budget_bytes, entry_ttl),
            dispatch: Dispatch::new(routing),
            reads: Reads::new(),
            bundles: Bundles::new(),
            referrals: Referrals::default(),
            refreshes: Refreshes::default(),
            rechecks: Rechecks::default(),
            prefetches: Prefetches::new(prefetch),
            parcels: Parcels::default(),
            recording: Recording::default(),
            sizes: None,
            effects: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    /// Whether this node reads `key` from the backing file system for others too, as the root or in its place.
    pub(super) fn reads_for_others(&self, key: &Key) -> bool {
        self.dispatch.source_of(self.now, key) == Source::Backing && self.routing().may_be_root(key)
    }

    pub(super) fn routing(&self) -> &ReadRouting {
        self.dispatch.routing()
    }

    pub(super) fn deadline(&self) -> Time {
        self.now.after(self.options.deadline)
    }

    /// Asks for `key` by `message`, or joins who did; `waiter` is told. The number of the request if it is new.
    pub(super) fn ask(
        &mut self,
        key: Key,
        message: ReadMessage,
        priority: Priority,
        deadline: Time,
        waiter: Option<Waiter>,
    ) -> Option<RequestId> {
        // A request that waited for a parcel waits no longer.
        if let (Some(hold), Some(request)) = (self.parcels.hold_of(&key), self.dispatch.find(&key)) {
            self.dispatch.release_one(self.now, request, hold);
        }
        let holds = self.refreshes.holds_of(&key).chain(self.rechecks.holds_of(&key)).collect();
        let is_alone = matches!(&waiter, Some(Waiter::Peer(asker)) if asker.referral == Referral::Alone);
        self.ask_held(key, message, Wanted { priority, deadline, waiter, holds, is_alone })
    }

    /// The same, where it may have to wait.
    pub(super) fn ask_held(&mut self, key: Key, message: ReadMessage, wanted: Wanted<Waiter>) -> Option<RequestId> {
        match self.dispatch.request(self.now, key, || message, wanted) {
            Joined::First(request) => Some(request),
            Joined::Coalesced(_) => None,
        }
    }

    pub(super) fn let_go(&mut self, hold: HoldId) {
        self.dispatch.release(self.now, hold);
    }

    pub(super) fn tell_kernel(&mut self, ticket: KernelTicket, answer: KernelAnswer<B>) {
        self.effects.push_back(Effect::AnswerKernel { ticket, answer });
    }

    pub(super) fn tell_peer(&mut self, ticket: PeerTicket, answer: PeerAnswer<B>) {
        self.effects.push_back(Effect::AnswerPeer { ticket, answer });
    }

    /// The requests under way for such keys, in the order they began.
    pub(super) fn requests_where(&self, is_one: impl Fn(&Key) -> bool) -> Vec<RequestId> {
        self.dispatch.requests().filter(|(_, key)| is_one(key)).map(|(request, _)| request).collect()
    }

    /// Inodes by the names that the kernel knows them by.
    pub(super) fn name_stale(&self, stale: Vec<(InodeId, ViewPath)>) -> Vec<StaleInode> {
        let entry_of = |path: &ViewPath| {
            let (dir, name) = path.split()?;
            Some((self.inodes.id_of(&dir)?, name.to_vec()))
        };
        stale.iter().map(|(inode, path)| StaleInode { inode: *inode, entry: entry_of(path) }).collect()
    }
}
