//! The byte streams below the frames: TCP between nodes, pipes within a process. Above this module nobody knows which.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use rustix::net::sockopt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// How long a peer may leave bytes unacknowledged before its connection counts as lost, and a silent connection goes
/// unprobed. A dead host must not hold buffers for the 15 minutes that TCP would try.
const SILENCE_MAX: Duration = Duration::from_secs(30);

pub(crate) type ReadHalf = Box<dyn AsyncRead + Send + Unpin>;
pub(crate) type WriteHalf = Box<dyn AsyncWrite + Send + Unpin>;

/// Unanswered probes after which a silent connection counts as lost.
const PROBES: u32 = 3;

/// Where a connection was made to that is not one of sockets.
pub(crate) const NO_PLACE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// An open connection.
pub(crate) struct Stream {
    pub(crate) reader: ReadHalf,
    pub(crate) writer: WriteHalf,
    /// Whose it is, as far as the network tells; refused ones are reported once for each.
    pub(crate) peer: IpAddr,
    /// Address and port of the side that listens, as this side knows them.
    pub(crate) place: SocketAddr,
}

impl Stream {
    pub(crate) fn tcp(stream: TcpStream, place: SocketAddr) -> io::Result<Self> {
        let peer = stream.peer_addr()?.ip();
        stream.set_nodelay(true)?;
        notice_silence(&stream)?;
        let (reader, writer) = stream.into_split();
        Ok(Self { reader: Box::new(reader), writer: Box::new(writer), peer, place })
    }
}

/// Lets the kernel find out that a peer's host is gone, though it never said good-bye.
fn notice_silence(stream: &TcpStream) -> io::Result<()> {
    let silence_ms = u32::try_from(SILENCE_MAX.as_millis()).unwrap_or(u32::MAX);
    sockopt::set_tcp_user_timeout(stream, silence_ms)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, SILENCE_MAX)?;
    sockopt::set_tcp_keepintvl(stream, SILENCE_MAX / PROBES)?;
    sockopt::set_tcp_keepcnt(stream, PROBES)?;
    Ok(())
}
