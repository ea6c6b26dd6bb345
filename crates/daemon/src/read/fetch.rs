//! Carrying a request to its source and the answer back to the core.

use std::sync::Arc;

use bytes::Bytes;
use forebay_body::Body;
use forebay_read::Answered;
use forebay_read::AttemptId;
use forebay_transport::{CallError, Reply};
use forebay_types::{ChunkIndex, Epoch, Errno, Generation, Name, NodeRank, Priority, Time, ViewPath, limits};
use forebay_wire::message::decode_entries;
use forebay_wire::{JobMessage, Listing, Outcome, ReadMessage, Request};
use tokio::sync::oneshot;

use super::arrivals::Arrivals;
use super::backing::Backing;
use super::cached_chunks::{CacheTier, Cacheable};
use super::core::Core;
use super::fetches::Fetches;
use super::prefill::{PackedChunk, Prefill};
use crate::environment::Exports;
use crate::shared::gather::chain;
use crate::shared::node::Node;

/// The parts that carry a request.
pub struct Fetcher {
    node: Arc<Node>,
    core: Arc<Core>,
    backing: Arc<Backing>,
    arrivals: Arc<Arrivals>,
    prefill: Arc<Prefill>,
    cache: Arc<CacheTier>,
    fetches: Arc<Fetches>,
}

impl Fetcher {
    pub fn new(
        node: &Arc<Node>,
        core: &Arc<Core>,
        backing: &Arc<Backing>,
        arrivals: &Arc<Arrivals>,
        prefill: &Arc<Prefill>,
        cache: &Arc<CacheTier>,
    ) -> Arc<Self> {
        Arc::new(Self {
            node: Arc::clone(node),
            core: Arc::clone(core),
            backing: Arc::clone(backing),
            arrivals: Arc::clone(arrivals),
            prefill: Arc::clone(prefill),
            cache: Arc::clone(cache),
            fetches: Arc::default(),
        })
    }

    /// Starts a fetch from a peer, for as many attempts as travel in one message; returns at once.
    pub fn from_peer(
        self: &Arc<Self>,
        calls: Vec<AttemptId>,
        peer: NodeRank,
        request: Request<ReadMessage>,
        deadline: Time,
    ) {
        let (promote, promoted) = match request.priority {
            Priority::Prefetch => Some(oneshot::channel()).unzip(),
            Priority::Demand => (None, None),
        };
        let at = Arc::clone(self);
        let asked = calls.clone();
        let fetch = async move { at.ask_peer(&asked, peer, request, promoted, deadline).await };
        self.fetches.start(&self.node, calls, promote, fetch);
    }

    /// Starts a fetch from the backing file system; returns at once.
    pub fn from_backing(self: &Arc<Self>, call: AttemptId, request: Request<ReadMessage>) {
        let at = Arc::clone(self);
        let Request { priority, message, .. } = request;
        match message {
            ReadMessage::Parcel { index } => {
                let fetch = async move { at.prefill.answer(&at.arrivals, call, index).await };
                self.fetches.start(&self.node, vec![call], None, fetch);
            }
            message => match self.prefill.packed(&message) {
                Some(chunk) => {
                    let fetch = async move { at.ask_pack(call, chunk, message, priority).await };
                    self.fetches.start(&self.node, vec![call], None, fetch);
                }
                None => self.by_priority(call, message, priority),
            },
        }
    }

    /// Reads a chunk from the pack, outside of the I/O scheduler: the pack may lie elsewhere than the exports. Failing that, from
    /// its own file.
    async fn ask_pack(self: &Arc<Self>, call: AttemptId, chunk: PackedChunk, message: ReadMessage, priority: Priority) {
        match chunk.read().await {
            Some(bytes) => self.arrivals.answer_whole(call, Body::whole(bytes)),
            None => self.by_priority(call, message, priority),
        }
    }

    fn by_priority(self: &Arc<Self>, call: AttemptId, message: ReadMessage, priority: Priority) {
        let at = Arc::clone(self);
        self.backing.threads.submit(call, priority, Box::new(move || at.ask_backing(call, message)));
    }

    /// A program waits for what was asked of another node ahead.
    pub fn promote_from_peer(&self, call: AttemptId) {
        self.fetches.promote(call);
    }

    /// A program waits for what was to be read ahead.
    pub fn promote_from_backing(&self, call: AttemptId) {
        self.backing.threads.promote(call);
    }

    /// Ends a fetch that nobody waits for any more. One that reads the backing file system already goes on, for nobody.
    pub fn cancel(&self, call: AttemptId) {
        self.backing.threads.withdraw(call);
        self.fetches.cancel(call);
    }

    /// Asks a node whether it is there; returns at once.
    pub fn ping(self: &Arc<Self>, peer: NodeRank, epoch: Epoch, deadline: Time) {
        let at = Arc::clone(self);
        self.node.spawn(async move {
            let ping = Request::from(JobMessage::Ping).in_epoch(epoch);
            let answer = match at.node.endpoint() {
                Some(endpoint) => endpoint.call(peer, ping, at.node.remaining(deadline)).await.ok(),
                None => None,
            };
            let alive_in = answer.and_then(|reply| match reply.outcome {
                Outcome::Alive { epoch } => Some(epoch),
                _ => None,
            });
            let (before, after) = at.core.decide(|core, now| {
                let before = core.suspects().contains(&peer);
                core.handle_ping(now, peer, alive_in);
                (before, core.suspects().contains(&peer))
            });
            match (before, after) {
                (false, true) => tracing::warn!(%peer, "a node does not answer; others are asked instead"),
                (true, false) => tracing::info!(%peer, "a node is back"),
                _ => {}
            }
        });
    }

    /// A prefetch has a `promoted`.
    async fn ask_peer(
        &self,
        calls: &[AttemptId],
        to: NodeRank,
        request: Request<ReadMessage>,
        promoted: Option<oneshot::Receiver<()>>,
        deadline: Time,
    ) {
        let Some(endpoint) = self.node.endpoint() else {
            return self.arrivals.answer_all(calls, &Answered::Lost);
        };
        let word = request.message.word();
        let sizes = bundled_bytes(&request.message);
        // A program may have come before there was anybody to tell.
        let is_demand = |call: &AttemptId| self.core.lock().priority_of(*call) == Some(Priority::Demand);
        let promoted = promoted.filter(|_| !calls.iter().any(is_demand));
        let replied = match promoted {
            Some(promoted) => endpoint.call_prefetch(to, request, self.node.remaining(deadline), promoted).await,
            None => endpoint.call(to, request, self.node.remaining(deadline)).await,
        };
        let answered = match (replied, calls) {
            (Ok(Reply { outcome: Outcome::Body, body: Some(body) }), [call]) => {
                return self.follow_body(*call, body).await;
            }
            (Ok(Reply { outcome: Outcome::Bundle(errors), body }), _) => match split(&sizes, errors, body).await {
                Some(files) => return self.arrivals.answer_bundle(calls, files),
                None => Answered::Failed(Errno::WAY_LOST),
            },
            (Ok(reply), _) => read_answer(reply).await.unwrap_or_else(Answered::Failed),
            (Err(CallError::TimedOut { .. }), _) => Answered::TimedOut,
            (Err(error @ CallError::ShutDown), _) => Answered::Failed(error.errno()),
            // It is there, and its other answers may be whole: this one is to be asked for again, elsewhere.
            (Err(CallError::BadChecksum { .. }), _) => Answered::Failed(Errno::WAY_LOST),
            (Err(error), _) => {
                // Once for a node, not for each of its requests.
                if !self.core.lock().suspects().contains(&to) {
                    tracing::warn!(%to, word, error = %chain(&error), "a node is lost; others are asked instead");
                }
                Answered::Lost
            }
        };
        self.arrivals.answer_all(calls, &answered);
    }

    /// Hands a body to the core while it arrives, and tells it when it has.
    async fn follow_body(&self, call: AttemptId, body: Arc<Body>) {
        let expected_bytes = body.expected_bytes();
        if !self.arrivals.begin(call, Arc::clone(&body)) {
            return;
        }
        if expected_bytes as u64 > limits::SMALL_FILE_BYTES_MAX {
            let arrivals = Arc::clone(&self.arrivals);
            body.when_filled(1, move |outcome| {
                if outcome.is_ok() {
                    arrivals.note_bytes(call);
                }
            });
        }
        let followed = Followed(body);
        let outcome = followed.0.whole_bytes().await;
        self.arrivals.end(call, outcome, expected_bytes);
    }

    fn ask_backing(&self, call: AttemptId, message: ReadMessage) {
        let mut cacheable = None;
        if let ReadMessage::Chunk { file, generation, index } = &message {
            cacheable = self.cache.chunk(file, generation, *index);
            if let Some(body) = cacheable.as_mut().and_then(Cacheable::get) {
                return self.arrivals.answer_whole(call, body);
            }
        }
        let Some(store) = self.backing.store() else {
            return self.arrivals.fail(call, Errno::EIO);
        };
        let answered = match message {
            ReadMessage::Chunk { file, generation, index } => {
                return self.read_chunk(store, call, (&file, &generation, index), cacheable);
            }
            ReadMessage::Listing { dir } => store.listing(&dir).map(Answered::Listing),
            ReadMessage::Page { dir, names, .. } => store.page(&dir, &names).map(Answered::Entries),
            ReadMessage::Lookup { dir, name } => {
                store.lookup(&dir, &name).map(|record| Answered::Entries(vec![record]))
            }
            ReadMessage::Recheck { file, .. } => look_up(store, &file),
            ReadMessage::FileSystem { path } => store.file_system(&path).map(Answered::FileSystem),
            // A bundle is for nodes, and a parcel is made elsewhere.
            ReadMessage::Bundle { .. } | ReadMessage::Parcel { .. } => Err(Errno::EINVAL),
        };
        self.arrivals.answer(call, answered.unwrap_or_else(Answered::Failed));
    }

    fn read_chunk(
        &self,
        store: &dyn Exports,
        call: AttemptId,
        (file, generation, index): (&ViewPath, &Generation, ChunkIndex),
        mut cacheable: Option<Cacheable>,
    ) {
        let mut wanted = false;
        let outcome = store.read_chunk(file, generation, index, &mut |body| {
            let bytes = body.expected_bytes();
            wanted = self.arrivals.begin(call, Arc::clone(&body));
            if wanted {
                // With the last byte, and not when the file is closed: that is one more request to the backing file system.
                let (arrivals, filled) = (Arc::clone(&self.arrivals), Arc::downgrade(&body));
                let cacheable = cacheable.take();
                body.when_filled(bytes, move |outcome| {
                    arrivals.end(call, outcome, bytes);
                    if let (Ok(()), Some(cacheable), Some(body)) = (outcome, cacheable, filled.upgrade()) {
                        cacheable.put(body);
                    }
                });
            }
        });
        if let (Err(errno), false) = (outcome, wanted) {
            self.arrivals.fail(call, errno);
        }
    }
}

/// The answer to anything but a chunk, complete and checked.
async fn read_answer(reply: Reply) -> Result<Answered, Errno> {
    let whole = async |body: Option<Arc<Body>>| {
        let body = body.ok_or(Errno::WAY_LOST)?;
        body.whole_bytes().await?;
        body.contiguous().ok_or(Errno::WAY_LOST)
    };
    // A reply that cannot be read was spoilt on its way.
    Ok(match reply.outcome {
        Outcome::Listing => Answered::Listing(Listing::parse(whole(reply.body).await?).map_err(|_| Errno::WAY_LOST)?),
        Outcome::Entries => Answered::Entries(decode_entries(&whole(reply.body).await?).map_err(|_| Errno::WAY_LOST)?),
        Outcome::FileSystem(sizes) => Answered::FileSystem(sizes),
        Outcome::Failed(errno) => Answered::Failed(errno),
        Outcome::Fenced { epoch } => Answered::Fenced(epoch),
        Outcome::Referred(to) => Answered::Referred(to),
        Outcome::Body | Outcome::Bundle(_) | Outcome::Text | Outcome::Alive { .. } | Outcome::Noted { .. } => {
            Answered::Failed(Errno::WAY_LOST)
        }
    })
}

/// The sizes of a bundle's files; none for any other request.
fn bundled_bytes(message: &ReadMessage) -> Vec<usize> {
    match message {
        ReadMessage::Bundle { files, .. } => {
            files.iter().map(|(_, generation)| generation.size_bytes as usize).collect()
        }
        _ => Vec::new(),
    }
}

/// A body that is followed until it is whole. When that is given up, nobody fills it any more, and who waits for its
/// bytes is told so.
struct Followed(Arc<Body>);

impl Drop for Followed {
    fn drop(&mut self) {
        self.0.fail(Errno::WAY_LOST);
    }
}

/// The outcome of each file of a bundle; `None` if the answer is spoilt. The bodies are copies, because one that is
/// kept must not keep all the others.
async fn split(
    sizes: &[usize],
    errors: Vec<Option<Errno>>,
    body: Option<Arc<Body>>,
) -> Option<Vec<Result<Arc<Body>, Errno>>> {
    let body = body.unwrap_or_else(|| Body::whole(Bytes::new()));
    body.whole_bytes().await.ok().filter(|()| errors.len() == sizes.len())?;
    let mut start = 0;
    let file = |(error, len): (Option<Errno>, &usize)| match error {
        Some(errno) => Err(errno),
        None => {
            let bytes = body.slices(start, *len).concat();
            start += len;
            Ok(Body::whole(Bytes::from(bytes)))
        }
    };
    let files = errors.into_iter().zip(sizes).map(file).collect();
    (start == body.expected_bytes()).then_some(files)
}

/// The present record of a path: none also when its directory is gone, so that every node on the way drops its listing.
fn look_up(store: &dyn Exports, path: &ViewPath) -> Result<Answered, Errno> {
    let (dir, name) = path.split().ok_or(Errno::EINVAL)?;
    let name = Name::new(name).map_err(|_| Errno::EINVAL)?;
    match store.lookup(&dir, &name) {
        Err(Errno::ENOENT | Errno::ENOTDIR) => Ok(Answered::Entries(vec![None])),
        record => record.map(|record| Answered::Entries(vec![record])),
    }
}
