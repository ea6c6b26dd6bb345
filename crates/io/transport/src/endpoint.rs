//! A node's end of the job's network: what it asks, what it answers, and the one place that knows all its connections.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use forebay_body::Pool;
use forebay_types::{NodeRank, Priority};
use forebay_wire::{Class, Request};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::accept::{Doorway, accept_peers};
use crate::calls::{End, Reply};
use crate::connect::{Connector, Listener};
use crate::counts::{Counters, Counts};
use crate::error::CallError;
use crate::handshake::{Greeted, Identity, greet};
use crate::limits;
use crate::link::{Asked, Link};
use crate::lock::lock;
use crate::memory::Network;
use crate::options::{EndpointOptions, Peers};
use crate::replier::Service;
use crate::stream::Stream;
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

/// What the tasks of an endpoint that ask share.
struct Shared {
    identity: Arc<Identity>,
    counts: Arc<Counts>,
    doorway: Arc<Doorway>,
    tasks: Arc<Tasks>,
    connect_deadline: Duration,
    peers: Peers,
    pool: Pool,
    connector: Connector,
    links: Mutex<BTreeMap<NodeRank, Slot>>,
    /// The ports at which peers were found.
    found_at: Mutex<BTreeMap<NodeRank, u16>>,
    started: Instant,
    next_session: AtomicU64,
}

type Connected = Result<Arc<Link>, CallError>;

/// A peer's two connections, control first.
type Found = Result<(Greeted, Greeted), CallError>;

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
        Ok(Self::start_on(options, Connector::Tcp, Listener::Tcp(listener), service))
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
        let first_session = connector.first_session();
        let identity = Identity { job: options.job, rank: options.rank, nodes, security: options.security };
        let (identity, counts, tasks) =
            (Arc::new(identity), Arc::<Counts>::default(), Arc::new(Tasks::new(options.life)));
        let EndpointOptions { handshake_deadline, bodies_bytes, pool, .. } = options;
        let doorway = Doorway::new(&identity, &counts, &tasks, &pool, handshake_deadline, bodies_bytes);
        let shared = Arc::new(Shared {
            identity,
            counts,
            doorway,
            tasks,
            connect_deadline: options.connect_deadline,
            peers: Peers::new(options.addresses),
            pool,
            connector,
            links: Mutex::default(),
            found_at: Mutex::default(),
            started: Instant::now(),
            next_session: AtomicU64::new(first_session),
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
        let (until, after) = (call_until(deadline), deadline);
        self.ask(to, &request.into(), until, after).await?.reply().await
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

    /// What it has done so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let links = lock(&self.shared.links)
            .values()
            .filter(|slot| matches!(slot, Slot::Up(link) if !link.has_ended()))
            .count();
        let sessions = self.shared.doorway.sessions().len();
        self.shared.counts.read(2 * (links + sessions) as u64)
    }

    /// The address book it was started with.
    #[must_use]
    pub fn peers(&self) -> &Peers {
        &self.shared.peers
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
        // Whoever has not read its answer by now learns from the closed connection.
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

/// What was found, else what the other attempt finds. Of two failures that of one where somebody spoke: it may be the peer,
/// of another build.
async fn or_by(found: Found, other: impl Future<Output = Found>) -> Found {
    let Err(why) = found else { return found };
    other.await.map_err(|error| if matches!(error, CallError::Unreachable { .. }) { why } else { error })
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

    /// Shakes hands at whichever of the peer's ports is its own. The one where it was found last comes first.
    async fn find(&self, to: NodeRank) -> Found {
        let mut ports = self.peers.ports(to);
        let found_at = lock(&self.found_at).get(&to).copied();
        ports.sort_by_key(|port| Some(*port) != found_at);
        match timeout(self.connect_deadline, self.find_at(to, &ports)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(self.unreachable(to, io::ErrorKind::TimedOut.into())),
        }
    }

    /// Tries one port after the other, and the next beside one that keeps silent.
    fn find_at<'a>(&'a self, to: NodeRank, ports: &'a [u16]) -> Pin<Box<dyn Future<Output = Found> + Send + 'a>> {
        Box::pin(async move {
            let (port, others) = ports.split_first().unwrap_or((&0, &[]));
            let mut here = pin!(self.shake_hands(to, *port));
            if others.is_empty() {
                return here.await;
            }
            let mut elsewhere = self.find_at(to, others);
            let later = async {
                sleep(limits::PORT_PATIENCE).await;
                elsewhere.as_mut().await
            };
            tokio::select! {
                biased;
                found = &mut here => or_by(found, elsewhere).await,
                found = later => or_by(found, here).await,
            }
        })
    }

    /// Both connections at once: they find each other at the other end by the session's number.
    async fn shake_hands(&self, to: NodeRank, port: u16) -> Found {
        let session = self.next_session.fetch_add(1, Ordering::Relaxed);
        let open = |class| self.open((to, port), class, session);
        let pair = tokio::try_join!(open(Class::Control), open(Class::Bulk))?;
        lock(&self.found_at).insert(to, port);
        Ok(pair)
    }

    async fn open(&self, (to, port): (NodeRank, u16), class: Class, session: u64) -> Result<Greeted, CallError> {
        let stream = self.connect_early(to, port).await.map_err(|error| self.unreachable(to, error))?;
        let greeted = greet(stream, &self.identity, (to, class, session), &self.pool, &self.counts).await;
        let refused = |refusal| CallError::Refused { to, address: self.address(to), source: Arc::new(refusal) };
        greeted.map_err(refused)
    }

    /// Connects. Where nobody listens yet it tries again while this node is young: the nodes of a job start side by side,
    /// and one that is a moment later than its neighbour is not lost.
    async fn connect_early(&self, to: NodeRank, port: u16) -> io::Result<Stream> {
        loop {
            match self.connector.connect(&self.peers, to, port).await {
                Err(error)
                    if error.kind() == io::ErrorKind::ConnectionRefused
                        && self.started.elapsed() < limits::START_SKEW =>
                {
                    sleep(limits::START_SKEW / 50).await;
                }
                outcome => return outcome,
            }
        }
    }

    fn unreachable(&self, to: NodeRank, error: io::Error) -> CallError {
        CallError::Unreachable { to, address: self.address(to), source: Arc::new(error) }
    }

    fn address(&self, to: NodeRank) -> String {
        self.peers.address(to).map_or_else(|| "no address".to_owned(), ToString::to_string)
    }
}
