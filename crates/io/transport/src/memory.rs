//! A network within the process, for simulations, tests and measurements: the same frames, no sockets and no ports.
//!
//! Where it is asked to be, each node's sending is held to a rate, bytes take their time, nodes are slow and routes are cut
//! (`faults`). All of that follows tokio's clock. That moves in whole milliseconds when it is paused, and in the same steps
//! in each run when the runtime was started with it paused.

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use forebay_types::NodeRank;
use tokio::sync::mpsc;

use crate::faults::{Faults, Route};
use crate::lock::lock;
use crate::options::Address;
use crate::pace::{Cable, Paced};
use crate::pipe::{PipeReader, PipeWriter, pipe};
use crate::stream::{NO_PLACE, Stream, WriteHalf};

/// Bytes a pipe holds in each direction; of the size of a small socket buffer, so that senders wait as they do there.
const PIPE_BYTES: usize = 64 << 10;

/// The same where bytes take time: with less, a connection would carry 64 MB/s at a millisecond, and sockets hold as much.
const LONG_PIPE_BYTES: usize = 1 << 20;

/// Connections that may wait to be accepted.
const BACKLOG: usize = 16;

/// Ranks follow from here: a host each, as far as `pending` knows.
const FIRST_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 0);

type Listeners = BTreeMap<NodeRank, mpsc::Sender<Stream>>;

/// A network within the process. Cloning shares it.
#[derive(Clone)]
pub struct Network {
    nodes: u32,
    listeners: Arc<Mutex<Listeners>>,
    /// Endpoints started so far.
    lives: Arc<AtomicU64>,
    /// By rank; none where nodes send as fast as they can.
    cables: Arc<[Arc<Cable>]>,
    faults: Arc<Faults>,
    pipe_bytes: usize,
}

impl Network {
    /// A network for ranks `0..nodes`, none of which listens yet.
    #[must_use]
    pub fn new(nodes: u32) -> Self {
        Self {
            nodes,
            listeners: Arc::default(),
            lives: Arc::default(),
            cables: Arc::default(),
            faults: Arc::default(),
            pipe_bytes: PIPE_BYTES,
        }
    }

    /// The same, where each node sends so many bytes a second at most, over all its connections.
    #[must_use]
    pub fn paced(nodes: u32, bytes_per_second: u64) -> Self {
        let cables = (0..nodes).map(|_| Cable::new(bytes_per_second)).collect();
        Self { cables, ..Self::new(nodes) }
    }

    /// A network without faults, where each piece that is written takes as long from one node to another as `latency` says
    /// at that moment. The bytes of one connection stay in order. `latency` must not use the network.
    #[must_use]
    pub fn with_latency(self, latency: impl Fn(NodeRank, NodeRank) -> Duration + Send + Sync + 'static) -> Self {
        let faults = Arc::new(Faults::with_latency(Box::new(latency)));
        Self { faults, pipe_bytes: LONG_PIPE_BYTES, ..self }
    }

    /// The address book of this network, for `EndpointOptions::addresses`.
    #[must_use]
    pub fn addresses(&self) -> Vec<Address> {
        vec![Address::Memory; self.nodes as usize]
    }

    /// From now on nothing arrives at `to` that comes from `from`. It waits, connections that are being opened with it.
    pub fn cut(&self, from: NodeRank, to: NodeRank) {
        self.faults.cut(from, to);
    }

    /// Bytes that wait for a cut from `from` to `to` arrive.
    pub fn mend(&self, from: NodeRank, to: NodeRank) {
        self.faults.mend(from, to);
    }

    /// Cuts `side` off from all others, both ways.
    pub fn partition(&self, side: &[NodeRank]) {
        let others = (0..self.nodes).map(NodeRank).filter(|rank| !side.contains(rank));
        for other in others {
            for &rank in side {
                self.cut(rank, other);
                self.cut(other, rank);
            }
        }
    }

    /// Mends every cut.
    pub fn mend_all(&self) {
        self.faults.mend_all();
    }

    /// From now on all that `node` sends and receives takes so much longer.
    pub fn slow(&self, node: NodeRank, by: Duration) {
        self.faults.slow(node, by);
    }

    pub(crate) fn listen(&self, rank: NodeRank) -> mpsc::Receiver<Stream> {
        let (sender, receiver) = mpsc::channel(BACKLOG);
        lock(&self.listeners).insert(rank, sender);
        receiver
    }

    /// No two lives of a rank come to the same numbers, and every run of a job comes to the same ones.
    pub(crate) fn first_session(&self) -> u64 {
        self.lives.fetch_add(1, Ordering::Relaxed) << 32
    }

    pub(crate) async fn connect(&self, from: NodeRank, to: NodeRank) -> io::Result<Stream> {
        let there = Route::new(&self.faults, from, to);
        let back = there.back();
        there.travel().await;
        let (far_reader, near_writer) = pipe(there, self.pipe_bytes);
        let (near_reader, far_writer) = pipe(back.clone(), self.pipe_bytes);
        let listener = lock(&self.listeners).get(&to).cloned();
        let is_accepted = match listener {
            Some(listener) => listener.send(self.stream(to, from, far_reader, far_writer)).await.is_ok(),
            None => false,
        };
        back.travel().await;
        match is_accepted {
            true => Ok(self.stream(from, to, near_reader, near_writer)),
            false => Err(io::ErrorKind::ConnectionRefused.into()),
        }
    }

    /// The end of a connection that belongs to `own` and leads to `peer`.
    fn stream(&self, own: NodeRank, peer: NodeRank, reader: PipeReader, writer: PipeWriter) -> Stream {
        let peer = Ipv4Addr::from_bits(FIRST_ADDRESS.to_bits().wrapping_add(peer.0)).into();
        let reader = Box::new(reader);
        let writer: WriteHalf = match self.cables.get(own.0 as usize) {
            Some(cable) => Box::new(Paced::new(Box::new(writer), Arc::clone(cable))),
            None => Box::new(writer),
        };
        Stream { reader, writer, peer, place: NO_PLACE }
    }
}
