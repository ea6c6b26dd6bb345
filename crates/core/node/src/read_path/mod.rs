//! The read path of one node.
//!
//! `kernel` answers the kernel's requests, `peers` other nodes', `answers` takes what sources bring, `entries` finds a
//! name in what is known, `reads` gathers the chunks of a read, `chunks` keeps and hands on bytes, `ways` finds whom to
//! ask and whom to ask instead, `refresh` forgets, `recheck` what a file has turned out not to be. `early` asks before
//! anybody does, `parcels` for what an earlier start used, and reads wait for that in `awaited`; `record` notes what this
//! start uses, `explain` tells where an answer would come from. This file holds the state they share and the beginning of a
//! question: joined if it is under way, else sent out; and its end when its time is over.

mod answers;
mod awaited;
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
mod ways;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use forebay_cache::{CallId, Flight, InFlight, Joined, Key, KindCounters, ObjectKind, Objects};
use forebay_overlay::{Class, Forest};
use forebay_types::{Errno, Map, NodeRank, Time, Urgency, ViewPath};
use forebay_wire::Request;

pub use explain::Explanation;
pub use parcels::ParcelChunk;

use crate::anticipate::Anticipation;
use crate::inodes::Inodes;
use crate::ledger::{InodeLedger, LedgerContents};
use crate::links::Links;
use crate::placement::placement;
use crate::{Effect, InodeId, KernelAnswer, KernelTicket, PeerAnswer, PeerTicket};
use awaited::Awaited;
use chunks::Chunk;
use entries::Known;
use kernel::Operation;
use parcels::Parcels;
use reads::{PendingRead, Reader};
use recheck::Recheck;
use record::Recording;
use refresh::Epoch;
use ways::Ways;

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
    pub anticipate: bool,
    /// How long names and attributes are believed; for ever if not given. Each node keeps them so long, so on the way
    /// down the tree the times add up.
    pub names_last: Option<Duration>,
    /// Which symbolic links are shown as links inside the view; all as they are if not given.
    pub links: Option<Links>,
}

/// Counts since the start; sums of a job are made of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Questions sent to peers.
    pub asked_peers: u64,
    /// Questions sent to the backing file system.
    pub asked_backing: u64,
    /// Questions asked before anybody did, of these.
    pub asked_early: u64,
    /// Of these, those whose answers somebody wanted then.
    pub early_used: u64,
    /// Questions asked ahead that a program came to wait for while they were under way.
    pub promoted: u64,
    /// Requests of peers taken.
    pub served_peers: u64,
    /// Requests that joined one under way.
    pub coalesced: u64,
    /// Absent names answered from a complete listing.
    pub negative_hits: u64,
    /// Questions given up at their deadline.
    pub timed_out: u64,
    /// Questions asked again elsewhere, because whoever was asked could not be reached.
    pub reparented: u64,
    /// Questions asked of a second node, because the first was slow.
    pub hedged: u64,
    /// Parcels that were taken apart.
    pub parcels: u64,
    /// Parcels that did not come, once for each time.
    pub parcels_failed: u64,
    /// Chunks that the kernel was given before it asked for them.
    pub prefilled: u64,
}

/// An inode that the kernel may hold stale attributes, entries or pages of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StaleInode {
    /// The inode.
    pub inode: InodeId,
    /// Its directory and its name there; `None` for the view's root and where the directory is forgotten already.
    pub entry: Option<(InodeId, Vec<u8>)>,
}

/// Who waits for a flight.
#[derive(Clone, Debug)]
enum Waiter {
    Kernel {
        ticket: KernelTicket,
        operation: Operation,
        known: Known,
    },
    /// One part of a read, and its place in the bundle if one was asked for.
    ReadPart {
        reader: Reader,
        slot: usize,
        member: usize,
    },
    Peer(PeerTicket),
    /// This node itself, for a parcel.
    Prefill(u32),
}

/// The state of one node's read path. `B` is the handle of a chunk's bytes, shared by cloning.
pub struct ReadPath<B> {
    options: Options,
    inodes: Inodes,
    objects: Objects<Chunk<B>>,
    in_flight: InFlight<Waiter>,
    ways: Ways,
    epoch: Epoch,
    /// The chunks that are filling.
    growing: Map<Key, Chunk<B>>,
    /// The chunks that a call fills, by their places in its body.
    growing_calls: Map<CallId, Vec<(usize, Key)>>,
    pending_reads: Map<Reader, PendingRead<B>>,
    /// The chunks of the bundles that are asked for.
    bundles: Map<CallId, Vec<Key>>,
    /// Bundles that failed once.
    broken_bundles: Map<Key, ()>,
    pins: Vec<ViewPath>,
    /// Chunks kept for this node's kernel alone, oldest first; some may have left already.
    own_chunks: VecDeque<Key>,
    /// Their bytes, also of those that have left.
    own_bytes: u64,
    rechecks: BTreeMap<CallId, Recheck>,
    anticipation: Anticipation,
    early: BTreeSet<CallId>,
    parcels: Parcels,
    awaited: Awaited,
    recording: Recording,
    effects: VecDeque<Effect<B>>,
    counters: Counters,
}

impl<B: Clone> ReadPath<B> {
    /// A node that knows nothing yet.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let objects = Objects::new(options.budget_bytes);
        Self {
            options,
            inodes: Inodes::new(),
            objects,
            in_flight: InFlight::default(),
            ways: Ways::new(),
            epoch: Epoch::default(),
            growing: Map::default(),
            growing_calls: Map::default(),
            pending_reads: Map::default(),
            bundles: Map::default(),
            broken_bundles: Map::default(),
            pins: Vec::new(),
            own_chunks: VecDeque::new(),
            own_bytes: 0,
            rechecks: BTreeMap::new(),
            anticipation: Anticipation::default(),
            early: BTreeSet::new(),
            parcels: Parcels::default(),
            awaited: Awaited::default(),
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

    /// When `handle_timeout` has something to do next.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        let flights = self.in_flight.next_deadline().into_iter().chain(self.next_check());
        flights.chain(self.hold_ends()).chain(self.first_wait_end()).min()
    }

    /// Gives up what has passed its deadline: who waits is told `ETIMEDOUT`, or `EHOSTUNREACH` if there was nobody to
    /// ask. Looks for nodes that are silent and for questions that are slow.
    pub fn handle_timeout(&mut self, now: Time) {
        self.ways.now = now;
        self.in_flight.expired(now).into_iter().for_each(|flight| self.give_up(flight));
        self.end_late_hold();
        self.end_long_waits();
        self.check_ways();
    }

    /// A flight's time is over, at least for those who wait longest.
    fn give_up(&mut self, flight: CallId) {
        self.counters.timed_out += 1;
        let errno = if self.ways.is_cut_off(flight) { Errno::EHOSTUNREACH } else { Errno::ETIMEDOUT };
        match self.in_flight.part(flight, self.ways.now) {
            Some(late) => {
                late.into_iter().for_each(|waiter| self.tell_failed(waiter, errno));
                self.ask_longer(flight);
            }
            None => {
                // Whoever's time is over has none for asking one by one.
                self.bundles.remove(&flight);
                self.end_flight(flight, errno);
            }
        }
    }

    /// The kernel's caller is being killed: answers `EINTR` if the request still waits here. `false` if it does not.
    pub fn handle_interrupt(&mut self, ticket: KernelTicket) -> bool {
        let reader = Reader::Kernel(ticket);
        let read = self.pending_reads.remove(&reader).is_some();
        let found = self.withdraw(|waiter| match waiter {
            Waiter::Kernel { ticket: other, .. } => *other == ticket,
            Waiter::ReadPart { reader: other, .. } => *other == reader,
            Waiter::Peer(_) | Waiter::Prefill(_) => false,
        });
        if read || found {
            self.tell_kernel(ticket, KernelAnswer::Failed(Errno::EINTR));
        }
        read || found
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
        self.anticipation.clear();
        self.broken_bundles.clear();
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
        self.counters
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
        self.objects.budget_bytes()
    }

    /// Lets the caches keep so much from now on.
    pub fn allow_bytes(&mut self, bytes: u64) {
        self.objects.set_budget(bytes);
    }

    /// Questions that have no answer yet, and chunks that are not whole yet.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.in_flight.len() + self.growing.len() + self.ways.attempts_under_way()
    }

    /// Number of inodes that the kernel knows of.
    #[must_use]
    pub fn inode_count(&self) -> usize {
        self.inodes.len()
    }

    fn is_direct(&self, key: &Key) -> bool {
        match (key, self.options.direct_above_bytes) {
            (Key::Chunk { generation, .. }, Some(limit)) => generation.size_bytes > limit,
            _ => false,
        }
    }

    /// Whether `key` goes another way than the listing of its directory.
    fn is_striped(&self, key: &Key) -> bool {
        placement(key).0 == Class::Stripes
    }

    /// Asks for `key` by `request`, or joins who did; `waiter` is told. The number of the question if it is new.
    fn ask(
        &mut self,
        key: Key,
        request: Request,
        urgency: Urgency,
        deadline: Time,
        waiter: Option<Waiter>,
    ) -> Option<CallId> {
        let waits = waiter.is_some();
        match self.in_flight.join(key.clone(), deadline, waiter) {
            Joined::Coalesced(flight) => {
                self.counters.coalesced += u64::from(waits);
                if urgency == Urgency::Demand {
                    self.promote(flight);
                }
                None
            }
            Joined::First(flight) => {
                self.set_out(flight, &key, request, urgency);
                Some(flight)
            }
        }
    }

    /// Ends a flight; `by` is the attempt that brought its answer. `None` when it has ended before.
    fn end(&mut self, flight: CallId, by: Option<CallId>) -> Option<Flight<Waiter>> {
        self.arrive(flight, by);
        self.in_flight.end(flight)
    }

    /// Forgets names that have been kept for as long as they last.
    fn drop_if_old(&mut self, key: &Key) {
        if let Some(last) = self.options.names_last
            && self.objects.age(key, self.ways.now).is_some_and(|age| age >= last)
        {
            self.objects.remove(key);
        }
    }

    /// Takes waiters out of their flights; flights that are left alone are cancelled. Whether there were any.
    fn withdraw(&mut self, leaves: impl FnMut(&Waiter) -> bool) -> bool {
        let (withdrawn, empty) = self.in_flight.withdraw(leaves);
        self.early.retain(|call| !empty.contains(call));
        self.bundles.retain(|call, _| !empty.contains(call));
        empty.into_iter().for_each(|flight| self.arrive(flight, None));
        !withdrawn.is_empty()
    }

    fn tell_failed(&mut self, waiter: Waiter, errno: Errno) {
        match waiter {
            Waiter::Kernel { ticket, .. } => self.tell_kernel(ticket, KernelAnswer::Failed(errno)),
            Waiter::ReadPart { reader, .. } => self.fail_read(reader, errno),
            Waiter::Peer(ticket) => self.tell_peer(ticket, PeerAnswer::Failed(errno)),
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
