//! Where connections come from: those that this node opens, and those that its peers do. Above this module nobody knows
//! whether it is TCP or a network within the process.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::thread;

use forebay_types::NodeRank;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, oneshot};

use crate::memory::Network;
use crate::options::{Address, Peers};
use crate::stream::{NO_PLACE, Stream};
use crate::subnet::{Subnet, within};

/// Names that are looked up at the same time, each by a thread: as many as keep a start quick, and few enough where a name service hangs.
static LOOKUPS: Semaphore = Semaphore::const_new(8);

/// Opens connections to peers.
pub(crate) enum Connector {
    /// To addresses in these networks, where a host has one.
    Tcp(Vec<Subnet>),
    /// The network, and whose end of it this is.
    Memory(Network, NodeRank),
}

impl Connector {
    /// The number of a daemon's first session. One that comes back must not tie its connections to those of its earlier
    /// life.
    pub(crate) fn first_session(&self) -> u64 {
        match self {
            Self::Tcp(_) => RandomState::new().hash_one(()),
            Self::Memory(network, _) => network.first_session(),
        }
    }

    /// Where to look for a peer at one of its ports: at each address of its host, or those in the networks that were named.
    pub(crate) async fn places(&self, peers: &Peers, to: NodeRank, port: u16) -> io::Result<Vec<SocketAddr>> {
        match (self, peers.address(to)) {
            (_, None) => Err(io::Error::new(io::ErrorKind::InvalidInput, "the job has no such node")),
            (Self::Tcp(subnets), Some(Address::Tcp { host, .. })) => Ok(within(subnets, addresses(host, port).await?)),
            (Self::Memory(..), Some(_)) => Ok(vec![NO_PLACE]),
            (Self::Tcp(_), Some(Address::Memory)) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// To a peer at one of these.
    pub(crate) async fn connect(&self, to: NodeRank, place: SocketAddr) -> io::Result<Stream> {
        match self {
            Self::Tcp(_) => Stream::tcp(TcpStream::connect(place).await?, place),
            Self::Memory(network, from) => network.connect(*from, to).await,
        }
    }
}

/// The addresses of a host; names by a thread of their own. The runtime's own way panics where no thread can be made.
async fn addresses(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![(address, port).into()]);
    }
    let (place, (done, found)) = ((host.to_owned(), port), oneshot::channel());
    let turn = LOOKUPS.acquire().await.map_err(io::Error::other)?;
    let look_up = move || {
        // The caller may be gone.
        let _ = done.send(place.to_socket_addrs().map(Iterator::collect));
        drop(turn);
    };
    thread::Builder::new().name("addresses".to_owned()).spawn(look_up)?;
    found.await.unwrap_or_else(|_| Err(io::Error::other("the look-up of a host has ended in a panic")))
}

/// Where peers' connections come in.
pub(crate) enum Listener {
    Tcp(TcpListener),
    Memory(mpsc::Receiver<Stream>),
}

impl Listener {
    pub(crate) async fn accept(&mut self) -> io::Result<Stream> {
        match self {
            Self::Tcp(listener) => loop {
                let (stream, _) = listener.accept().await?;
                // One that is gone before it was greeted is no failure of the listener's.
                if let Ok(stream) = stream.local_addr().and_then(|place| Stream::tcp(stream, place)) {
                    return Ok(stream);
                }
            },
            Self::Memory(incoming) => match incoming.recv().await {
                Some(stream) => Ok(stream),
                // Another endpoint took this rank's place; nobody will connect here any more.
                None => std::future::pending().await,
            },
        }
    }
}
