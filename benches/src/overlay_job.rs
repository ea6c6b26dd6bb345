//! A whole job within this process: real cores over the real transport, with nothing around them but a backing file
//! system of one file and readers that ask for it.
//!
//! The daemon's work with the kernel, the keeper and the exports is left out, so that the figure is the overlay's:
//! who asks whom, cut-through, and what the links carry.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use forebay_body::{Body, Pool};
use forebay_overlay::{Forest, Shape};
use forebay_read::AttemptId;
use forebay_read::{
    Answered, Effect, KernelAnswer, KernelRequest, KernelTicket, Options, PeerAnswer, PeerTicket, ROOT_INODE, ReadPath,
    Source,
};
use forebay_transport::memory::Network;
use forebay_transport::{Endpoint, EndpointOptions, IncomingCall, Reply, Security, Service};
use forebay_types::{Attributes, CHUNK_BYTES, Extent, Kind, NodeRank, PIECE_BYTES, Time, chunk_bytes};
use forebay_wire::{Listing, ListingBuilder, ListingEntry, Message, Outcome, ReadMessage, Request};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

type Handle = Arc<Body>;

/// How long anything may take.
const DEADLINE: Duration = Duration::from_secs(120);

/// Pieces of buffers that a node keeps.
const POOL_PIECES: usize = 16;

/// The one file.
const NAME: &[u8] = b"file";

/// A job's nodes.
pub struct OverlayJob {
    nodes: Vec<Arc<Node>>,
}

/// One node.
struct Node {
    rank: NodeRank,
    core: Mutex<ReadPath<Handle>>,
    endpoint: OnceLock<Endpoint>,
    began: Instant,
    file_bytes: u64,
    kernel: Mutex<HashMap<KernelTicket, oneshot::Sender<KernelAnswer<Handle>>>>,
    peers: Mutex<Peers>,
}

/// Peers that wait for an answer.
#[derive(Default)]
struct Peers {
    replies: HashMap<PeerTicket, forebay_transport::Replier>,
    next_ticket: u64,
}

impl OverlayJob {
    /// A job of this shape whose nodes send `egress_bytes_per_second` each and have a file of `file_bytes` to read. In a
    /// runtime.
    ///
    /// # Errors
    /// A shape that cannot be.
    pub fn start(shape: Shape, egress_bytes_per_second: u64, file_bytes: u64) -> anyhow::Result<Self> {
        let forest = Forest::new(shape)?;
        let network = Network::paced(shape.node_count, egress_bytes_per_second);
        let began = Instant::now();
        let node = |rank| {
            let options = Options {
                rank,
                forest: forest.clone(),
                budget_bytes: 1 << 30,
                deadline: DEADLINE,
                direct_above_bytes: None,
                prefetch: true,
                entry_ttl: None,
                links: None,
            };
            let core = Mutex::new(ReadPath::new(options));
            let (endpoint, kernel, peers) = (OnceLock::new(), Mutex::default(), Mutex::default());
            let node = Arc::new(Node { rank, core, endpoint, began, file_bytes, kernel, peers });
            let options = EndpointOptions::new("bench", rank, Vec::new(), Pool::new(POOL_PIECES), Security::Off);
            let endpoint = Endpoint::start_memory(options, &network, Arc::new(Serving(Arc::clone(&node))));
            let _ = node.endpoint.set(endpoint);
            node
        };
        Ok(Self { nodes: (0..shape.node_count).map(NodeRank).map(node).collect() })
    }

    /// Lets every node read the file, whole, all at once; how long each took.
    ///
    /// # Errors
    /// When a node does not get it.
    pub async fn read_everywhere(&self) -> anyhow::Result<Vec<Duration>> {
        let mut reading = JoinSet::new();
        for node in &self.nodes {
            let node = Arc::clone(node);
            reading.spawn(async move { node.read_file().await.map(|()| node.began.elapsed()) });
        }
        let begun = self.nodes.first().map(|node| node.began.elapsed()).unwrap_or_default();
        let mut took = Vec::new();
        while let Some(outcome) = reading.join_next().await {
            took.push(outcome.context("a reader ended")??.saturating_sub(begun));
        }
        Ok(took)
    }

    /// Bytes that each node has sent.
    #[must_use]
    pub fn sent_bytes(&self) -> Vec<u64> {
        let sent = |node: &Arc<Node>| node.endpoint.get().map_or(0, |endpoint| endpoint.counters().bytes_sent);
        self.nodes.iter().map(sent).collect()
    }

    /// Ends all nodes.
    pub async fn end(self) {
        for endpoint in self.nodes.iter().filter_map(|node| node.endpoint.get()) {
            endpoint.shutdown().await;
        }
    }
}

impl Node {
    /// As a program does that maps the whole file: all its chunks are wanted at once.
    async fn read_file(self: &Arc<Self>) -> anyhow::Result<()> {
        let KernelAnswer::Entry(entry) = self.ask(0, KernelRequest::Lookup { parent: ROOT_INODE, name: NAME }).await?
        else {
            bail!("node {}: the file is not there", self.rank);
        };
        let mut reads = JoinSet::new();
        for chunk in 0..self.file_bytes.div_ceil(CHUNK_BYTES) {
            let node = Arc::clone(self);
            let extent = Extent { offset_bytes: chunk * CHUNK_BYTES, len_bytes: CHUNK_BYTES };
            reads.spawn(async move {
                match node.ask(chunk + 1, KernelRequest::Read { inode: entry.inode, extent }).await? {
                    KernelAnswer::Read(parts) => whole_bytes(&parts).await,
                    other => bail!("node {}: {other:?}", node.rank),
                }
            });
        }
        let mut bytes = 0;
        while let Some(read) = reads.join_next().await {
            bytes += read.context("a read ended")??;
        }
        ensure!(bytes == self.file_bytes, "node {}: {bytes} bytes", self.rank);
        Ok(())
    }

    async fn ask(self: &Arc<Self>, ticket: u64, request: KernelRequest<'_>) -> anyhow::Result<KernelAnswer<Handle>> {
        let (sender, answer) = oneshot::channel();
        let ticket = KernelTicket(ticket);
        lock(&self.kernel).insert(ticket, sender);
        let now = self.now();
        match self.with_core(|core| core.handle_kernel(now, ticket, request)) {
            Some(answer) => Ok(answer),
            None => answer.await.context("no answer"),
        }
    }

    fn now(&self) -> Time {
        Time(u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn with_core<T>(self: &Arc<Self>, decide: impl FnOnce(&mut ReadPath<Handle>) -> T) -> T {
        let mut core = lock(&self.core);
        let outcome = decide(&mut core);
        let effects: Vec<_> = std::iter::from_fn(|| core.poll_effect()).collect();
        drop(core);
        effects.into_iter().for_each(|effect| self.carry_out(effect));
        outcome
    }

    fn carry_out(self: &Arc<Self>, effect: Effect<Handle>) {
        let node = Arc::clone(self);
        match effect {
            Effect::Fetch { attempt: call, source: Source::Peer(to), request, .. } => {
                tokio::spawn(async move { node.ask_peer(call, to, request).await });
            }
            Effect::Fetch { attempt: call, source: Source::Backing, request, .. } => {
                tokio::spawn(async move { node.ask_backing(call, &request.message) });
            }
            Effect::AnswerKernel { ticket, answer } => {
                if let Some(waiting) = lock(&self.kernel).remove(&ticket) {
                    let _ = waiting.send(answer);
                }
            }
            Effect::AnswerPeer { ticket, answer } => self.answer_peer(ticket, answer),
            // No node is lost here, no file changes, and none is small.
            Effect::FetchBundle { .. }
            | Effect::Promote { .. }
            | Effect::Cancel { .. }
            | Effect::Ping { .. }
            | Effect::NoteSlow { .. }
            | Effect::Stale(_)
            | Effect::OpenParcel { .. } => {}
        }
    }

    fn answer_peer(&self, ticket: PeerTicket, answer: PeerAnswer<Handle>) {
        let Some(reply) = lock(&self.peers).replies.remove(&ticket) else { return };
        match answer {
            PeerAnswer::Listing(listing) => reply.answer(Outcome::Listing, Some(Body::whole(listing.bytes().clone()))),
            PeerAnswer::Body(body) => reply.answer(Outcome::Body, Some(body)),
            PeerAnswer::Failed(errno) => reply.answer(Outcome::Failed(errno), None),
            _ => reply.answer(Outcome::Failed(forebay_types::Errno::EINVAL), None),
        }
    }

    async fn ask_peer(self: Arc<Self>, call: AttemptId, to: NodeRank, request: Request<ReadMessage>) {
        let Some(endpoint) = self.endpoint.get() else { return };
        match endpoint.call(to, request, DEADLINE).await {
            Ok(Reply { outcome: Outcome::Body, body: Some(body) }) => self.follow(call, body).await,
            Ok(Reply { outcome: Outcome::Listing, body: Some(body) }) => {
                let listing = match body.whole_bytes().await {
                    Ok(()) => body.contiguous().and_then(|bytes| Listing::parse(bytes).ok()),
                    Err(_) => None,
                };
                self.answer(call, listing.map_or(Answered::Lost, Answered::Listing));
            }
            _ => self.answer(call, Answered::Lost),
        }
    }

    async fn follow(self: &Arc<Self>, call: AttemptId, body: Handle) {
        let (now, expected, handle) = (self.now(), body.expected_bytes(), Arc::clone(&body));
        if self.with_core(|core| core.handle_body_started(now, call, handle, expected)) {
            let outcome = body.whole_bytes().await;
            let now = self.now();
            self.with_core(|core| core.handle_body_ended(now, call, outcome));
        }
    }

    fn ask_backing(self: &Arc<Self>, call: AttemptId, message: &ReadMessage) {
        match message {
            ReadMessage::Listing { .. } => match listing(self.file_bytes) {
                Some(listing) => self.answer(call, Answered::Listing(listing)),
                None => self.answer(call, Answered::Lost),
            },
            ReadMessage::Chunk { generation, index, .. } => {
                let bytes = chunk_bytes(generation.size_bytes, *index);
                let body = Body::filling(bytes);
                let handle = Arc::clone(&body);
                let now = self.now();
                if self.with_core(|core| core.handle_body_started(now, call, handle, bytes)) {
                    let piece = Bytes::from(vec![index.0 as u8; PIECE_BYTES]);
                    for start in (0..bytes).step_by(PIECE_BYTES) {
                        body.push(piece.slice(..PIECE_BYTES.min(bytes - start)));
                    }
                    self.with_core(|core| core.handle_body_ended(now, call, Ok(())));
                }
            }
            _ => self.answer(call, Answered::Failed(forebay_types::Errno::EINVAL)),
        }
    }

    fn answer(self: &Arc<Self>, call: AttemptId, answered: Answered) {
        let now = self.now();
        self.with_core(|core| core.handle_answer(now, call, answered));
    }
}

/// A node's answers.
struct Serving(Arc<Node>);

impl Service for Serving {
    fn handle(&self, call: IncomingCall) {
        let node = &self.0;
        let ticket = {
            let mut peers = lock(&node.peers);
            peers.next_ticket += 1;
            let ticket = PeerTicket(peers.next_ticket);
            peers.replies.insert(ticket, call.reply);
            ticket
        };
        let (now, from, Request { epoch, priority, referral, message }) = (node.now(), call.from, call.request);
        if let Message::Read(message) = message {
            node.with_core(|core| {
                core.handle_peer(now, from, ticket, Request { epoch, priority, referral, message }, call.remaining)
            });
        }
    }
}

/// Waits for the bytes of a read; how many they are.
async fn whole_bytes(parts: &[forebay_read::Part<Handle>]) -> anyhow::Result<u64> {
    let mut bytes = 0;
    for part in parts {
        part.body.whole_bytes().await.map_err(|errno| anyhow::anyhow!("a chunk failed: {errno}"))?;
        bytes += part.len_bytes as u64;
    }
    Ok(bytes)
}

/// The listing of the one directory.
fn listing(file_bytes: u64) -> Option<Listing> {
    let mode = (u32::from(Kind::File.dirent()) << 12) | 0o644;
    let attributes = Some(Attributes { ino: 2, mode, size_bytes: file_bytes, nlink: 1, ..Attributes::default() });
    let mut builder = ListingBuilder::new();
    builder.push(ListingEntry { name: NAME, kind: Kind::File, ino: 2, attributes, target: &[] }).ok()?;
    let mode = (u32::from(Kind::Directory.dirent()) << 12) | 0o755;
    builder.finish(&Attributes { ino: 1, mode, nlink: 2, ..Attributes::default() }).ok()
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
