//! Lets peers in: shakes hands with whoever connects, ties the two connections of a peer together, turns others away.
//!
//! Pending handshakes hold few connections, for a short time (`pending`), and are reported once each address. A peer that comes again with a new
//! session has lost the old one, even if this side has not noticed; the old one is closed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use forebay_body::Pool;
use forebay_types::NodeRank;
use forebay_wire::{Class, Hello};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::connect::Listener;
use crate::counts::Counts;
use crate::error::Refusal;
use crate::handshake::{Greeted, Identity, welcome};
use crate::lock::lock;
use crate::pending::{PendingHandshakes, Place};
use crate::replier::Service;
use crate::session::Session;
use crate::stream::Stream;
use crate::tasks::Tasks;
use crate::window::Window;

/// Addresses of refused connections that are remembered, so that each is reported once.
const REFUSED_REPORTED_MAX: usize = 1024;

/// Pause after the system failed to accept (out of descriptors, mostly): trying at once would only burn a core.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Peers that are being let in, and those that were.
pub(crate) struct Doorway {
    identity: Arc<Identity>,
    counts: Arc<Counts>,
    tasks: Arc<Tasks>,
    pool: Pool,
    handshake_deadline: Duration,
    /// Bytes of bodies that each peer may have under way.
    bodies_bytes: usize,
    halves: Mutex<BTreeMap<NodeRank, Half>>,
    sessions: Mutex<BTreeMap<NodeRank, Arc<Session>>>,
    reported: Mutex<BTreeSet<IpAddr>>,
}

/// A connection whose other one is still to come.
struct Half {
    session: u64,
    class: Class,
    other: oneshot::Sender<Greeted>,
}

impl Doorway {
    pub(crate) fn new(
        identity: &Arc<Identity>,
        counts: &Arc<Counts>,
        tasks: &Arc<Tasks>,
        pool: &Pool,
        handshake_deadline: Duration,
        bodies_bytes: usize,
    ) -> Arc<Self> {
        Arc::new(Self {
            identity: Arc::clone(identity),
            counts: Arc::clone(counts),
            tasks: Arc::clone(tasks),
            pool: pool.clone(),
            handshake_deadline,
            bodies_bytes,
            halves: Mutex::default(),
            sessions: Mutex::default(),
            reported: Mutex::default(),
        })
    }

    pub(crate) fn sessions(&self) -> Vec<Arc<Session>> {
        lock(&self.sessions).values().filter(|session| !session.has_ended()).cloned().collect()
    }

    pub(crate) fn close_sessions(&self) {
        let sessions = std::mem::take(&mut *lock(&self.sessions));
        sessions.into_values().for_each(|session| session.close());
    }

    fn report(&self, peer: IpAddr, refusal: &Refusal) {
        let mut reported = lock(&self.reported);
        if reported.len() < REFUSED_REPORTED_MAX && reported.insert(peer) {
            let refusal: &dyn std::error::Error = refusal;
            tracing::warn!(%peer, refusal, "a connection was refused; further ones from there are not reported");
        }
    }
}

/// Accepts until it is aborted.
pub(crate) async fn accept_peers(doorway: Arc<Doorway>, mut listener: Listener, service: Arc<dyn Service>) {
    let pending = Arc::new(PendingHandshakes::default());
    let mut fails = false;
    loop {
        match listener.accept().await {
            Ok(stream) => {
                fails = false;
                let (place, crowded) = pending.enter(stream.peer);
                doorway.tasks.spawn(let_in(Arc::clone(&doorway), stream, Arc::clone(&service), place));
                if crowded {
                    // The connection that lost its place is gone before the next one comes: no flood outruns its own end.
                    tokio::task::yield_now().await;
                }
            }
            Err(error) => {
                if !std::mem::replace(&mut fails, true) {
                    tracing::warn!(%error, "connections cannot be accepted for now");
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn let_in(doorway: Arc<Doorway>, stream: Stream, service: Arc<dyn Service>, mut place: Place) {
    let peer = stream.peer;
    let deadline = doorway.handshake_deadline;
    let welcomed = timeout(deadline, welcome(stream, &doorway.identity, &doorway.pool, &doorway.counts));
    let shaken = tokio::select! {
        biased;
        outcome = welcomed => outcome.unwrap_or(Err(Refusal::Late(deadline))),
        () = place.lost() => Err(Refusal::Crowded),
    };
    // From here on it is a known rank's, and there is one for each at most.
    drop(place);
    let refusal = match shaken {
        Ok((hello, connection)) => match pair(&doorway, &hello, connection, deadline).await {
            Ok(Some(pair)) => return admit(&doorway, hello.from, pair, service),
            Ok(None) => return,
            Err(refusal) => refusal,
        },
        Err(refusal) => refusal,
    };
    doorway.counts.refused();
    doorway.report(peer, &refusal);
}

/// The peer's two connections, control first; `None` for the second of them, which goes to whoever waits with the first.
async fn pair(
    doorway: &Doorway,
    hello: &Hello,
    connection: Greeted,
    deadline: Duration,
) -> Result<Option<(Greeted, Greeted)>, Refusal> {
    let waiter = {
        let mut halves = lock(&doorway.halves);
        match halves.remove(&hello.from) {
            Some(half) if half.session == hello.session && half.class != hello.class => {
                // If the first gave up in this moment, the peer finds both closed and tries again.
                let _ = half.other.send(connection);
                return Ok(None);
            }
            _ => {
                let (other, waiter) = oneshot::channel();
                halves.insert(hello.from, Half { session: hello.session, class: hello.class, other });
                waiter
            }
        }
    };
    match timeout(deadline, waiter).await {
        Ok(Ok(other)) if hello.class == Class::Control => Ok(Some((connection, other))),
        Ok(Ok(other)) => Ok(Some((other, connection))),
        // A newer session of the same peer took its place.
        Ok(Err(_)) => Err(Refusal::Session),
        Err(_) => {
            lock(&doorway.halves).retain(|_, half| !half.other.is_closed());
            Err(Refusal::Late(deadline))
        }
    }
}

fn admit(doorway: &Doorway, from: NodeRank, pair: (Greeted, Greeted), service: Arc<dyn Service>) {
    let (counts, window) = (Arc::clone(&doorway.counts), Window::new(doorway.bodies_bytes));
    let session = Session::start((from, window), pair, service, counts, &doorway.tasks);
    let mut sessions = lock(&doorway.sessions);
    sessions.retain(|_, session| !session.has_ended());
    let earlier = sessions.insert(from, session);
    drop(sessions);
    if let Some(earlier) = earlier {
        earlier.close();
    }
}
