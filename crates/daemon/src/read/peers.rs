//! Requests of other nodes for what the read path has, and this node's own.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use forebay_body::Body;
use forebay_read::{PeerAnswer, PeerTicket};
use forebay_transport::Replier;
use forebay_types::{Errno, NodeRank, Priority};
use forebay_wire::message::encode_entries;
use forebay_wire::{Outcome, ReadMessage, Request};
use tokio::sync::oneshot;

use super::core::Core;

type Answer = PeerAnswer<Arc<Body>>;

/// Requests that wait for answers of this node's core.
pub struct Peers {
    core: Arc<Core>,
    next_ticket: AtomicU64,
    waiting: Mutex<HashMap<PeerTicket, Waiting>>,
}

enum Waiting {
    Peer(Replier),
    /// This node itself.
    Own(oneshot::Sender<Answer>),
}

impl Peers {
    pub fn new(core: &Arc<Core>) -> Arc<Self> {
        Arc::new(Self { core: Arc::clone(core), next_ticket: AtomicU64::new(1), waiting: Mutex::default() })
    }

    /// Hands a peer's request to the core.
    pub fn take(self: &Arc<Self>, from: NodeRank, request: Request<ReadMessage>, remaining: Duration, reply: Replier) {
        let ticket = self.ticket();
        let canceller = Arc::downgrade(self);
        reply.on_cancel(move || {
            if let Some(peers) = canceller.upgrade() {
                let gone = peers.waiting().remove(&ticket);
                drop(gone);
                peers.core.decide(|core, _| core.handle_peer_cancel(ticket));
            }
        });
        if request.priority == Priority::Prefetch {
            let promoter = Arc::downgrade(self);
            reply.on_promote(move || {
                if let Some(peers) = promoter.upgrade() {
                    peers.core.decide(|core, now| core.handle_peer_promote(now, ticket));
                }
            });
        }
        self.core.decide(|core, now| {
            self.waiting().insert(ticket, Waiting::Peer(reply));
            core.handle_peer(now, from, ticket, request, remaining);
        });
    }

    /// Asks this node's own core, as a peer would. `None` only when the daemon ends.
    pub async fn ask_own(&self, message: ReadMessage) -> Option<Answer> {
        let ticket = self.ticket();
        let (sender, answered) = oneshot::channel();
        self.core.decide(|core, now| {
            self.waiting().insert(ticket, Waiting::Own(sender));
            core.handle_own(now, ticket, message);
        });
        answered.await.ok()
    }

    /// Answers whoever asked; nothing to do when it has gone.
    pub fn answer(&self, ticket: PeerTicket, answer: Answer) {
        let waiting = self.waiting().remove(&ticket);
        match waiting {
            Some(Waiting::Peer(reply)) => answer_peer(reply, answer),
            // The receiver may have been given up.
            Some(Waiting::Own(own)) => drop(own.send(answer)),
            None => {}
        }
    }

    /// A number that is never used twice in a daemon.
    fn ticket(&self) -> PeerTicket {
        PeerTicket(self.next_ticket.fetch_add(1, Ordering::Relaxed))
    }

    /// A panic ends the process, so a poisoned lock is never seen.
    fn waiting(&self) -> MutexGuard<'_, HashMap<PeerTicket, Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn answer_peer(reply: Replier, answer: Answer) {
    match answer {
        PeerAnswer::Listing(listing) => reply.answer(Outcome::Listing, Some(Body::whole(listing.bytes().clone()))),
        PeerAnswer::Entries(records) => {
            reply.answer(Outcome::Entries, Some(Body::whole(Bytes::from(encode_entries(&records)))));
        }
        PeerAnswer::Body(body) => reply.answer(Outcome::Body, Some(body)),
        PeerAnswer::Bundle(files) => answer_bundle(reply, files),
        PeerAnswer::FileSystem(sizes) => reply.answer(Outcome::FileSystem(sizes), None),
        PeerAnswer::Failed(errno) => reply.answer(Outcome::Failed(errno), None),
        PeerAnswer::Fenced(epoch) => reply.answer(Outcome::Fenced { epoch }, None),
        PeerAnswer::Referred(to) => reply.answer(Outcome::Referred(to), None),
    }
}

/// Answers with the bytes of a bundle's files when they are there or will not come; they are small.
fn answer_bundle(reply: Replier, mut files: Vec<Result<Arc<Body>, Errno>>) {
    let filling = |file: &Result<Arc<Body>, Errno>| file.as_ref().is_ok_and(|body| !body.is_whole());
    if let Some(at) = files.iter().position(filling)
        && let Ok(body) = files[at].clone()
    {
        return body.when_filled(body.expected_bytes(), move |outcome| {
            files[at] = outcome.and(files[at].clone());
            answer_bundle(reply, files);
        });
    }
    let bytes =
        files.iter().flatten().flat_map(|body| body.slices(0, body.expected_bytes())).collect::<Vec<_>>().concat();
    let body = (!bytes.is_empty()).then(|| Body::whole(Bytes::from(bytes)));
    reply.answer(Outcome::Bundle(files.into_iter().map(Result::err).collect()), body);
}
