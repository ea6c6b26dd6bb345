//! Finding a peer: at which of its ports, and at which address of its host, it listens. At the others may be anybody.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use forebay_body::Pool;
use forebay_types::NodeRank;
use forebay_wire::Class;
use tokio::time::{Instant, sleep, timeout};

use crate::connect::Connector;
use crate::counts::Counts;
use crate::error::CallError;
use crate::handshake::{Greeted, Identity, greet};
use crate::limits;
use crate::lock::lock;
use crate::options::Peers;

/// A peer's two connections, control first.
pub(crate) type Found = Result<(Greeted, Greeted), CallError>;

/// What it takes to find peers.
pub(crate) struct Finder {
    identity: Arc<Identity>,
    counts: Arc<Counts>,
    deadline: Duration,
    peers: Peers,
    pool: Pool,
    connector: Connector,
    /// Where peers were found.
    found_at: Mutex<BTreeMap<NodeRank, SocketAddr>>,
    started: Instant,
    next_session: AtomicU64,
}

impl Finder {
    pub(crate) fn new(
        identity: &Arc<Identity>,
        counts: &Arc<Counts>,
        (peers, connector): (Peers, Connector),
        pool: &Pool,
        deadline: Duration,
    ) -> Self {
        Self {
            identity: Arc::clone(identity),
            counts: Arc::clone(counts),
            deadline,
            peers,
            pool: pool.clone(),
            next_session: AtomicU64::new(connector.first_session()),
            connector,
            found_at: Mutex::default(),
            started: Instant::now(),
        }
    }

    pub(crate) fn peers(&self) -> &Peers {
        &self.peers
    }

    /// Shakes hands at whichever of the peer's ports is its own. The one where it was found last comes first.
    pub(crate) async fn find(&self, to: NodeRank) -> Found {
        let mut ports = self.peers.ports(to);
        let found_at = self.found_at(to).map(|place| place.port());
        ports.sort_by_key(|port| Some(*port) != found_at);
        match timeout(self.deadline, self.find_at(to, &ports)).await {
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

    /// Shakes hands at one of the peer's ports. Where nobody listens yet it tries again while this node is young: the nodes of
    /// a job start side by side, and one that is a moment later than its neighbour is not lost.
    async fn shake_hands(&self, to: NodeRank, port: u16) -> Found {
        loop {
            match self.shake_hands_once(to, port).await {
                Err(error) if is_refused(&error) && self.started.elapsed() < limits::START_SKEW => {
                    sleep(limits::START_SKEW / 50).await;
                }
                found => return found,
            }
        }
    }

    /// Tries one address of the peer's host after the other: at those at which the peer does not listen another user of its
    /// host may. Each but the last has its share of the time.
    async fn shake_hands_once(&self, to: NodeRank, port: u16) -> Found {
        let places = self.connector.places(&self.peers, to, port).await;
        let mut places = places.map_err(|error| self.unreachable(to, error))?;
        let found_at = self.found_at(to);
        places.sort_by_key(|place| Some(*place) != found_at);
        let share = self.deadline / places.len().max(1) as u32;
        let mut found = Err(self.unreachable(to, io::ErrorKind::AddrNotAvailable.into()));
        let last = places.pop();
        for place in places {
            let late = || Err(self.unreachable(to, io::ErrorKind::TimedOut.into()));
            let here = async { timeout(share, self.shake_hands_at(to, place)).await.unwrap_or_else(|_| late()) };
            found = or_by(found, here).await;
        }
        match last {
            Some(place) => or_by(found, self.shake_hands_at(to, place)).await,
            None => found,
        }
    }

    /// Both connections at once: they find each other at the other end by the session's number.
    async fn shake_hands_at(&self, to: NodeRank, place: SocketAddr) -> Found {
        let session = self.next_session.fetch_add(1, Ordering::Relaxed);
        let open = |class| self.open((to, place), class, session);
        let pair = tokio::try_join!(open(Class::Control), open(Class::Bulk))?;
        lock(&self.found_at).insert(to, place);
        Ok(pair)
    }

    async fn open(
        &self,
        (to, place): (NodeRank, SocketAddr),
        class: Class,
        session: u64,
    ) -> Result<Greeted, CallError> {
        let stream = self.connector.connect(to, place).await.map_err(|error| self.unreachable(to, error))?;
        let greeted = greet(stream, &self.identity, (to, class, session), &self.pool, &self.counts).await;
        let refused = |refusal| CallError::Refused { to, address: self.address(to), source: Arc::new(refusal) };
        greeted.map_err(refused)
    }

    fn found_at(&self, to: NodeRank) -> Option<SocketAddr> {
        lock(&self.found_at).get(&to).copied()
    }

    fn unreachable(&self, to: NodeRank, error: io::Error) -> CallError {
        CallError::Unreachable { to, address: self.address(to), source: Arc::new(error) }
    }

    fn address(&self, to: NodeRank) -> String {
        self.peers.address(to).map_or_else(|| "no address".to_owned(), ToString::to_string)
    }
}

/// What was found, else what the other attempt finds. Of two failures the one that tells more, or is later.
async fn or_by(found: Found, other: impl Future<Output = Found>) -> Found {
    let Err(why) = found else { return found };
    other.await.map_err(|error| if tells(&error) < tells(&why) { why } else { error })
}

/// How much a failure tells: most where somebody spoke, who may be the peer, of another build; then that nobody listens.
fn tells(error: &CallError) -> u8 {
    match error {
        CallError::Unreachable { .. } => u8::from(is_refused(error)),
        _ => 2,
    }
}

fn is_refused(error: &CallError) -> bool {
    matches!(error, CallError::Unreachable { source, .. } if source.kind() == io::ErrorKind::ConnectionRefused)
}
