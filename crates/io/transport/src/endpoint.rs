//! A node's end of the job's network: what it asks, what it answers, and the one place that knows all its connections.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use forebay_body::Pool;
use forebay_latency::Register;
use forebay_types::{NodeRank, Priority};
use forebay_wire::Request;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout, timeout_at};

use crate::accept::{Doorway, accept_peers};
use crate::calls::{End, Reply};
use crate::connect::{Connector, Listener};
use crate::counts::{Counters, Counts};
use crate::error::CallError;
use crate::find::Finder;
use crate::handshake::Identity;
use crate::link::{Asked, Link};
use crate::lock::lock;
use crate::memory::Network;
use crate::options::{EndpointOptions, Peers};
use crate::replier::Service;
use crate::tasks::Tasks;

/// Connections that may wait in the kernel to be accepted. A wave of children, or a flood, waits there for milliseconds;
/// one that finds no room comes again after a second.
const BACKLOG_CONNECTIONS: i32 = 4096;

/// How long a daemon that ends waits for its last answers to leave. `down` has a second in all.
const FLUSH_DEADLINE: Duration = Duration::from_millis(300);

/// A call's deadline is cut to this; the protocol counts milliseconds in 32 bits, and nobody waits for a day.
const CALL_DEADLINE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Connections that end between being made and being used are made anew once; then the call fails.
const TRIES: usize = 2;

/// A node's end of the job's network. Cloning shares it. It lives until `shutdown`, or as long as its runtime.
#[derive(Clone)]
pub struct Endpoint {
    shared: Arc<Shared>,
}

/// State that an endpoint's requesting tasks share.
struct Shared {
    identity: Arc<Identity>,
    counts: Arc<Counts>,
    /// How long its own requests take, until their answers begin.
    latencies: Register,
    finder: Finder,
    doorway: Arc<Doorway>,
    tasks: Arc<Tasks>,
    pool: Pool,
    links: Mutex<BTreeMap<NodeRank, Slot>>,
}

type Connected = Result<Arc<Link>, CallError>;

enum Slot {
    /// Calls that wait for it, in the order they came.
    Connecting(Vec<oneshot::Sender<Connected>>),
    Up(Arc<Link>),
}

impl Endpoint {
    /// Starts to listen and to answer, as tasks of the current runtime.
    ///
    /// # Errors
    /// When the runtime cannot take the listener over.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn start(
        options: EndpointOptions,
        listener: std::net::TcpListener,
        service: Arc<dyn Service>,
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        // Listening already, but with what the standard library takes for enough.
        rustix::net::listen(&listener, BACKLOG_CONNECTIONS)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let connector = Connector::Tcp(options.subnets.clone());
        Ok(Self::start_on(options, connector, Listener::Tcp(listener), service))
    }

    /// The same on a network within the process. An endpoint that had the rank before can no longer be reached.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[must_use]
    pub fn start_memory(mut options: EndpointOptions, network: &Network, service: Arc<dyn Service>) -> Self {
        options.addresses = network.addresses();
        let listener = Listener::Memory(network.listen(options.rank));
        let connector = Connector::Memory(network.clone(), options.rank);
        Self::start_on(options, connector, listener, service)
    }

    fn start_on(options: EndpointOptions, connector: Connector, listener: Listener, service: Arc<dyn Service>) -> Self {
        let nodes = options.addresses.len();
        let identity = Identity { job: options.job, rank: options.rank, nodes, security: options.security };
        let (identity, counts, tasks) =
            (Arc::new(identity), Arc::<Counts>::default(), Arc::new(Tasks::new(options.life)));
        let EndpointOptions { handshake_deadline, bodies_bytes, pool, .. } = options;
        let doorway = Doorway::new(&identity, &counts, &tasks, &pool, handshake_deadline, bodies_bytes);
        let places = (Peers::new(options.addresses), connector);
        let finder = Finder::new(&identity, &counts, places, &pool, options.connect_deadline);
        let shared = Arc::new(Shared {
            identity,
            counts,
            latencies: Register::default(),
            finder,
            doorway,
            tasks,
            pool,
            links: Mutex::default(),
        });
        shared.tasks.spawn(accept_peers(Arc::clone(&shared.doorway), listener, service));
        Self { shared }
    }

    /// Asks node `to` and returns as soon as the answer is here; its body may still be growing, until `deadline` from
    /// now at most. Connects when there is no connection. Dropping the future cancels.
    ///
    /// # Errors
    /// `CallError`, which tells whether the request was sent.
    pub async fn call(
        &self,
        to: NodeRank,
        request: impl Into<Request>,
        deadline: Duration,
    ) -> Result<Reply, CallError> {
        let (until, after, request) = (call_until(deadline), deadline, request.into());
        let recorded = self.shared.latencies.guard(request.message.word());
        let reply = match self.ask(to, &request, until, after).await {
            Ok(asked) => asked.reply().await,
            Err(error) => Err(error),
        };
        recorded.done();
        reply
    }

    /// The same for what no program waits for yet. Once `promoted` is told that one does, the peer is told too.
    ///
    /// # Errors
    /// As `call`.
    pub async fn call_prefetch(
        &self,
        to: NodeRank,
        request: impl Into<Request>,
        deadline: Duration,
        promoted: oneshot::Receiver<()>,
    ) -> Result<Reply, CallError> {
        let (until, after) = (call_until(deadline), deadline);
        let request = request.into().at(Priority::Prefetch);
        let recorded = self.shared.latencies.guard(request.message.word());
        let reply = self.ask_prefetch(to, request, (until, after), promoted).await;
        recorded.done();
        reply
    }

    async fn ask_prefetch(
        &self,
        to: NodeRank,
        request: Request,
        (until, after): (Instant, Duration),
        promoted: oneshot::Receiver<()>,
    ) -> Result<Reply, CallError> {
        let mut promoted = pin!(told(promoted));
        let asked = tokio::select! {
            biased;
            asked = self.ask(to, &request, until, after) => asked?,
            // It waits for a connection, or for room that programs' calls have.
            () = &mut promoted => {
                let request = request.clone().at(Priority::Demand);
                return self.ask(to, &request, until, after).await?.reply().await;
            }
        };
        asked.reply_or_promote(promoted).await
    }

    async fn ask(
        &self,
        to: NodeRank,
        request: &Request,
        deadline: Instant,
        after: Duration,
    ) -> Result<Asked, CallError> {
        let mut tries = 1;
        loop {
            let link = match self.shared.ready(to) {
                Some(link) => link,
                None => within(deadline, self.shared.connected(to))
                    .await
                    .unwrap_or(Err(CallError::TimedOut { to, after }))?,
            };
            match link.ask(request, deadline, after).await {
                Err(CallError::ConnectionLost { .. }) if tries < TRIES => tries += 1,
                asked => return asked,
            }
        }
    }

    /// Counts of its work so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let links = lock(&self.shared.links)
            .values()
            .filter(|slot| matches!(slot, Slot::Up(link) if !link.has_ended()))
            .count();
        let sessions = self.shared.doorway.sessions().len();
        self.shared.counts.read(2 * (links + sessions) as u64)
    }

    /// How long its requests take, and those that wait for an answer.
    #[must_use]
    pub fn latencies(&self) -> &Register {
        &self.shared.latencies
    }

    /// The address book it was started with.
    #[must_use]
    pub fn peers(&self) -> &Peers {
        self.shared.finder.peers()
    }

    /// Closes the listener and all connections and returns when every task has ended. Answers given before get
    /// `FLUSH_DEADLINE` to leave; calls under way fail, and services are told that their callers are gone.
    pub async fn shutdown(&self) {
        let Some(mut tasks) = self.shared.tasks.close() else {
            return;
        };
        let sessions = self.shared.doorway.sessions();
        let flush = async {
            for session in &sessions {
                session.flush().await;
            }
        };
        // Requesters that have not read their answer by now learn from the closed connection.
        let _ = timeout(FLUSH_DEADLINE, flush).await;
        self.close_connections();
        tasks.shutdown().await;
        // A task may have made one in its last moment.
        self.close_connections();
    }

    fn close_connections(&self) {
        for slot in std::mem::take(&mut *lock(&self.shared.links)).into_values() {
            if let Slot::Up(link) = slot {
                link.close(End::ShutDown);
            }
        }
        self.shared.doorway.close_sessions();
    }
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Endpoint of node {} in job {:?}", self.shared.identity.rank, self.shared.identity.job)
    }
}

/// Never ends where nobody is left who could tell.
async fn told(promoted: oneshot::Receiver<()>) {
    if promoted.await.is_err() {
        std::future::pending::<()>().await;
    }
}

fn call_until(deadline: Duration) -> Instant {
    Instant::now() + deadline.min(CALL_DEADLINE_MAX)
}

async fn within<T>(deadline: Instant, work: impl Future<Output = T>) -> Option<T> {
    timeout_at(deadline, work).await.ok()
}

impl Shared {
    fn ready(&self, to: NodeRank) -> Option<Arc<Link>> {
        match lock(&self.links).get(&to) {
            Some(Slot::Up(link)) if !link.has_ended() => Some(Arc::clone(link)),
            _ => None,
        }
    }

    /// The link to a peer. Calls that need the same one share one attempt; a failed attempt is not remembered.
    async fn connected(self: &Arc<Self>, to: NodeRank) -> Connected {
        let (waiter, connected) = oneshot::channel();
        {
            let mut links = lock(&self.links);
            match links.get_mut(&to) {
                Some(Slot::Up(link)) if !link.has_ended() => return Ok(Arc::clone(link)),
                Some(Slot::Connecting(waiters)) => waiters.push(waiter),
                _ => {
                    links.insert(to, Slot::Connecting(vec![waiter]));
                    if self.tasks.spawn(Arc::clone(self).connect(to)).is_none() {
                        links.remove(&to);
                    }
                }
            }
        }
        // Attempts are abandoned at shutdown only.
        connected.await.unwrap_or(Err(CallError::ShutDown))
    }

    async fn connect(self: Arc<Self>, to: NodeRank) {
        let connected = self
            .finder
            .find(to)
            .await
            .map(|pair| Link::start(to, pair, self.pool.clone(), Arc::clone(&self.counts), &self.tasks));
        let attempt = match &connected {
            Ok(link) => lock(&self.links).insert(to, Slot::Up(Arc::clone(link))),
            Err(_) => lock(&self.links).remove(&to),
        };
        if let Some(Slot::Connecting(waiters)) = attempt {
            for waiter in waiters {
                // It may have stopped waiting.
                let _ = waiter.send(connected.clone());
            }
        }
    }
}
