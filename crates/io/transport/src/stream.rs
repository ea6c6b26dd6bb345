//! The byte streams below the frames: TCP between nodes, duplex pipes in tests. Above this module nobody knows which.

use std::io;
use std::net::{IpAddr, Ipv4Addr};

use forebay_types::{NodeRank, limits};
use rustix::net::sockopt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::memory::Network;
use crate::options::{Address, Peers};

pub(crate) type ReadHalf = Box<dyn AsyncRead + Send + Unpin>;
pub(crate) type WriteHalf = Box<dyn AsyncWrite + Send + Unpin>;

/// Unanswered probes after which a silent connection counts as lost.
const PROBES: u32 = 3;

/// An open connection.
pub(crate) struct Stream {
    pub(crate) reader: ReadHalf,
    pub(crate) writer: WriteHalf,
    /// Whose it is, as far as the network tells; refused ones are reported once for each.
    pub(crate) peer: IpAddr,
}

impl Stream {
    fn tcp(stream: TcpStream) -> io::Result<Self> {
        let peer = stream.peer_addr()?.ip();
        stream.set_nodelay(true)?;
        notice_silence(&stream)?;
        let (reader, writer) = stream.into_split();
        Ok(Self { reader: Box::new(reader), writer: Box::new(writer), peer })
    }

    pub(crate) fn memory(pipe: tokio::io::DuplexStream) -> Self {
        let (reader, writer) = tokio::io::split(pipe);
        Self { reader: Box::new(reader), writer: Box::new(writer), peer: Ipv4Addr::UNSPECIFIED.into() }
    }
}

/// Lets the kernel find out that a peer's host is gone, though it never said good-bye.
fn notice_silence(stream: &TcpStream) -> io::Result<()> {
    let silence_ms = u32::try_from(limits::SILENCE_MAX.as_millis()).unwrap_or(u32::MAX);
    sockopt::set_tcp_user_timeout(stream, silence_ms)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, limits::SILENCE_MAX)?;
    sockopt::set_tcp_keepintvl(stream, limits::SILENCE_MAX / PROBES)?;
    sockopt::set_tcp_keepcnt(stream, PROBES)?;
    Ok(())
}

/// Opens connections to peers.
pub(crate) enum Connector {
    Tcp,
    /// The network, and whose end of it this is.
    Memory(Network, NodeRank),
}

impl Connector {
    pub(crate) async fn connect(&self, peers: &Peers, to: NodeRank) -> io::Result<Stream> {
        match (self, peers.address(to)) {
            (_, None) => Err(io::Error::new(io::ErrorKind::InvalidInput, "the job has no such node")),
            (Self::Tcp, Some(Address::Tcp { host, port })) => {
                Stream::tcp(TcpStream::connect((host.as_str(), *port)).await?)
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
                // One that is gone before it was greeted is no failure of the listener's.
                if let Ok(stream) = Stream::tcp(listener.accept().await?.0) {
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
