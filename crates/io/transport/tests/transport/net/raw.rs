//! The protocol by hand, to say what no endpoint would say.

use std::net::SocketAddr;
use std::time::Duration;

use forebay_body::Piece;
use forebay_transport::Address;
use forebay_types::NodeRank;
use forebay_wire::message::{MAGIC, PROTOCOL_VERSION, decode, encode};
use forebay_wire::{
    Answer, CHECKSUM_BYTES, Class, Envelope, FRAME_HEAD_BYTES, FrameHead, FrameKind, Greeting, Hello, Level,
    NONCE_BYTES, Request,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::{JOB, PATIENCE};

/// One end of the two connections of a session.
pub struct Raw {
    pub control: TcpStream,
    pub bulk: TcpStream,
}

pub fn greeting(level: Level) -> Greeting {
    Greeting { magic: MAGIC, version: PROTOCOL_VERSION, level, nonce: [5; NONCE_BYTES] }
}

pub fn hello(from: u32, to: u32, class: Class) -> Hello {
    Hello { job: JOB.to_owned(), from: NodeRank(from), to: NodeRank(to), class, session: 7 }
}

pub fn address_of(address: &Address) -> SocketAddr {
    match address {
        Address::Tcp { host, ports } => SocketAddr::new(host.parse().unwrap(), ports[0]),
        Address::Memory => panic!("no socket"),
    }
}

pub fn head(kind: FrameKind, stream: u32, head_bytes: usize, body_bytes: usize) -> [u8; FRAME_HEAD_BYTES] {
    FrameHead { kind, stream, head_bytes: head_bytes as u32, body_bytes: body_bytes as u32 }.encode()
}

/// A frame of level `Off`.
pub fn frame(kind: FrameKind, stream: u32, message: &[u8], body: &[u8]) -> Vec<u8> {
    let checksum = Piece::new(body.to_vec().into()).checksum().to_le_bytes();
    let checksum: &[u8] = if body.is_empty() { &[] } else { &checksum };
    [&head(kind, stream, message.len(), body.len())[..], message, checksum, body].concat()
}

pub async fn send(connection: &mut TcpStream, kind: FrameKind, stream: u32, message: &[u8], body: &[u8]) {
    connection.write_all(&frame(kind, stream, message, body)).await.unwrap();
}

/// Reads one frame: its head, its message, its body.
pub async fn receive(connection: &mut TcpStream) -> (FrameHead, Vec<u8>, Vec<u8>) {
    let read = async {
        let mut bytes = [0; FRAME_HEAD_BYTES];
        connection.read_exact(&mut bytes).await.unwrap();
        let head = FrameHead::decode(&bytes).unwrap();
        let mut message = vec![0; head.head_bytes as usize];
        connection.read_exact(&mut message).await.unwrap();
        if head.body_on_connection() > 0 {
            connection.read_exact(&mut [0; CHECKSUM_BYTES]).await.unwrap();
        }
        let mut body = vec![0; head.body_on_connection()];
        connection.read_exact(&mut body).await.unwrap();
        (head, message, body)
    };
    timeout(PATIENCE, read).await.expect("no frame came")
}

/// Waits until the other side closes the connection, whatever it sends before.
pub async fn closed(connection: &mut TcpStream) {
    let mut rest = vec![];
    let read = timeout(PATIENCE, connection.read_to_end(&mut rest)).await.expect("the connection stayed open");
    assert!(read.is_ok() || read.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset));
}

impl Raw {
    /// Connects to `address` as node 1 and shakes hands with node 0.
    pub async fn connect(address: &Address) -> Self {
        let control = Self::greet(address, Class::Control).await;
        Self { control, bulk: Self::greet(address, Class::Bulk).await }
    }

    async fn greet(address: &Address, class: Class) -> TcpStream {
        let mut connection = TcpStream::connect(address_of(address)).await.unwrap();
        send(&mut connection, FrameKind::Greeting, 0, &encode(&greeting(Level::Off)), &[]).await;
        assert_eq!(receive(&mut connection).await.0.kind, FrameKind::Greeting);
        send(&mut connection, FrameKind::Hello, 0, &encode(&hello(1, 0, class)), &[]).await;
        assert_eq!(receive(&mut connection).await.0.kind, FrameKind::Hello);
        connection
    }

    /// Lets node 1 in, as node 0.
    pub async fn accept(listener: &TcpListener) -> Self {
        // Both are opened at once: neither waits for the other's end.
        let (first, second) = (Self::accept_one(listener).await, Self::accept_one(listener).await);
        let ((first, first_class), (second, _)) = tokio::join!(Self::welcome(first), Self::welcome(second));
        match first_class {
            Class::Control => Self { control: first, bulk: second },
            Class::Bulk => Self { control: second, bulk: first },
        }
    }

    async fn accept_one(listener: &TcpListener) -> TcpStream {
        timeout(PATIENCE, listener.accept()).await.unwrap().unwrap().0
    }

    async fn welcome(mut connection: TcpStream) -> (TcpStream, Class) {
        assert_eq!(receive(&mut connection).await.0.kind, FrameKind::Greeting);
        send(&mut connection, FrameKind::Greeting, 0, &encode(&greeting(Level::Off)), &[]).await;
        let (_, message, _) = receive(&mut connection).await;
        let theirs: Hello = decode(&message).unwrap();
        let ours = Hello { from: theirs.to, to: theirs.from, ..theirs.clone() };
        send(&mut connection, FrameKind::Hello, 0, &encode(&ours), &[]).await;
        (connection, theirs.class)
    }

    pub async fn ask(&mut self, stream: u32, request: impl Into<Request>) {
        let message = encode(&Envelope { remaining_ms: 30_000, request: request.into() });
        send(&mut self.control, FrameKind::Request, stream, &message, &[]).await;
    }

    pub async fn credit(&mut self, stream: u32, bytes: usize) {
        self.control.write_all(&head(FrameKind::Credit, stream, 0, bytes)).await.unwrap();
    }

    /// The next answer on the control connection.
    pub async fn answer(&mut self) -> (u32, Answer) {
        let (head, message, _) = receive(&mut self.control).await;
        assert_eq!(head.kind, FrameKind::Answer);
        (head.stream, decode(&message).unwrap())
    }

    /// Whether nothing waits on the bulk connection, looked at for long enough that a sender would have been seen.
    pub async fn bulk_is_silent(&mut self) -> bool {
        timeout(Duration::from_millis(50), self.bulk.peek(&mut [0])).await.is_err()
    }
}
