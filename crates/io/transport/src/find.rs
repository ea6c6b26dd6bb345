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

/// The parts of the search for peers.
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
        if ports.is_empty() {
            ports.push(0);
        }
        let shake_hands = |port| self.shake_hands(to, port);
        match timeout(self.deadline, one_beside_another(&ports, &shake_hands)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(self.unreachable(to, io::ErrorKind::TimedOut.into())),
        }
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

    /// Tries the addresses of the peer's host.
    async fn shake_hands_once(&self, to: NodeRank, port: u16) -> Found {
        let places = self.connector.places(&self.peers, to, port).await;
        let mut places = places.map_err(|error| self.unreachable(to, error))?;
        let found_at = self.found_at(to);
        places.sort_by_key(|place| Some(*place) != found_at);
        let failed = |kind: io::ErrorKind| self.unreachable(to, kind.into());
        one_after_another(&places, self.deadline, |place| self.shake_hands_at(to, place), failed).await
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

/// A try at one port, and at those behind it.
type Try<'a, T> = Pin<Box<dyn Future<Output = Result<T, CallError>> + Send + 'a>>;

/// Tries one port after the other, and the next beside one that keeps silent. There is one at least.
fn one_beside_another<'a, T, F>(ports: &'a [u16], shake_hands: &'a (impl Fn(u16) -> F + Sync)) -> Try<'a, T>
where
    T: Send + 'a,
    F: Future<Output = Result<T, CallError>> + Send + 'a,
{
    Box::pin(async move {
        let mut here = pin!(shake_hands(ports[0]));
        let others = &ports[1..];
        if others.is_empty() {
            return here.await;
        }
        let mut elsewhere = one_beside_another(others, shake_hands);
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

/// Tries one address after the other: at those at which the peer does not listen another user of its host may. Each but the
/// last has its share of the time.
async fn one_after_another<P: Copy, T, F: Future<Output = Result<T, CallError>>>(
    places: &[P],
    deadline: Duration,
    shake_hands: impl Fn(P) -> F,
    failed: impl Fn(io::ErrorKind) -> CallError,
) -> Result<T, CallError> {
    let share = deadline / places.len().max(1) as u32;
    let mut found = Err(failed(io::ErrorKind::AddrNotAvailable));
    let Some((last, others)) = places.split_last() else { return found };
    for place in others {
        let late = |_| Err(failed(io::ErrorKind::TimedOut));
        found = or_by(found, async { timeout(share, shake_hands(*place)).await.unwrap_or_else(late) }).await;
    }
    or_by(found, shake_hands(*last)).await
}

/// The peer that was found, else the one that the other attempt finds. Of two failures the one that tells more, or is later.
async fn or_by<T>(
    found: Result<T, CallError>,
    other: impl Future<Output = Result<T, CallError>>,
) -> Result<T, CallError> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(kind: io::ErrorKind) -> CallError {
        CallError::Unreachable { to: NodeRank(1), address: "a place".to_owned(), source: Arc::new(kind.into()) }
    }

    /// When each place was tried, milliseconds after the start.
    #[derive(Default)]
    struct Tried(Mutex<Vec<(u16, u128)>>);

    impl Tried {
        /// Listeners at places below 10 are silent; places below 20 refuse connections; the others are the peer's.
        async fn shake_hands(&self, start: Instant, place: u16) -> Result<u16, CallError> {
            lock(&self.0).push((place, start.elapsed().as_millis()));
            match place {
                0..10 => std::future::pending().await,
                10..20 => Err(failed(io::ErrorKind::ConnectionRefused)),
                _ => Ok(place),
            }
        }

        fn take(self) -> Vec<(u16, u128)> {
            self.0.into_inner().unwrap()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_next_port_is_tried_beside_a_silent_one_after_250_ms() {
        let (tried, start) = (Tried::default(), Instant::now());
        let found = one_beside_another(&[1, 2, 3, 20], &|port| tried.shake_hands(start, port)).await;
        assert_eq!(found.ok(), Some(20));
        assert_eq!(tried.take(), [(1, 0), (2, 250), (3, 500), (20, 750)]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_next_port_is_tried_at_once_where_nobody_listens() {
        let (tried, start) = (Tried::default(), Instant::now());
        let found = one_beside_another(&[11, 12, 1, 20], &|port| tried.shake_hands(start, port)).await;
        assert_eq!(found.ok(), Some(20));
        assert_eq!(tried.take(), [(11, 0), (12, 0), (1, 0), (20, 250)]);
    }

    /// A silent address takes its share of the 5 seconds, and leaves the others theirs.
    #[tokio::test(start_paused = true)]
    async fn several_addresses_share_five_seconds() {
        let deadline = limits::HANDSHAKE_DEADLINE;
        let (tried, start) = (Tried::default(), Instant::now());
        let found = one_after_another(&[1, 2, 11, 20], deadline, |place| tried.shake_hands(start, place), failed);
        assert_eq!(timeout(Duration::from_secs(5), found).await.unwrap().ok(), Some(20));
        assert_eq!(tried.take(), [(1, 0), (2, 1250), (11, 2500), (20, 2500)]);
        let (tried, start) = (Tried::default(), Instant::now());
        let found = one_after_another(&[1, 2, 3, 4], deadline, |place| tried.shake_hands(start, place), failed);
        // The last has what is left, which whoever looks for the peer counts (`Finder::find`).
        assert!(timeout(deadline, found).await.is_err());
        assert_eq!(tried.take(), [(1, 0), (2, 1250), (3, 2500), (4, 3750)]);
    }
}
