//! A job of real cores over the model's network, file system and programs.
//!
//! Every node has the core that its daemon has (`forebay_read::ReadPath`); the daemon's work around it (requests
//! carried, bodies forwarded piece by piece while they arrive, the kernel answered) is in `shell`. The model has no
//! contents: a body is a number of bytes. Another simulator checks behaviour under faults (`crates/harness/sim`); this
//! one asks how long things take and what passes over which link.

use std::collections::VecDeque;
use std::time::Duration;

use forebay_overlay::Forest;
use forebay_read::AttemptId;
use forebay_read::{Answered, Effect, Options, ReadPath};
use forebay_types::{Epoch, NodeRank, Time};
use forebay_wire::{ReadMessage, Request};

use super::backing::Backing;
use super::bodies::{self, Filling, Handle};
use super::cpu::Taken;
use super::files::{Files, PathIndex, Script};
use super::making::{BUDGET_BYTES, Builder, FillingKernel};
use super::network::{Network, NodeIndex};
use super::pack::Pack;
use super::program::Program;
use super::servers::{Fifo, Nanos, Pool, Queue, SECOND, nanos};
use super::stated::Machine;

/// The time limit of a request, as the daemon has it.
pub(super) const DEADLINE: Duration = Duration::from_secs(30);

/// A core is told the time so much late at most: less than it looks for slow requests itself.
const TIMER_GRAIN: Nanos = SECOND / 20;

/// Nodes that are lost on the way.
#[derive(Clone, Debug)]
pub struct Loss {
    /// When, seconds after the start.
    pub at_seconds: f64,
    /// Which.
    pub nodes: Vec<NodeIndex>,
}

/// How a job is set up.
pub(super) struct Setup<'a> {
    pub machine: &'a Machine,
    pub files: &'a Files,
    pub script: &'a Script,
    /// The pack that is prefetched, if the start-up is known.
    pub pack: Option<&'a Pack>,
    pub forest: Forest,
    pub nodes: usize,
    pub seed: u64,
    pub losses: &'a [Loss],
}

/// Events of the job.
pub(super) enum Event {
    /// A daemon is still being started: so much of that is left.
    Launch { node: NodeIndex, left: Nanos },
    /// A program is still starting: so much of it is left.
    Start { node: NodeIndex, left: Nanos },
    /// A program, which has its answer, computes.
    Compute { node: NodeIndex, work: Nanos },
    /// A program goes on.
    Next(NodeIndex),
    /// Its read, whose bytes got lost, is asked for again.
    Again(NodeIndex),
    /// A node is asked.
    Ask { to: NodeIndex, from: NodeIndex, call: AttemptId, request: Request<ReadMessage> },
    /// The backing file system has answered.
    Told { to: NodeIndex, call: AttemptId, answered: Answered },
    /// An answer that comes whole arrives.
    Answer { to: NodeIndex, call: AttemptId, answered: Answered, bytes: u64 },
    /// A piece comes to the links between groups.
    Cross { from: NodeIndex, piece: Piece },
    /// A piece of a body arrives.
    Arrive(Piece),
    /// It has passed the node's link.
    Piece(Piece),
    /// A body will not be whole.
    Lost { to: NodeIndex, call: AttemptId },
    /// The requester wants no answer any more.
    Cancel { to: NodeIndex, from: NodeIndex, call: AttemptId },
    /// A node is asked whether it is there.
    Ping { to: NodeIndex, from: NodeIndex, epoch: Epoch },
    /// It says so.
    Pong { to: NodeIndex, peer: NodeIndex, epoch: Epoch },
    /// The time for that is over.
    Silent { to: NodeIndex, peer: NodeIndex, number: u32 },
    /// A core wants to be told the time.
    Timer(NodeIndex),
    /// A listing that a reader's own parcels need is there.
    Listed { node: NodeIndex, dir: PathIndex },
    /// A reader has read a parcel's part of the pack.
    PackRead { node: NodeIndex, index: u32 },
    /// A parcel is made.
    Made(Piece),
    /// A parcel is here.
    ParcelHere { node: NodeIndex, index: u32 },
    /// It is unpacked.
    Opened { node: NodeIndex, index: u32 },
    /// The kernel knows the names that it brings.
    Walked { node: NodeIndex, index: u32 },
    /// It is in the kernel's caches.
    Stored { node: NodeIndex, index: u32 },
    /// Nodes are lost.
    Lose(usize),
}

/// A piece of a body.
#[derive(Clone, Copy)]
pub(super) struct Piece {
    pub to: NodeIndex,
    pub call: AttemptId,
    /// Its bytes and those of the whole body, as the model counts them; each stands for `weight` real ones.
    pub bytes: u32,
    pub total: u32,
    pub weight: u32,
}

/// A node.
pub(super) struct Node {
    pub core: ReadPath<Handle>,
    pub program: Program,
    pub filling: Vec<Filling>,
    /// The nodes that were asked, by the number of the request.
    pub asked: Vec<(AttemptId, NodeIndex)>,
    /// The bundles that were asked for, by the first of their attempts.
    pub bundles: Vec<(AttemptId, bodies::Files)>,
    /// The daemon's processor.
    pub processor: Fifo,
    /// Its work to make parcels, if it reads the file system for others.
    pub builder: Option<Builder>,
    /// Parcels that have come, which are taken apart one after the other.
    pub filling_kernel: FillingKernel,
    /// When the core will be told the time next.
    pub timer: Nanos,
    /// Nodes that were asked whether they are there: the number of the request.
    pub pinged: Vec<(NodeIndex, u32)>,
    pub is_lost: bool,
}

/// A job.
pub(super) struct Job<'a> {
    pub machine: &'a Machine,
    pub files: &'a Files,
    pub script: &'a Script,
    pub pack: Option<&'a Pack>,
    pub queue: Queue<Event>,
    pub network: Network,
    pub backing: Backing,
    pub nodes: Vec<Node>,
    /// Decisions of cores, and when their processors have come to them; carried out before any other event.
    pub decided: VecDeque<(NodeIndex, Nanos, Effect<Handle>)>,
    /// The processors that all nodes share, if they do.
    pub processors: Option<Pool>,
    /// Processor time by cause.
    pub cpu: Taken,
    /// Messages of kernels.
    pub kernel_messages: u64,
    pub next_body: u32,
    pub next_ping: u32,
    /// Files that readers of the backing file system have open.
    pub open: std::collections::BTreeSet<(NodeIndex, u64)>,
    pub losses: &'a [Loss],
    pub running: usize,
    /// Daemons that are still being started.
    pub starting: usize,
    pub seed: u64,
}

impl<'a> Job<'a> {
    pub fn new(setup: Setup<'a>) -> Self {
        let Setup { machine, files, script, pack, forest, nodes, seed, losses } = setup;
        let mut queue = Queue::new();
        losses.iter().enumerate().for_each(|(index, loss)| queue.at(nanos(loss.at_seconds), Event::Lose(index)));
        let shared = machine.daemon.shared_processors.count();
        let mut job = Self {
            machine,
            files,
            script,
            pack,
            queue,
            network: Network::new(machine.network, nodes),
            backing: Backing::new(machine.file_system),
            nodes: (0..nodes as u32).map(|rank| Node::new(rank, &forest, files.count())).collect(),
            decided: VecDeque::new(),
            processors: (shared > 0).then(|| Pool::new(shared)),
            cpu: Taken::default(),
            kernel_messages: 0,
            next_body: 0,
            next_ping: 0,
            open: Default::default(),
            losses,
            running: nodes,
            starting: nodes,
            seed,
        };
        (0..nodes as NodeIndex).for_each(|node| job.note_timer(node));
        job.launch();
        job
    }

    /// Lets a node's core decide.
    pub fn decide<T>(&mut self, node: NodeIndex, decide: impl FnOnce(&mut ReadPath<Handle>, Time) -> T) -> T {
        self.decide_after(node, 0, decide).0
    }

    /// Lets a node's core decide, which takes its processor so long; what it decides is carried out after that: when.
    pub fn decide_after<T>(
        &mut self,
        node: NodeIndex,
        work: Nanos,
        decide: impl FnOnce(&mut ReadPath<Handle>, Time) -> T,
    ) -> (T, Nanos) {
        let now = self.queue.now();
        let outcome = decide(&mut self.nodes[node as usize].core, Time(now));
        let done = self.work(node, work);
        let core = &mut self.nodes[node as usize].core;
        self.decided.extend(std::iter::from_fn(|| core.poll_effect()).map(|effect| (node, done, effect)));
        self.note_timer(node);
        (outcome, done)
    }

    /// Takes a processor of a node so long for its daemon: when it is done.
    pub fn work(&mut self, node: NodeIndex, work: Nanos) -> Nanos {
        self.cpu.daemons += work;
        self.take_processor(node, work)
    }

    /// Takes one of the processors that nodes share for what is not done by daemons' event loops, or one of its own: when it is
    /// done.
    pub fn work_beside(&mut self, work: Nanos) -> Nanos {
        let now = self.queue.now();
        match &mut self.processors {
            Some(shared) => shared.serve(now, work),
            None => now + work,
        }
    }

    fn take_processor(&mut self, node: NodeIndex, work: Nanos) -> Nanos {
        let now = self.queue.now();
        if work == 0 {
            return now;
        }
        match &mut self.processors {
            Some(shared) => shared.serve(now, work),
            None => self.nodes[node as usize].processor.serve(now, work),
        }
    }

    /// The cost of one end of so many messages, with bytes in all.
    pub fn cost_of_message(&self, messages: u32, bytes: u64) -> Nanos {
        let daemon = &self.machine.daemon;
        nanos(daemon.message.value * f64::from(messages) + daemon.gigabyte.value * bytes as f64 / 1e9)
    }

    /// Calls of the daemon for the backing file system, which its client makes so many requests of, with contents from it: they
    /// take the daemon's time and then the client's. When both are done.
    pub fn ask_client(&mut self, node: NodeIndex, calls: u32, requests: u32, bytes: u64) -> Nanos {
        let daemon = &self.machine.daemon;
        let own = nanos(daemon.backing_request.value * f64::from(calls));
        let copying = daemon.client_gigabyte.value * bytes as f64 / 1e9;
        let client = nanos(daemon.client_request.value * f64::from(requests) + copying);
        self.cpu.file_system += client;
        let asked = self.work(node, own);
        self.take_processor(node, client).max(asked)
    }

    /// Notes when a core wants to be told the time.
    pub fn note_timer(&mut self, node: NodeIndex) {
        let now = self.queue.now();
        let place = &mut self.nodes[node as usize];
        if (now..now + TIMER_GRAIN).contains(&place.timer) {
            // It will be told the time soon anyway, and asked then.
            return;
        }
        let Some(Time(next)) = place.core.poll_timeout() else { return };
        if next < place.timer {
            place.timer = next;
            self.queue.at(next, Event::Timer(node));
        }
    }
}

impl Node {
    /// The bundle that was asked for by this attempt, if it was one.
    pub fn take_bundle(&mut self, call: AttemptId) -> Option<bodies::Files> {
        let at = self.bundles.iter().position(|(first, _)| *first == call)?;
        Some(self.bundles.swap_remove(at).1)
    }

    /// Drops an attempt. Returns the attempt that names its message, unless other parts of it are wanted.
    pub fn leave_bundle(&mut self, call: AttemptId) -> Option<AttemptId> {
        let asked = self.bundles.iter_mut().map(|(first, files)| (*first, files));
        let filling = self.filling.iter_mut().filter_map(|filling| Some((filling.call, filling.files.as_mut()?)));
        let is_of = |(_, files): &(AttemptId, &mut bodies::Files)| files.iter().any(|(other, _)| *other == call);
        let Some((first, files)) = asked.chain(filling).find(is_of) else { return Some(call) };
        files.retain(|(other, _)| *other != call);
        let is_last = files.is_empty();
        self.bundles.retain(|(_, files)| !files.is_empty());
        is_last.then_some(first)
    }

    fn new(rank: NodeIndex, forest: &Forest, paths: usize) -> Self {
        let options = Options {
            rank: NodeRank(rank),
            forest: forest.clone(),
            budget_bytes: BUDGET_BYTES,
            deadline: DEADLINE,
            direct_above_bytes: None,
            prefetch: true,
            entry_ttl: None,
            links: None,
        };
        Self {
            core: ReadPath::new(options),
            program: Program::new(paths),
            filling: Vec::new(),
            asked: Vec::new(),
            bundles: Vec::new(),
            processor: Fifo::default(),
            builder: None,
            filling_kernel: FillingKernel::default(),
            timer: Nanos::MAX,
            pinged: Vec::new(),
            is_lost: false,
        }
    }
}
