//! The read path of one node.
//!
//! `kernel` answers the kernel's requests, `peers` other nodes', `answers` takes what sources bring, `entries` finds a
//! name in what is known, `reads` gathers the chunks of a read, `bundles` those of a peer's bundle, `chunks` keeps and hands
//! on bytes, `refresh` forgets,
//! `recheck` what a file has turned out not to be. `early` asks before anybody does, `parcels` for what an earlier start
//! used; `record` notes what this start uses, `explain` tells where an answer would
//! come from. Whom to ask, and whom instead, is `forebay_dispatch`'s: this file asks it (`ask`), carries its events out
//! (`carry`) and hears of every end of a request (`on_end`).

mod answers;
mod bundles;
mod chunks;
mod early;
mod entries;
mod explain;
mod kernel;
mod parcels;
mod peers;
mod reads;
mod recheck;
mod record;
mod refresh;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use forebay_cache::{Key, KindCounters, ObjectKind, Objects};
use forebay_dispatch::{AttemptId, Dispatch, Event, Failure, Finished, HoldId, Joined, RequestId, Source, Wanted};
use forebay_overlay::Forest;
use forebay_types::{Epoch, Errno, Map, NodeRank, Priority, Time, ViewPath};
use forebay_wire::{ReadMessage, Request};

pub use explain::Explanation;
pub use parcels::ParcelChunk;
pub use refresh::QUIET_MAX;

use crate::inodes::Inodes;
use crate::ledger::{InodeLedger, LedgerContents};
use crate::links::Links;
use crate::routing::ReadRouting;
use crate::{Effect, InodeId, KernelAnswer, KernelTicket, PeerAnswer, PeerTicket, StaleInode};
use bundles::PendingBundle;
use chunks::Chunk;
use entries::Known;
use forebay_prefetch::Habits;
use kernel::Operation;
use parcels::Parcels;
use reads::{PendingRead, Reader};
use recheck::Recheck;
use record::Recording;
use refresh::Refreshes;

/// What a node is told about itself and its job.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which node this is.
    pub rank: NodeRank,
    /// Who asks whom.
    pub forest: Forest,
    /// Memory for kept objects, bytes.
    pub budget_bytes: u64,
    /// Time a question may take.
    pub deadline: Duration,
    /// Files above this size are read from the backing file system by each node itself, bytes.
    pub direct_above_bytes: Option<u64>,
    /// Whether the reader of the backing file system asks early for what programs usually want next.
    pub prefetch: bool,
    /// How long names and attributes are believed; for ever if not given. Each node keeps them so long, so on the way
    /// down the tree the times add up.
    pub names_last: Option<Duration>,
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
    /// Of these, those whose answers somebody wanted then.
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

/// Who waits for a request.
#[derive(Clone, Debug)]
enum Waiter {
    Kernel {
        ticket: KernelTicket,
        operation: Operation,
        known: Known,
    },
    /// One part of a read.
    ReadPart {
        ticket: KernelTicket,
        slot: usize,
    },
    Peer(PeerTicket),
    /// One file of a peer's bundle.
    BundleFile {
        ticket: PeerTicket,
        slot: usize,
    },
    /// This node itself, for a parcel.
    Prefill(u32),
}

impl forebay_dispatch::Waiter for Waiter {
    type Id = Reader;

    fn id(&self) -> Option<Reader> {
        match self {
            Self::Kernel { ticket, .. } | Self::ReadPart { ticket, .. } => Some(Reader::Kernel(*ticket)),
            Self::Peer(ticket) | Self::BundleFile { ticket, .. } => Some(Reader::Peer(*ticket)),
            Self::Prefill(_) => None,
        }
    }
}

/// Requests of the read path.
type ReadDispatch = Dispatch<Key, ReadMessage, Waiter, ReadRouting>;

/// A request of the read path that has ended.
type ReadFinished = Finished<Key, Waiter>;

/// The state of one node's read path. `B` is the handle of a chunk's bytes, shared by cloning.
pub struct ReadPath<B> {
    options: Options,
    /// The last time that was told.
    now: Time,
    inodes: Inodes,
    objects: Objects<Chunk<B>>,
    allowed_bytes: u64,
    aside_bytes: u64,
    dispatch: ReadDispatch,
    /// Whether events of the dispatch are being carried out.
    is_carrying: bool,
    refreshes: Refreshes,
    next_hold: u64,
    /// The chunks that are filling.
    filling: Map<Key, Chunk<B>>,
    /// The requests whose answers fill them.
    filled_by: Map<RequestId, Key>,
    pending_reads: Map<KernelTicket, PendingRead<B>>,
    pending_bundles: Map<PeerTicket, PendingBundle<B>>,
    pins: Vec<ViewPath>,
    /// Chunks kept for this node's kernel alone, oldest first; some may have left already.
    own_chunks: VecDeque<Key>,
    /// Their bytes, also of those that have left.
    own_bytes: u64,
    rechecks: BTreeMap<RequestId, Recheck>,
    habits: Habits,
    /// Requests that nobody wanted when they were asked.
    early: BTreeSet<RequestId>,
    parcels: Parcels,
    recording: Recording,
    effects: VecDeque<Effect<B>>,
    counters: Counters,
}

impl<B: Clone> ReadPath<B> {
    /// A node that knows nothing yet.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let objects = Objects::new(options.budget_bytes);
        let Options { rank, ref forest, direct_above_bytes, .. } = options;
        let routing = ReadRouting { rank, forest: forest.clone(), direct_above_bytes };
        Self {
            allowed_bytes: options.budget_bytes,
            aside_bytes: 0,
            options,
            now: Time(0),
            inodes: Inodes::new(),
            objects,
            dispatch: Dispatch::new(routing),
            is_carrying: false,
            refreshes: Refreshes::default(),
            next_hold: 0,
            filling: Map::default(),
            filled_by: Map::default(),
            pending_reads: Map::default(),
            pending_bundles: Map::default(),
            pins: Vec::new(),
            own_chunks: VecDeque::new(),
            own_bytes: 0,
            rechecks: BTreeMap::new(),
            habits: Habits::default(),
            early: BTreeSet::new(),
            parcels: Parcels::default(),
            recording: Recording::default(),
            effects: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    /// Goes on with the inodes that a daemon before this one told the kernel of, and writes down all from now on. Before
    /// the first request.
    pub fn keep_inodes(&mut self, ledger: Box<dyn InodeLedger>, contents: LedgerContents) {
        self.inodes.keep(ledger, contents);
    }

    /// The next thing to do, in the order it was decided; `None` when there is nothing.
    pub fn poll_effect(&mut self) -> Option<Effect<B>> {
        self.effects.pop_front()
    }

    /// When `run_timers` has something to do next.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        let requests = self.dispatch.poll_timeout().into_iter();
        requests.chain(self.hold_ends()).chain(self.parcels.first_wait_end()).min()
    }

    /// Gives up what has passed its deadline: who waits is told `ETIMEDOUT`, or `EHOSTUNREACH` if there was nobody to
    /// ask. Looks for nodes that are silent and for requests that are slow.
    pub fn run_timers(&mut self, now: Time) {
        self.now = now;
        self.end_late_hold();
        self.end_long_waits_for_parcels();
        self.dispatching(|dispatch| dispatch.run_timers(now));
    }

    /// A node answered that it is there, and up to which refresh it has forgotten, or did not answer.
    pub fn handle_ping(&mut self, now: Time, peer: NodeRank, alive_in: Option<Epoch>) {
        self.now = now;
        self.dispatching(|dispatch| dispatch.pinged(now, peer, alive_in.is_some()));
        if let Some(epoch) = alive_in {
            self.handle_epoch(now, epoch);
        }
    }

    /// A node does not answer while the job starts: it is bypassed until it does.
    pub fn handle_absent(&mut self, now: Time, peer: NodeRank) {
        self.dispatching(|dispatch| dispatch.absent(now, peer));
    }

    /// The nodes that are bypassed, in order of rank.
    #[must_use]
    pub fn suspects(&self) -> Vec<NodeRank> {
        self.dispatch.detector().suspects()
    }

    /// Who waits for a request now, by the number of an attempt whose answer has not begun.
    #[must_use]
    pub fn priority_of(&self, attempt: AttemptId) -> Option<Priority> {
        self.dispatch.priority_of(attempt)
    }

    /// The kernel's caller is being killed: answers `EINTR` if the request still waits here. `false` if it does not.
    pub fn handle_interrupt(&mut self, ticket: KernelTicket) -> bool {
        let waited = self.withdraw(Reader::Kernel(ticket));
        if waited {
            self.tell_kernel(ticket, KernelAnswer::Failed(Errno::EINTR));
        }
        waited
    }

    /// The kernel forgot `count` lookups of an inode.
    pub fn handle_forget(&mut self, inode: InodeId, count: u64) {
        self.inodes.forget(inode, count);
    }

    /// Drops all that is kept, pins included. The kernel is to be told of the inodes returned, in this order.
    pub fn clear(&mut self) -> Vec<StaleInode> {
        self.end_parcels();
        self.objects.clear();
        self.pins.clear();
        self.own_chunks.clear();
        self.own_bytes = 0;
        self.habits.clear();
        let stale = self.inodes.make_stale();
        self.name_stale(stale)
    }

    /// Keeps what is read at or below `path` from now on, and what is kept of it now, until `clear`. Once more it pins
    /// what has come since.
    ///
    /// # Errors
    /// `ENOSPC` when `PINS_MAX` paths are pinned.
    pub fn pin(&mut self, path: ViewPath) -> Result<(), Errno> {
        let is_pinned = self.pins.contains(&path);
        if !is_pinned && self.pins.len() >= PINS_MAX {
            return Err(Errno::ENOSPC);
        }
        self.objects.pin_within(&path);
        self.pins.extend((!is_pinned).then_some(path));
        Ok(())
    }

    /// Counts since the start.
    #[must_use]
    pub fn counters(&self) -> Counters {
        Counters { dispatch: self.dispatch.counters(), ..self.counters }
    }

    /// Counts of what is kept.
    #[must_use]
    pub fn kept(&self, kind: ObjectKind) -> KindCounters {
        self.objects.counters(kind)
    }

    /// Bytes kept, of the budget.
    #[must_use]
    pub fn kept_bytes(&self) -> u64 {
        self.objects.bytes()
    }

    /// Bytes that may be kept: the budget, or less while memory is scarce.
    #[must_use]
    pub fn allowed_bytes(&self) -> u64 {
        self.allowed_bytes
    }

    /// Bytes of these that are taken otherwise (`set_aside`).
    #[must_use]
    pub fn aside_bytes(&self) -> u64 {
        self.aside_bytes
    }

    /// Lets the caches keep so much from now on.
    pub fn allow_bytes(&mut self, bytes: u64) {
        self.allowed_bytes = bytes;
        self.fit_objects();
    }

    /// Bytes beside what is kept that count against the same budget: chunks that are held though they are not kept any
    /// more. At least a quarter stays for what is kept.
    pub fn set_aside(&mut self, bytes: u64) {
        if self.aside_bytes != bytes {
            self.aside_bytes = bytes;
            self.fit_objects();
        }
    }

    fn fit_objects(&mut self) {
        let bytes = self.allowed_bytes.saturating_sub(self.aside_bytes).max(self.allowed_bytes / 4);
        self.objects.set_budget(bytes);
    }

    /// Requests that have no answer yet, and chunks that are not whole yet.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.dispatch.under_way_count() + self.filling.len()
    }

    /// Number of inodes that the kernel knows of.
    #[must_use]
    pub fn inode_count(&self) -> usize {
        self.inodes.len()
    }

    /// Whether this node reads `key` from the backing file system for others too, as the root or in its place.
    fn reads_for_others(&self, key: &Key) -> bool {
        self.dispatch.source_of(key) == Source::Backing && self.routing().may_be_root(key)
    }

    fn routing(&self) -> &ReadRouting {
        self.dispatch.routing()
    }

    /// Asks for `key` by `message`, or joins who did; `waiter` is told. The number of the request if it is new.
    fn ask(
        &mut self,
        key: Key,
        message: ReadMessage,
        priority: Priority,
        deadline: Time,
        waiter: Option<Waiter>,
    ) -> Option<RequestId> {
        self.wait_for_no_parcel(&key);
        let wanted = Wanted { priority, deadline, waiter, holds: self.holds_of(&key) };
        self.ask_held(key, message, wanted)
    }

    /// The same, where it may have to wait.
    fn ask_held(&mut self, key: Key, message: ReadMessage, wanted: Wanted<Waiter>) -> Option<RequestId> {
        let now = self.now;
        match self.dispatching(|dispatch| dispatch.request(now, key, || message, wanted)) {
            Joined::First(request) => Some(request),
            Joined::Coalesced(_) => None,
        }
    }

    /// What a new request for `key` has to wait for.
    fn holds_of(&self, key: &Key) -> Vec<HoldId> {
        self.refreshes.hold_of(key).into_iter().chain(self.rechecks_of(key)).collect()
    }

    fn new_hold(&mut self) -> HoldId {
        self.next_hold += 1;
        HoldId(self.next_hold)
    }

    /// Lets the dispatch decide, and carries out what it decided.
    fn dispatching<T>(&mut self, decide: impl FnOnce(&mut ReadDispatch) -> T) -> T {
        let outcome = decide(&mut self.dispatch);
        // What an event leads to is carried out after the events before it, or many failures at once would nest as deep.
        if !std::mem::replace(&mut self.is_carrying, true) {
            while let Some(event) = self.dispatch.poll_event() {
                self.carry(event);
            }
            self.is_carrying = false;
        }
        outcome
    }

    fn carry(&mut self, event: Event<Key, ReadMessage, Waiter>) {
        match event {
            Event::Ask { attempt, source, message, priority, epoch, deadline } => {
                self.fetch(attempt, source, Request { epoch, priority, message }, deadline);
            }
            Event::Promote { attempt, source } => self.effects.push_back(Effect::Promote { attempt, source }),
            Event::Cancel { attempt } => self.effects.push_back(Effect::Cancel { attempt }),
            Event::Ping { peer, epoch, deadline } => self.effects.push_back(Effect::Ping { peer, epoch, deadline }),
            Event::Late { waiters, why } => {
                waiters.into_iter().for_each(|waiter| self.tell_failed(waiter, why.errno()));
            }
            Event::Failed { finished, why } => self.request_failed(finished, why),
            Event::BodyLost { request } => self.end_filling(request, false),
        }
    }

    /// A request ended without an answer.
    fn request_failed(&mut self, finished: ReadFinished, why: Failure) {
        self.on_end(finished.request);
        match why {
            Failure::NoSource | Failure::BackingLost => self.tell_all_failed(finished, why.errno()),
            // Whoever's time is over has none for asking otherwise.
            Failure::TimedOut | Failure::CutOff => {
                finished.waiters.into_iter().for_each(|waiting| self.tell_failed(waiting.who, why.errno()));
            }
        }
    }

    /// A request has ended, and the body that answers it too.
    fn on_end(&mut self, request: RequestId) {
        self.end_recheck(request);
        self.note_ended(request);
    }

    /// Forgets names that have been kept for as long as they last.
    fn drop_if_old(&mut self, key: &Key) {
        if let Some(last) = self.options.names_last
            && self.objects.age(key, self.now).is_some_and(|age| age >= last)
        {
            self.objects.remove(key);
        }
    }

    /// Takes somebody out of the read that waits for him and out of all requests. Whether he waited for anything.
    fn withdraw(&mut self, reader: Reader) -> bool {
        let read = match reader {
            Reader::Kernel(ticket) => self.pending_reads.remove(&ticket).is_some(),
            Reader::Peer(ticket) => self.pending_bundles.remove(&ticket).is_some(),
        };
        let ended = self.dispatching(|dispatch| dispatch.withdraw(reader));
        let waited = read || ended.is_some();
        ended.into_iter().flatten().for_each(|request| self.on_end(request));
        waited
    }

    fn tell_failed(&mut self, waiter: Waiter, errno: Errno) {
        match waiter {
            Waiter::Kernel { ticket, .. } => self.tell_kernel(ticket, KernelAnswer::Failed(errno)),
            Waiter::ReadPart { ticket, .. } => self.fail_read(ticket, errno),
            Waiter::Peer(ticket) => self.tell_peer(ticket, PeerAnswer::Failed(errno)),
            Waiter::BundleFile { ticket, slot } => self.fill_bundle(ticket, slot, Err(errno)),
            Waiter::Prefill(index) => self.parcel_failed(index, errno),
        }
    }

    fn tell_kernel(&mut self, ticket: KernelTicket, answer: KernelAnswer<B>) {
        self.effects.push_back(Effect::AnswerKernel { ticket, answer });
    }

    fn tell_peer(&mut self, ticket: PeerTicket, answer: PeerAnswer<B>) {
        self.effects.push_back(Effect::AnswerPeer { ticket, answer });
    }
}

/// Paths that may be pinned at a time: a list walked at every insertion.
const PINS_MAX: usize = 64;
