//! Where connections come from: those that this node opens, and those that its peers do. Above this module nobody knows
//! whether it is TCP or a network within the process.

use std::hash::{BuildHasher, RandomState};
use std::io;

use forebay_types::NodeRank;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::memory::Network;
use crate::options::{Address, Peers};
use crate::stream::Stream;

/// Opens connections to peers.
pub(crate) enum Connector {
    Tcp,
    /// The network, and whose end of it this is.
    Memory(Network, NodeRank),
}

impl Connector {
    /// The number of a daemon's first session. One that comes back must not tie its connections to those of its earlier
    /// life.
    pub(crate) fn first_session(&self) -> u64 {
        match self {
            Self::Tcp => RandomState::new().hash_one(()),
            Self::Memory(network, _) => network.first_session(),
        }
    }

    /// To `port` of the peer's, where the network has ports.
    pub(crate) async fn connect(&self, peers: &Peers, to: NodeRank, port: u16) -> io::Result<Stream> {
        match (self, peers.address(to)) {
            (_, None) => Err(io::Error::new(io::ErrorKind::InvalidInput, "the job has no such node")),
            (Self::Tcp, Some(Address::Tcp { host, .. })) => {
                Stream::tcp(TcpStream::connect((host.as_str(), port)).await?, port)
            }
            (Self::Memory(network, from), Some(_)) => network.connect(*from, to).await,
            (Self::Tcp, Some(Address::Memory)) => Err(io::ErrorKind::Unsupported.into()),
        }
    }
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
                let port = listener.local_addr()?.port();
                // One that is gone before it was greeted is no failure of the listener's.
                if let Ok(stream) = Stream::tcp(stream, port) {
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
