//! Endpoints for tests, in memory and over loopback, and a service made of a closure.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use forebay_body::{Body, Pool};
use forebay_secret::JobKey;
use forebay_transport::memory::Network;
use forebay_transport::{Address, Endpoint, EndpointOptions, IncomingCall, Security, Service};
use forebay_types::{ChunkIndex, Generation, NodeRank, PIECE_BYTES, ViewPath};
use forebay_wire::{Message, Outcome, ReadMessage, Request};

pub mod middle;
pub mod raw;

pub const JOB: &str = "test";

/// Longer than anything here takes on a loaded machine; nothing waits for it unless the test fails.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Both ways to connect, and every level.
pub const KINDS: [Kind; 4] = [Kind::Memory, Kind::Tcp, Kind::Authentic, Kind::Sealed];

#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Within the process, authenticated.
    Memory,
    /// Over loopback, without a key.
    Tcp,
    Authentic,
    Sealed,
}

/// The job's key.
pub fn key() -> JobKey {
    JobKey::from_bytes([11; 32])
}

pub struct Answering<F>(pub F);

impl<F: Fn(IncomingCall) + Send + Sync + 'static> Service for Answering<F> {
    fn handle(&self, call: IncomingCall) {
        (self.0)(call);
    }
}

pub fn service(answer: impl Fn(IncomingCall) + Send + Sync + 'static) -> Arc<dyn Service> {
    Arc::new(Answering(answer))
}

/// For nodes that only ask.
pub fn mute() -> Arc<dyn Service> {
    service(drop)
}

/// Without a key, so that tests can speak the protocol by hand.
pub fn options(rank: u32, addresses: Vec<Address>) -> EndpointOptions {
    options_with(rank, addresses, Security::Off)
}

pub fn options_with(rank: u32, addresses: Vec<Address>, security: Security) -> EndpointOptions {
    EndpointOptions::new(JOB, NodeRank(rank), addresses, Pool::new(64), security)
}

pub fn loopback() -> (TcpListener, Address) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, Address::Tcp { host: "127.0.0.1".to_owned(), ports: vec![port] })
}

/// A job with a node for each service.
pub fn job(kind: Kind, services: Vec<Arc<dyn Service>>) -> Vec<Endpoint> {
    let security = match kind {
        Kind::Memory | Kind::Authentic => Security::Auth(key()),
        Kind::Tcp => Security::Off,
        Kind::Sealed => Security::Seal(key()),
    };
    let options = |rank, addresses| options_with(rank, addresses, security.clone());
    if let Kind::Memory = kind {
        let network = Network::new(services.len() as u32);
        let start = |(rank, service)| Endpoint::start_memory(options(rank, vec![]), &network, service);
        return (0..).zip(services).map(start).collect();
    }
    let (listeners, addresses): (Vec<_>, Vec<_>) = services.iter().map(|_| loopback()).unzip();
    let start =
        |(rank, (listener, service))| Endpoint::start(options(rank, addresses.clone()), listener, service).unwrap();
    (0..).zip(listeners.into_iter().zip(services)).map(start).collect()
}

/// A node 1 that asks node 0, which answers by `service`.
pub fn pair(kind: Kind, service: Arc<dyn Service>) -> (Endpoint, Endpoint) {
    let mut nodes = job(kind, vec![service, mute()]).into_iter();
    (nodes.next().unwrap(), nodes.next().unwrap())
}

pub fn chunk(index: u64) -> Request {
    let file = ViewPath::new(b"soft/lib.so").unwrap();
    ReadMessage::Chunk { file, generation: Generation::default(), index: ChunkIndex(index) }.into()
}

/// The number in a request made by `chunk`.
pub fn index_of(request: &Request) -> u64 {
    match &request.message {
        Message::Read(ReadMessage::Chunk { index, .. }) => index.0,
        other => panic!("no chunk was asked for but {other:?}"),
    }
}

/// Bytes that differ everywhere: a piece in the wrong place shows.
pub fn pattern(len_bytes: usize) -> Bytes {
    let mut state = 0x9e37_79b9_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..len_bytes).map(|_| next()).collect()
}

/// The body of `bytes`, cut into pieces as the backing file system's reader does.
pub fn in_pieces(bytes: &Bytes) -> Arc<Body> {
    let body = Body::filling(bytes.len());
    push_pieces(&body, bytes);
    body
}

pub fn push_pieces(body: &Body, bytes: &Bytes) {
    for start in (0..bytes.len()).step_by(PIECE_BYTES) {
        body.push(bytes.slice(start..bytes.len().min(start + PIECE_BYTES)));
    }
}

/// Asks node 0 for chunk `index` and waits for all of it.
pub async fn ask(node: &Endpoint, index: u64) -> Bytes {
    let reply = node.call(NodeRank(0), chunk(index), PATIENCE).await.unwrap();
    assert_eq!(reply.outcome, Outcome::Body);
    let body = reply.body.unwrap();
    body.whole_bytes().await.unwrap();
    body.contiguous().unwrap()
}

/// Waits for a condition that nobody signals.
pub async fn until(what: &str, condition: impl Fn() -> bool) {
    let wait = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("{what} did not happen"));
}

/// Tasks of the current runtime.
pub fn tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}
