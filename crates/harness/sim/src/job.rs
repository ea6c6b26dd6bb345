//! The nodes of a job and what happens to them: messages that arrive, time that passes, faults.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use forebay_cache::ObjectKind;
use forebay_node::AttemptId;
use forebay_node::{Effect, Options, ReadPath};
use forebay_overlay::{Forest, Shape};
use forebay_schedule::IoScheduler;
use forebay_types::{Epoch, NodeRank, Time};
use forebay_wire::ReadMessage;

use crate::NodeIndex;
use crate::body::{Handle, Piece, State};
use crate::event::Event;
use crate::faults::Fault;
use crate::model::{Model, Versions};
use crate::program::Program;
use crate::tables::{Asked, Body, Call, Caller, Parcels, Refreshes, TurnsTaken, Watcher};
use crate::world::World;

/// The time limit of every request.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// How much later than that a request may be answered: the shell's grace and its tick.
pub const GRACE: Duration = Duration::from_millis(700);

/// How a job is set up.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Number of nodes.
    pub nodes: usize,
    /// Number of roots.
    pub roots: u32,
    /// Fan-out of the trees of directories.
    pub fan_out: u32,
    /// Fan-out of the trees of stripes.
    pub stripe_fan_out: u32,
    /// Memory for caches at each node.
    pub budget_bytes: u64,
    /// Questions to the backing file system at a time, by each node.
    pub turns: usize,
    /// Whether contents come ahead, in parcels.
    pub prefill: bool,
    /// Whether to write down what happens.
    pub log: bool,
}

/// A node.
pub(crate) struct Node {
    /// Its core; `None` while it does not run.
    pub core: Option<ReadPath<Handle>>,
    /// How often it was started.
    pub life: u32,
    pub(crate) is_paused: bool,
    /// When its core wants to be told the time.
    pub(crate) timeout: Option<Time>,
    /// What arrived while it was stopped.
    pub(crate) inbox: Vec<Event>,
    /// Its operations at the backing file system.
    pub(crate) scheduler: IoScheduler<(AttemptId, ReadMessage)>,
    /// What no program there may be behind: the files as they were at the last refresh that the node took.
    pub(crate) floor: Versions,
    /// How long it was stopped in all.
    pub paused: Duration,
    pub(crate) paused_since: Time,
}

/// A job.
pub struct Job<'a> {
    pub(crate) model: &'a Model,
    pub(crate) setup: Setup,
    pub(crate) forest: Forest,
    pub(crate) world: World<Event>,
    pub(crate) nodes: Vec<Node>,
    /// The nodes whose cores want to be told the time, in order of that time.
    pub(crate) timeouts: BTreeSet<(Time, NodeIndex)>,
    /// What cores have decided, to be carried out.
    pub(crate) decided: VecDeque<(NodeIndex, Effect<Handle>)>,
    pub(crate) programs: Vec<Program>,
    pub(crate) bodies: Vec<Body>,
    pub(crate) calls: BTreeMap<Caller, Call>,
    /// Whom a peer's ticket belongs to.
    pub(crate) tickets: BTreeMap<u64, (NodeIndex, Vec<Caller>)>,
    next_ticket: u64,
    /// Questions whether a node is there that have no answer yet.
    pub(crate) pings: BTreeSet<u64>,
    pub(crate) next_ping: u64,
    pub(crate) backing_hangs_until: Time,
    pub(crate) backing_fails: (u64, Time),
    /// What the backing file system holds now.
    pub(crate) versions: Versions,
    pub(crate) refreshes: Refreshes,
    /// Whether anything was made to go wrong; files that change and refreshes are no faults.
    pub(crate) was_broken: bool,
    pub(crate) epoch: Epoch,
    /// Whether the backing file system was made to fail at all.
    pub(crate) has_backing_failed: bool,
    /// What was asked of the backing file system, by whom, how often; only what was answered.
    pub(crate) asked: BTreeMap<String, Asked>,
    pub(crate) wrong: Vec<String>,
    pub(crate) failed: usize,
    pub(crate) stale: usize,
    pub(crate) longest: Duration,
    pub(crate) bundles: usize,
    pub(crate) messages: usize,
    pub(crate) parcels: Parcels,
    pub(crate) turns: TurnsTaken,
    kept_bytes_max: u64,
    interrupt_every: Option<usize>,
    log: Vec<String>,
}

impl<'a> Job<'a> {
    /// The nodes of a job, which have just started.
    pub(crate) fn start_nodes(model: &'a Model, setup: Setup, seed: u64) -> Self {
        let Setup { nodes, roots, fan_out, stripe_fan_out, .. } = setup;
        let forest = Forest::new(Shape { node_count: nodes as u32, roots, fan_out, stripe_fan_out }).unwrap();
        let mut job = Self {
            model,
            setup,
            forest,
            world: World::new(seed),
            nodes: Vec::new(),
            timeouts: BTreeSet::new(),
            programs: Vec::new(),
            bodies: Vec::new(),
            calls: BTreeMap::new(),
            tickets: BTreeMap::new(),
            next_ticket: 0,
            pings: BTreeSet::new(),
            next_ping: 0,
            backing_hangs_until: Time(0),
            backing_fails: (0, Time(0)),
            versions: Versions::default(),
            refreshes: Refreshes::default(),
            was_broken: false,
            epoch: Epoch::START,
            has_backing_failed: false,
            asked: BTreeMap::new(),
            wrong: Vec::new(),
            failed: 0,
            stale: 0,
            longest: Duration::ZERO,
            bundles: 0,
            messages: 0,
            parcels: Parcels::default(),
            turns: TurnsTaken::default(),
            kept_bytes_max: 0,
            interrupt_every: None,
            decided: VecDeque::new(),
            log: Vec::new(),
        };
        job.nodes = (0..setup.nodes).map(|node| job.new_node(node, 0)).collect();
        (0..setup.nodes).for_each(|node| job.note_timeout(node));
        job
    }

    pub(crate) fn new_node(&self, node: NodeIndex, life: u32) -> Node {
        let options = Options {
            rank: NodeRank(node as u32),
            forest: self.forest.clone(),
            budget_bytes: self.setup.budget_bytes,
            deadline: DEADLINE,
            direct_above_bytes: None,
            prefetch: true,
            names_last: None,
            links: None,
        };
        let core = Some(ReadPath::new(options));
        Node {
            core,
            life,
            is_paused: false,
            timeout: None,
            scheduler: IoScheduler::new(self.setup.turns),
            floor: Versions::default(),
            inbox: Vec::new(),
            paused: Duration::ZERO,
            paused_since: Time(0),
        }
    }

    /// Lets the caller of every so many-th request lose patience.
    pub fn interrupt_every(&mut self, count: usize) {
        self.interrupt_every = Some(count);
    }

    /// Lets so many questions in a hundred to the backing file system fail from now on.
    pub fn let_backing_fail(&mut self, percent: u64) {
        self.has_backing_failed |= percent > 0;
        self.backing_fails = (percent, Time(u64::MAX));
    }

    /// Lets a fault happen at a time.
    pub fn plan(&mut self, at: Time, fault: Fault) {
        self.world.at(at, Event::Fault(fault));
    }

    /// What was not as it must be.
    #[must_use]
    pub fn wrong(&self) -> &[String] {
        &self.wrong
    }

    /// Requests that ended with an error that was put in.
    #[must_use]
    pub fn failed(&self) -> usize {
        self.failed
    }

    /// Requests that were told that a file is another version now.
    #[must_use]
    pub fn stale(&self) -> usize {
        self.stale
    }

    /// The longest time that a request took.
    #[must_use]
    pub fn longest(&self) -> Duration {
        self.longest
    }

    /// The most bytes that a node kept.
    #[must_use]
    pub fn kept_bytes_max(&self) -> u64 {
        self.kept_bytes_max
    }

    /// Bundles that were sent.
    #[must_use]
    pub fn bundles(&self) -> usize {
        self.bundles
    }

    /// Messages by which nodes asked each other.
    #[must_use]
    pub fn messages(&self) -> usize {
        self.messages
    }

    /// Chunks that a node keeps.
    #[must_use]
    pub fn kept_chunks(&self, node: NodeIndex) -> u64 {
        self.nodes[node].core.as_ref().map_or(0, |core| core.kept(ObjectKind::Chunks).entries)
    }

    /// Whether any node bypasses this one.
    #[must_use]
    pub fn is_suspected(&self, node: NodeIndex) -> bool {
        let cores = self.nodes.iter().filter_map(|node| node.core.as_ref());
        cores.into_iter().any(|core| core.suspects().contains(&NodeRank(node as u32)))
    }

    /// The time in the job.
    #[must_use]
    pub fn now(&self) -> Time {
        self.world.now
    }

    /// A sum over the nodes that run.
    pub fn sum(&self, count: impl Fn(&ReadPath<Handle>) -> u64) -> u64 {
        self.nodes.iter().filter_map(|node| node.core.as_ref()).map(count).sum()
    }

    /// What happened, line by line, if it was written down.
    #[must_use]
    pub fn log(&self) -> &[String] {
        &self.log
    }

    pub(crate) fn note(&mut self, text: impl FnOnce() -> String) {
        if self.setup.log {
            self.log.push(format!("{:>12.6} {}", self.world.now.0 as f64 / 1e9, text()));
        }
    }

    /// Notes when a node wants to be told the time.
    pub(crate) fn note_timeout(&mut self, node: NodeIndex) {
        let place = &mut self.nodes[node];
        let runs = !place.is_paused;
        let next = place.core.as_ref().filter(|_| runs).and_then(ReadPath::poll_timeout);
        let before = std::mem::replace(&mut place.timeout, next);
        if next != before {
            before.map(|time| self.timeouts.remove(&(time, node)));
            next.map(|time| self.timeouts.insert((time, node)));
        }
    }

    /// Lets a node's core decide. What it decides is carried out before anything else happens.
    pub(crate) fn with_core<T>(
        &mut self,
        node: NodeIndex,
        decide: impl FnOnce(&mut ReadPath<Handle>, Time) -> T,
    ) -> Option<T> {
        let now = self.world.now;
        let core = self.nodes[node].core.as_mut()?;
        let outcome = decide(core, now);
        let effects: Vec<_> = std::iter::from_fn(|| core.poll_effect()).collect();
        self.kept_bytes_max = self.kept_bytes_max.max(core.kept_bytes());
        self.note_timeout(node);
        self.decided.extend(effects.into_iter().map(|effect| (node, effect)));
        Some(outcome)
    }

    pub(crate) fn new_body(&mut self, at: Caller, from: Option<NodeIndex>, pieces: Arc<[Piece]>) -> Handle {
        let handle = Handle { id: self.bodies.len(), pieces };
        let body =
            Body { at, from, state: State::Growing, handle: handle.clone(), has_started: false, watchers: Vec::new() };
        self.bodies.push(body);
        handle
    }

    /// Answers a node's own question when the body is whole or lost.
    pub(crate) fn when_whole_answer(&mut self, body: Handle, ticket: u64) {
        self.bodies[body.id].watchers.push(Watcher::Own(ticket, body));
    }

    pub(crate) fn new_ticket(&mut self) -> u64 {
        self.next_ticket += 1;
        self.next_ticket
    }

    pub(crate) fn maybe_interrupt(&mut self, program: usize) {
        if self.interrupt_every.is_some_and(|every| program.is_multiple_of(every)) {
            self.world.soon(Event::Interrupt(program));
        }
    }

    pub(crate) fn is_interrupted(&self, program: usize) -> bool {
        self.interrupt_every.is_some_and(|every| program.is_multiple_of(every))
    }

    /// When the backing file system begins to answer what it is asked now; or that it fails.
    pub(crate) fn backing_mood(&mut self) -> Result<(), Time> {
        if self.world.now < self.backing_hangs_until { Err(self.backing_hangs_until) } else { Ok(()) }
    }

    pub(crate) fn backing_fails_now(&mut self) -> bool {
        let (percent, until) = self.backing_fails;
        self.world.now < until && self.world.random.below(100) < percent
    }
}
