//! A network within the process, for tests and measurements: the same frames over duplex pipes, no sockets and no ports. Where
//! it is asked to be, each node's sending is held to a rate.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use forebay_types::NodeRank;
use tokio::sync::mpsc;

use crate::lock::lock;
use crate::options::Address;
use crate::pace::{Cable, Paced};
use crate::stream::Stream;

/// Bytes a pipe holds in each direction; of the size of a small socket buffer, so that senders wait as they do there.
const PIPE_BYTES: usize = 64 << 10;

/// Connections that may wait to be accepted.
const BACKLOG: usize = 16;

type Listeners = HashMap<NodeRank, mpsc::Sender<Stream>>;

/// A network within the process. Cloning shares it.
#[derive(Clone)]
pub struct Network {
    nodes: u32,
    listeners: Arc<Mutex<Listeners>>,
    /// Endpoints started so far.
    lives: Arc<AtomicU64>,
    /// By rank; none where nodes send as fast as they can.
    cables: Arc<[Arc<Cable>]>,
}

impl Network {
    /// A network for ranks `0..nodes`, none of which listens yet.
    #[must_use]
    pub fn new(nodes: u32) -> Self {
        Self { nodes, listeners: Arc::default(), lives: Arc::default(), cables: Arc::default() }
    }

    /// The same, where each node sends so many bytes a second at most, over all its connections.
    #[must_use]
    pub fn paced(nodes: u32, bytes_per_second: u64) -> Self {
        let cables = (0..nodes).map(|_| Cable::new(bytes_per_second)).collect();
        Self { cables, ..Self::new(nodes) }
    }

    /// The address book of this network, for `EndpointOptions::addresses`.
    #[must_use]
    pub fn addresses(&self) -> Vec<Address> {
        vec![Address::Memory; self.nodes as usize]
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
        let refused = || io::Error::from(io::ErrorKind::ConnectionRefused);
        let listener = lock(&self.listeners).get(&to).cloned().ok_or_else(refused)?;
        let (near, far) = tokio::io::duplex(PIPE_BYTES);
        listener.send(self.stream(to, far)).await.map_err(|_| refused())?;
        Ok(self.stream(from, near))
    }

    /// A node's end of a pipe.
    fn stream(&self, rank: NodeRank, pipe: tokio::io::DuplexStream) -> Stream {
        let stream = Stream::memory(pipe);
        match self.cables.get(rank.0 as usize) {
            Some(cable) => Stream { writer: Box::new(Paced::new(stream.writer, Arc::clone(cable))), ..stream },
            None => stream,
        }
    }
}
