//! The parts of the read path, put together, and what goes on in them as long as the daemon runs.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use forebay_fuse::{Handler, Session};
use forebay_transport::Replier;
use forebay_types::{Epoch, Errno, NodeRank};
use forebay_wire::{JobMessage, Outcome, ReadMessage, Request};

use super::arrivals::Arrivals;
use super::backing::Backing;
use super::cached_chunks::CacheTier;
use super::core::Core;
use super::effects::Effects;
use super::entry_ttl::node_entry_ttl;
use super::fetch::Fetcher;
use super::frequent::Amounts;
use super::ioctl::Ioctls;
use super::kernel::{Kernel, KernelHandler};
use super::ledger::Ledger;
use super::own::Own;
use super::peers::Peers;
use super::prefill::Prefill;
use super::pressure::Pressure;
use super::refresh::Refresh;
use super::view::View;
use super::warm::Warm;
use crate::shared::node::Node;

/// How often the memory is looked after when nothing arrives.
const MEMORY_INTERVAL: Duration = Duration::from_secs(1);

/// The read path of this node.
pub struct ReadParts {
    node: Arc<Node>,
    pub core: Arc<Core>,
    pub backing: Arc<Backing>,
    pub cache: Arc<CacheTier>,
    pub view: Arc<View>,
    pub prefill: Arc<Prefill>,
    pub refresh: Arc<Refresh>,
    peers: Arc<Peers>,
    kernel: Arc<Kernel>,
    pressure: Arc<Pressure>,
    /// This node's own questions.
    pub own: Arc<Own>,
    /// Data that are brought before programs ask for them.
    pub warm: Arc<Warm>,
    _effects: Arc<Effects>,
}

impl ReadParts {
    /// The parts of a node, ready for the view's session.
    ///
    /// # Errors
    /// When this node is a root and its exports cannot be opened, or when there can be no cache store.
    pub fn new(node: &Arc<Node>) -> anyhow::Result<Arc<Self>> {
        let core = Core::new(node);
        let (backing, view) = (Backing::new(node)?, Arc::<View>::default());
        let cache = Arc::new(CacheTier::open(node)?);
        let pressure = Pressure::new(node, &core);
        let arrivals = Arrivals::new(&core, &pressure);
        let peers = Peers::new(&core);
        let prefill = Prefill::new(node, &core, &peers, &view);
        let ioctls = Ioctls::new(node, &core, &backing, &view);
        let kernel = Kernel::new(node, &core, &prefill, ioctls);
        let effects = Arc::new(Effects {
            node: Arc::clone(node),
            fetcher: Fetcher::new(node, &core, &backing, &arrivals, &prefill, &cache),
            kernel: Arc::clone(&kernel),
            peers: Arc::clone(&peers),
            prefill: Arc::clone(&prefill),
            view: Arc::clone(&view),
        });
        // The parts hold the core, which does not hold them.
        let carrying = Arc::downgrade(&effects);
        core.set_carry_out(move |effect, ttl| {
            if let Some(effects) = carrying.upgrade() {
                effects.carry_out(effect, ttl);
            }
        });
        let refresh = Refresh::new(node, &core, (&backing, &cache), &view);
        let node = Arc::clone(node);
        let own = Own::new(&core, &peers);
        let warm = Warm::new(&node, &own);
        Ok(Arc::new(Self {
            node,
            core,
            backing,
            cache,
            view,
            prefill,
            refresh,
            peers,
            kernel,
            pressure,
            own,
            warm,
            _effects: effects,
        }))
    }

    /// Takes over the inodes that the kernel knows.
    ///
    /// # Errors
    /// When they are not what they should be.
    pub fn keep_inodes(&self, memory: OwnedFd) -> anyhow::Result<()> {
        let (ledger, known) = Ledger::open(memory).context("taking over the inodes that the kernel knows")?;
        tracing::debug!(inodes = known.inodes.len(), "the kernel knows inodes of daemons before");
        self.core.lock().keep_inodes(Box::new(ledger), known);
        Ok(())
    }

    /// The handler of requests of the view's session.
    pub fn handler(&self) -> Arc<impl Handler + use<>> {
        Arc::new(KernelHandler(Arc::clone(&self.kernel)))
    }

    /// The view is served from now on.
    pub fn set_session(&self, session: Arc<Session>) {
        self.view.set_session(session);
    }

    /// The directories in which programs looked for most absent names, by lookups.
    pub fn absent(&self) -> Vec<Amounts> {
        self.kernel.absent.amounts()
    }

    /// The files of which programs read most, by bytes.
    pub fn most_read(&self) -> Vec<Amounts> {
        self.kernel.read.amounts()
    }

    /// Takes a request of another node that is about what is read.
    pub fn take(&self, from: NodeRank, request: Request<ReadMessage>, remaining: Duration, reply: Replier) {
        self.peers.take(from, request, remaining, reply);
    }

    /// Starts a task of this node.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(self.node.spawn(task));
    }

    /// Takes a request of another node about the job whose answer the read path has.
    pub fn take_job(&self, epoch: Epoch, message: JobMessage, remaining: Duration, reply: Replier) {
        match message {
            JobMessage::Ping => {
                let epoch = self.core.decide(|core, now| core.handle_epoch(now, epoch));
                reply.answer(Outcome::Alive { epoch }, None);
            }
            JobMessage::Refresh { epoch, step, paths } => {
                self.node.spawn(Arc::clone(&self.refresh).answer((epoch, step, paths), remaining, reply));
            }
            JobMessage::LeadRefresh { paths } => {
                self.node.spawn(Arc::clone(&self.refresh).answer_lead(paths, reply));
            }
            message @ (JobMessage::Keep { .. } | JobMessage::ReadFile { .. }) => {
                self.node.spawn(Arc::clone(&self.warm).answer(message, reply));
            }
            JobMessage::Recording => drop(self.node.spawn(Arc::clone(&self.prefill).tell(remaining, reply))),
            _ => reply.answer(Outcome::Failed(Errno::EINVAL), None),
        }
    }

    /// Runs the timers, and gives up what is late, for as long as the daemon runs.
    pub async fn run_timers(self: Arc<Self>) {
        let (mut looked_up, entry_ttl) = (self.node.now(), node_entry_ttl(&self.node));
        loop {
            self.core.until_timers().await;
            self.kernel.give_up_late();
            let now = self.node.now();
            // Directories may have been replaced by others of their names.
            if entry_ttl.is_some_and(|last| now.since(looked_up) >= last) {
                self.backing.forget_descriptors();
                looked_up = now;
            }
            self.core.run_timers();
        }
    }

    /// Ends the requests of programs that are killed, for as long as the daemon runs.
    pub async fn watch_interrupts(self: Arc<Self>) {
        self.kernel.watch_interrupts().await;
    }

    /// Looks after the memory, for as long as the daemon runs.
    pub async fn look_after_memory(self: Arc<Self>) {
        let mut ticks = tokio::time::interval(MEMORY_INTERVAL);
        loop {
            ticks.tick().await;
            self.prefill.drop_untaken();
            self.pressure.look();
        }
    }
}
