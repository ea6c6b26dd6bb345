//! The core behind its lock, what waits outside of it, and the way of its effects.
//!
//! The lock is held while the core decides, never while anything is sent or read. Who holds it may add to the tables of
//! waiting replies (they are locked second, always), so that no answer can come before its place is made.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use forebay_body::{Body, Pool};
use forebay_cache::CallId;
use forebay_fuse::Session;
use forebay_node::{Effect, Options, PeerAnswer, PeerTicket, ReadPath};
use forebay_overlay::Forest;
use forebay_store::{Store, StoreOptions, Turns};
use forebay_transport::{Endpoint, Replier};
use forebay_types::{Errno, Time, limits};
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};
use tokio::task::AbortHandle;

use crate::entry::{EntryTtl, EntryTtls};
use crate::options::DaemonOptions;
use crate::prefill::Prefill;
use crate::pressure::Pressure;
use crate::readiness::Starting;
use crate::waiting::WaitingRequests;

/// Free pieces of 128 KiB that the pool keeps: enough for a stream of read-ahead to run without fresh memory.
const POOL_PIECES: usize = 32;

/// How often it is looked for what depends on time.
const TICK: Duration = limits::WAYS_CHECK_INTERVAL;

/// How long after its deadline a request is answered by the shell: the core, which does it in time, knows nothing of those
/// whose bytes were on their way already.
const DEADLINE_GRACE: Duration = Duration::from_millis(500);

/// The chunk handle of the daemon's core.
pub(super) type Core = ReadPath<Arc<Body>>;

/// Carries out a decision of the core, which the kernel may believe for so long. Handed in from above: the parts that do it know the service, not the other way.
pub(super) type CarryOut = fn(&Arc<Service>, Effect<Arc<Body>>, &EntryTtl);

/// Everything that the parts of a daemon share.
pub(super) struct Service {
    pub options: Arc<DaemonOptions>,
    pub forest: Forest,
    pub started: Instant,
    pub runtime: Handle,
    core: Mutex<Core>,
    carry_out: CarryOut,
    /// Whose turn it is to read the backing file system.
    pub turns: Arc<Turns>,
    store: OnceLock<Arc<Store>>,
    /// Why the exports could not be opened the last time. Held by whoever opens them.
    not_opened: Mutex<String>,
    pool: Pool,
    endpoint: OnceLock<Endpoint>,
    session: OnceLock<Arc<Session>>,
    pub pressure: Pressure,
    /// Its part in the start of the job.
    pub starting: Option<Starting>,
    waiting: WaitingRequests,
    peer_replies: Mutex<HashMap<PeerTicket, Replier>>,
    own_replies: Mutex<HashMap<PeerTicket, oneshot::Sender<PeerAnswer<Arc<Body>>>>>,
    fetches: Mutex<HashMap<CallId, Fetch>>,
    prefill: Prefill,
    /// How long this node believes a name.
    names_last: Option<Duration>,
    entry_ttls: EntryTtls,
    /// Held by whoever leads a refresh.
    pub refreshing: tokio::sync::Mutex<()>,
    end: Notify,
}

/// A question that is carried to its source.
struct Fetch {
    task: AbortHandle,
    /// ExitReason when a program waits for what was asked of another node ahead.
    promote: Option<oneshot::Sender<()>>,
}

impl Service {
    /// The parts of a node. Roots open their exports now, so that a wrong one is told at the start; other nodes open
    /// them when they first read the backing file system themselves.
    pub fn new(
        options: &Arc<DaemonOptions>,
        forest: Forest,
        carry_out: CarryOut,
        starting: Option<Starting>,
    ) -> anyhow::Result<Arc<Self>> {
        let core = ReadPath::new(Options {
            rank: options.rank,
            forest: forest.clone(),
            budget_bytes: options.budget_bytes,
            deadline: options.deadline,
            direct_above_bytes: options.direct_above_bytes,
            anticipate: options.anticipate,
            names_last: names_last(options, &forest),
            links: options.links.as_ref().map(|links| links.rules(&options.view)),
        });
        let is_root = forest.is_root(options.rank);
        let service = Arc::new(Self {
            options: Arc::clone(options),
            forest: forest.clone(),
            started: Instant::now(),
            runtime: Handle::current(),
            core: Mutex::new(core),
            carry_out,
            turns: Turns::new(options.backing_concurrency),
            store: OnceLock::new(),
            not_opened: Mutex::default(),
            pool: Pool::new(POOL_PIECES),
            endpoint: OnceLock::new(),
            session: OnceLock::new(),
            pressure: Pressure::new(),
            starting,
            waiting: WaitingRequests::default(),
            peer_replies: Mutex::default(),
            own_replies: Mutex::default(),
            fetches: Mutex::default(),
            prefill: Prefill::default(),
            names_last: names_last(options, &forest),
            entry_ttls: EntryTtls::new(names_last(options, &forest)),
            refreshing: tokio::sync::Mutex::default(),
            end: Notify::new(),
        });
        // A daemon that goes on where another ended must answer, and within its deadlines, whatever its exports do now.
        if is_root && options.kept.is_first() {
            let store = service.open_store()?;
            let _ = service.store.set(Arc::new(store));
        }
        Ok(service)
    }

    fn open_store(&self) -> anyhow::Result<Store> {
        Store::open(StoreOptions {
            exports: self.options.exports.clone(),
            listing_entries_full: self.options.listing_entries_full,
            descriptors: forebay_types::limits::BACKING_DESCRIPTORS,
            turns: Arc::clone(&self.turns),
            pool: self.pool.clone(),
            hidden: vec![self.options.view.clone(), self.options.job_directory.clone()],
        })
        .context("opening the exports")
    }

    /// The reader of the backing file system, opened at its first use. Exports that are not there now may be at the next.
    /// May block.
    pub fn store(&self) -> Option<&Arc<Store>> {
        if self.store.get().is_some() {
            return self.store.get();
        }
        let mut not_opened = lock(&self.not_opened);
        if self.store.get().is_none() {
            match self.open_store().map_err(|error| format!("{error:#}")) {
                Ok(store) => drop(self.store.set(Arc::new(store))),
                // Once for each reason, not for each question.
                Err(why) if why != *not_opened => {
                    tracing::error!("{why}");
                    *not_opened = why;
                }
                Err(_) => {}
            }
        }
        self.store.get()
    }

    /// The reader of the backing file system, if this node has one already.
    pub fn opened_store(&self) -> Option<&Arc<Store>> {
        self.store.get()
    }

    /// Lets the reader of the backing file system find every path anew. Closing blocks where that hangs.
    pub fn forget_descriptors(&self) {
        if let Some(store) = self.opened_store() {
            let forgotten = store.forget();
            self.runtime.spawn_blocking(move || drop(forgotten));
        }
    }

    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    pub fn set_endpoint(&self, endpoint: Endpoint) {
        let _ = self.endpoint.set(endpoint);
    }

    /// The overlay's endpoint; `None` only while the daemon starts.
    pub fn endpoint(&self) -> Option<&Endpoint> {
        self.endpoint.get()
    }

    pub fn set_session(&self, session: Arc<Session>) {
        let _ = self.session.set(session);
    }

    pub fn session(&self) -> Option<&Arc<Session>> {
        self.session.get()
    }

    /// For how long the kernel may believe what the core, which is locked, has just answered.
    pub fn entry_ttl(&self, core: &Core) -> EntryTtl {
        self.entry_ttls.decide(self.now(), core)
    }

    /// Lets the kernel remember nothing for so long, or anything again, of what the core answers from now on.
    pub fn be_quiet(&self, time: Option<Duration>) {
        let core = self.core();
        self.entry_ttls.be_quiet(time.map_or(Time(0), |time| self.now().after(time)), &core);
    }

    /// Until the kernel, which is quiet, has been told everything that it may remember.
    pub async fn all_told(&self) {
        self.entry_ttls.all_told().await;
    }

    /// The core's time now.
    pub fn now(&self) -> Time {
        Time(u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// The time left until `deadline`.
    pub fn remaining(&self, deadline: Time) -> Duration {
        deadline.since(self.now())
    }

    pub fn core(&self) -> MutexGuard<'_, Core> {
        lock(&self.core)
    }

    /// The kernel's requests that wait. One that the core will answer later is parked with the core locked.
    pub fn waiting(&self) -> &WaitingRequests {
        &self.waiting
    }

    /// Answers the requests whose time has been over for a while.
    fn give_up_late_replies(&self, now: Time) {
        let late = self.waiting.take_late(now, DEADLINE_GRACE);
        late.into_iter().for_each(|parked| parked.reply.error(Errno::ETIMEDOUT));
    }

    /// Makes a place for a peer's reply. Called with the core locked.
    pub fn park_peer(&self, ticket: PeerTicket, replier: Replier) {
        lock(&self.peer_replies).insert(ticket, replier);
    }

    pub fn take_peer(&self, ticket: PeerTicket) -> Option<Replier> {
        lock(&self.peer_replies).remove(&ticket)
    }

    /// Makes a place for an answer to this node's own question. Called with the core locked.
    pub fn park_own(&self, ticket: PeerTicket) -> oneshot::Receiver<PeerAnswer<Arc<Body>>> {
        let (sender, receiver) = oneshot::channel();
        lock(&self.own_replies).insert(ticket, sender);
        receiver
    }

    pub fn take_own(&self, ticket: PeerTicket) -> Option<oneshot::Sender<PeerAnswer<Arc<Body>>>> {
        lock(&self.own_replies).remove(&ticket)
    }

    pub fn prefill(&self) -> &Prefill {
        &self.prefill
    }

    /// Starts a fetch that can be cancelled. The lock is held until it is in the table, which it leaves when it ends.
    pub fn start_fetch(
        self: &Arc<Self>,
        call: CallId,
        promote: Option<oneshot::Sender<()>>,
        fetch: impl Future<Output = ()> + Send + 'static,
    ) {
        let at = Arc::clone(self);
        let mut fetches = lock(&self.fetches);
        let task = self.runtime.spawn(async move {
            fetch.await;
            lock(&at.fetches).remove(&call);
        });
        fetches.insert(call, Fetch { task: task.abort_handle(), promote });
    }

    /// A program waits for what is asked of another node. Who is not found here has ended, or finds it in the core.
    pub fn promote_fetch(&self, call: CallId) {
        let promote = lock(&self.fetches).get_mut(&call).and_then(|fetch| fetch.promote.take());
        if let Some(promote) = promote {
            // Whoever would be told has its answer.
            let _ = promote.send(());
        }
    }

    /// Ends a fetch that nobody waits for any more. One that reads the backing file system already goes on, for nobody.
    pub fn cancel_fetch(&self, call: CallId) {
        self.turns.withdraw(call.0);
        if let Some(fetch) = lock(&self.fetches).remove(&call) {
            fetch.task.abort();
        }
    }

    /// Lets the core decide by `decide`, then carries its decisions out.
    pub fn with_core<T>(self: &Arc<Self>, decide: impl FnOnce(&mut Core) -> T) -> T {
        let mut core = self.core();
        let outcome = decide(&mut core);
        let effects: Vec<Effect<Arc<Body>>> = std::iter::from_fn(|| core.poll_effect()).collect();
        if effects.is_empty() {
            return outcome;
        }
        let ttl = self.entry_ttl(&core);
        drop(core);
        effects.into_iter().for_each(|effect| (self.carry_out)(self, effect, &ttl));
        outcome
    }

    /// Makes the daemon end.
    pub fn tell_to_end(&self) {
        self.end.notify_one();
    }

    pub async fn until_told_to_end(&self) {
        self.end.notified().await;
    }
}

/// How long each node may believe a name: the kernel does, every node on the way to the root does, and the sum of their
/// times is what the user allows.
fn names_last(options: &DaemonOptions, forest: &Forest) -> Option<Duration> {
    let believers = forest.first().depth_max() + 2;
    options.revalidate.map(|interval| interval / believers)
}

/// Tells the core the time, and gives up what is late, for as long as the daemon runs.
pub(super) async fn tell_the_time(service: Arc<Service>) {
    let mut ticks = tokio::time::interval(TICK);
    let mut looked_up = service.now();
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let now = service.now();
        service.give_up_late_replies(now);
        // Directories may have been replaced by others of their names.
        if service.names_last.is_some_and(|last| now.since(looked_up) >= last) {
            service.forget_descriptors();
            looked_up = now;
        }
        if service.core().poll_timeout().is_some_and(|deadline| deadline <= now) {
            service.with_core(|core| core.handle_timeout(now));
        }
    }
}

/// A panic ends the process, so a poisoned lock is never seen.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
