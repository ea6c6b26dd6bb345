//! Carrying a question to its source and the answer back to the core.

use std::sync::Arc;

use bytes::Bytes;
use forebay_body::Body;
use forebay_cache::CallId;
use forebay_node::Answered;
use forebay_store::Store;
use forebay_transport::{CallError, Reply};
use forebay_types::{ChunkIndex, Errno, Generation, Name, NodeRank, Time, Urgency, ViewPath};
use forebay_wire::message::decode_entries;
use forebay_wire::{Listing, Outcome, Request};
use tokio::sync::oneshot;

use crate::prefill::{self, PackedChunk};
use crate::pressure;
use crate::service::Service;

/// Starts a fetch from a peer; returns at once.
pub(super) fn from_peer(
    service: &Arc<Service>,
    call: CallId,
    peer: NodeRank,
    request: Request,
    urgency: Urgency,
    deadline: Time,
) {
    let at = Arc::clone(service);
    let (promote, promoted) = match urgency {
        Urgency::Ahead => Some(oneshot::channel()).unzip(),
        Urgency::Demand => (None, None),
    };
    service.start_fetch(call, promote, async move { ask_peer(&at, call, peer, request, promoted, deadline).await });
}

/// Starts a fetch from the backing file system; returns at once.
pub(super) fn from_backing(service: &Arc<Service>, call: CallId, request: Request, urgency: Urgency) {
    let at = Arc::clone(service);
    match request {
        Request::Parcel { index, .. } => service.start_fetch(call, None, prefill::answer(at, call, index)),
        request => match service.prefill().packed(&request) {
            Some(chunk) => service.start_fetch(call, None, ask_pack(at, call, chunk, request, urgency)),
            None => service.turns.queue(call.0, urgency, move || ask_backing(&at, call, request)),
        },
    }
}

/// Reads a chunk from the pack, outside of the turns: the pack may lie elsewhere than the exports. Failing that, from its
/// own file.
async fn ask_pack(service: Arc<Service>, call: CallId, chunk: PackedChunk, request: Request, urgency: Urgency) {
    match chunk.read().await {
        Some(bytes) => answer_whole(&service, call, Body::whole(bytes)),
        None => {
            let at = Arc::clone(&service);
            service.turns.queue(call.0, urgency, move || ask_backing(&at, call, request));
        }
    }
}

/// What was asked ahead has a `promoted`.
async fn ask_peer(
    service: &Arc<Service>,
    call: CallId,
    to: NodeRank,
    request: Request,
    promoted: Option<oneshot::Receiver<()>>,
    deadline: Time,
) {
    let Some(endpoint) = service.endpoint() else {
        return answer(service, call, Answered::Lost);
    };
    let word = request.word();
    let bundled = bundled_bytes(&request);
    // A program may have come before there was anybody to tell.
    let promoted = promoted.filter(|_| service.core().urgency_of(call) != Some(Urgency::Demand));
    let replied = match promoted {
        Some(promoted) => endpoint.call_ahead(to, request, service.remaining(deadline), promoted).await,
        None => endpoint.call(to, request, service.remaining(deadline)).await,
    };
    match replied {
        Ok(Reply { outcome: Outcome::Body, body: Some(body) }) => follow_body(service, call, body, bundled).await,
        Ok(reply) => {
            let answered = read_answer(reply).await.unwrap_or_else(Answered::Failed);
            answer(service, call, answered);
        }
        Err(error @ (CallError::TimedOut { .. } | CallError::ShutDown)) => fail(service, call, error.errno()),
        // It is there, and its other answers may be whole: this one is to be asked for again, elsewhere.
        Err(CallError::BadChecksum { .. }) => fail(service, call, Errno::WAY_LOST),
        Err(error) => {
            // Once for a node, not for each of its questions.
            if !service.core().suspects().contains(&to) {
                tracing::warn!(%to, word, error = %chain(&error), "a node is lost; others are asked instead");
            }
            answer(service, call, Answered::Lost);
        }
    }
}

/// Asks a node whether it is there.
pub(super) fn ping(service: &Arc<Service>, peer: NodeRank, epoch: u64, deadline: Time) {
    let service = Arc::clone(service);
    service.clone().runtime.spawn(async move {
        let answer = match service.endpoint() {
            Some(endpoint) => endpoint.call(peer, Request::Ping { epoch }, service.remaining(deadline)).await.ok(),
            None => None,
        };
        let alive_in = answer.and_then(|reply| match reply.outcome {
            Outcome::Alive { epoch } => Some(epoch),
            _ => None,
        });
        let now = service.now();
        let (before, after) = service.with_core(|core| {
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

/// The answer to anything but a chunk, complete and checked.
async fn read_answer(reply: Reply) -> Result<Answered, Errno> {
    let whole = async |body: Option<Arc<Body>>| {
        let body = body.ok_or(Errno::WAY_LOST)?;
        body.whole_bytes().await?;
        body.contiguous().ok_or(Errno::WAY_LOST)
    };
    // What cannot be read was spoilt on its way.
    Ok(match reply.outcome {
        Outcome::Listing => Answered::Listing(Listing::parse(whole(reply.body).await?).map_err(|_| Errno::WAY_LOST)?),
        Outcome::Entries => Answered::Entries(decode_entries(&whole(reply.body).await?).map_err(|_| Errno::WAY_LOST)?),
        Outcome::FileSystem(sizes) => Answered::FileSystem(sizes),
        Outcome::Failed(errno) => Answered::Failed(errno),
        Outcome::Fenced { epoch } => Answered::Fenced(epoch),
        Outcome::Body | Outcome::Text | Outcome::Alive { .. } | Outcome::Noted { .. } => {
            Answered::Failed(Errno::WAY_LOST)
        }
    })
}

/// The sizes of a bundle's files; none for any other request.
fn bundled_bytes(request: &Request) -> Vec<usize> {
    match request {
        Request::Bundle { files, .. } => files.iter().map(|(_, generation)| generation.size_bytes as usize).collect(),
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

/// Hands a body to the core while it arrives, and tells it when it has.
async fn follow_body(service: &Arc<Service>, call: CallId, body: Arc<Body>, bundled: Vec<usize>) {
    let expected = body.expected_bytes();
    let handle = Arc::clone(&body);
    let now = service.now();
    if !service.with_core(|core| core.handle_body_started(now, call, handle, expected)) {
        return;
    }
    let followed = Followed(body);
    let body = &followed.0;
    let outcome = body.whole_bytes().await;
    if bundled.is_empty() {
        service.with_core(|core| core.handle_body_ended(call, outcome));
        pressure::on_arrival(service, expected);
    } else {
        let outcome = outcome.map(|()| split(body, &bundled));
        service.with_core(|core| core.handle_bundle_ended(call, outcome));
    }
}

/// Bodies of their own for the files of a bundle: copies, because one that is kept must not keep all the others.
fn split(bundle: &Body, sizes: &[usize]) -> Vec<Arc<Body>> {
    let mut start = 0;
    let file = |len: &usize| {
        let bytes = bundle.slices(start, *len).concat();
        start += len;
        Body::whole(Bytes::from(bytes))
    };
    sizes.iter().map(file).collect()
}

fn ask_backing(service: &Arc<Service>, call: CallId, request: Request) {
    let Some(store) = service.store() else {
        return fail(service, call, Errno::EIO);
    };
    let answered = match request {
        Request::Chunk { file, generation, index } => {
            return read_chunk(service, store, call, &file, &generation, index);
        }
        Request::Listing { dir, .. } => store.listing(&dir).map(Answered::Listing),
        Request::Page { dir, names, .. } => store.page(&dir, &names).map(Answered::Entries),
        Request::Lookup { dir, name, .. } => store.lookup(&dir, &name).map(|record| Answered::Entries(vec![record])),
        Request::Recheck { file, .. } => look_up(store, &file),
        Request::FileSystem { path } => store.file_system(&path).map(Answered::FileSystem),
        // A bundle is read file by file.
        Request::Bundle { .. } => Err(Errno::EINVAL),
        Request::Probe { .. }
        | Request::Explain { .. }
        | Request::Status
        | Request::Shutdown
        | Request::Ping { .. }
        | Request::Parcel { .. }
        | Request::Refresh { .. }
        | Request::Report { .. }
        | Request::Recording => Err(Errno::EINVAL),
    };
    answer(service, call, answered.unwrap_or_else(Answered::Failed));
}

/// What a path is now: nothing also when its directory is gone, so that everybody on the way drops what lists it.
fn look_up(store: &Store, path: &ViewPath) -> Result<Answered, Errno> {
    let (dir, name) = path.split().ok_or(Errno::EINVAL)?;
    let name = Name::new(name).map_err(|_| Errno::EINVAL)?;
    match store.lookup(&dir, &name) {
        Err(Errno::ENOENT | Errno::ENOTDIR) => Ok(Answered::Entries(vec![None])),
        record => record.map(|record| Answered::Entries(vec![record])),
    }
}

fn read_chunk(
    service: &Arc<Service>,
    store: &Store,
    call: CallId,
    file: &ViewPath,
    generation: &Generation,
    index: ChunkIndex,
) {
    let mut wanted = false;
    let outcome = store.read_chunk(file, generation, index, |body| {
        let (now, bytes, handle) = (service.now(), body.expected_bytes(), Arc::clone(&body));
        wanted = service.with_core(|core| core.handle_body_started(now, call, handle, bytes));
        if wanted {
            // With the last byte, and not when the file is closed: that is one more request to the backing file system.
            let at = Arc::clone(service);
            body.when_filled(bytes, move |outcome| {
                at.with_core(|core| core.handle_body_ended(call, outcome));
                pressure::on_arrival(&at, bytes);
            });
        }
    });
    if let (Err(errno), false) = (outcome, wanted) {
        fail(service, call, errno);
    }
}

/// Hands a body over that is all there.
pub(super) fn answer_whole(service: &Arc<Service>, call: CallId, body: Arc<Body>) {
    let (now, bytes) = (service.now(), body.expected_bytes());
    if service.with_core(|core| core.handle_body_started(now, call, body, bytes)) {
        service.with_core(|core| core.handle_body_ended(call, Ok(())));
        pressure::on_arrival(service, bytes);
    }
}

pub(super) fn fail(service: &Arc<Service>, call: CallId, errno: Errno) {
    answer(service, call, Answered::Failed(errno));
}

fn answer(service: &Arc<Service>, call: CallId, answered: Answered) {
    let now = service.now();
    service.with_core(|core| core.handle_answer(now, call, answered));
}

/// An error and its causes in one line.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
