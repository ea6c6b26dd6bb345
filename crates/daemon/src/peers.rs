//! Other nodes' requests: reading ones go to the core, those about the job to `job`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use forebay_body::Body;
use forebay_node::{Part, PeerAnswer, PeerTicket};
use forebay_transport::{IncomingCall, Replier};
use forebay_types::Urgency;
use forebay_wire::message::encode_entries;
use forebay_wire::{Outcome, Request};

use crate::service::Service;
use crate::{job, prefill, readiness, refresh};

/// Takes peers' requests.
pub(super) struct PeerService(pub Arc<Service>);

/// Numbers for peers' requests, never used twice in a daemon.
static NEXT_TICKET: AtomicU64 = AtomicU64::new(1);

impl forebay_transport::Service for PeerService {
    fn handle(&self, call: IncomingCall) {
        match call.request {
            Request::Ping { epoch } => {
                let now = self.0.now();
                let epoch = self.0.with_core(|core| core.handle_epoch(now, epoch));
                call.reply.answer(Outcome::Alive { epoch }, None);
            }
            Request::Report { report } => readiness::answer(&self.0, call.from, report, call.reply),
            Request::Refresh { .. } => drop(self.0.runtime.spawn(refresh::answer(Arc::clone(&self.0), call))),
            Request::Recording => drop(self.0.runtime.spawn(prefill::tell(Arc::clone(&self.0), call))),
            Request::Status | Request::Shutdown | Request::Explain { .. } | Request::Probe { .. } => {
                self.0.runtime.spawn(job::answer(Arc::clone(&self.0), call));
            }
            _ => self.read(call),
        }
    }
}

impl PeerService {
    fn read(&self, call: IncomingCall) {
        let service = &self.0;
        let ticket = PeerTicket(NEXT_TICKET.fetch_add(1, Ordering::Relaxed));
        let canceller = Arc::downgrade(service);
        call.reply.on_cancel(move || {
            if let Some(service) = canceller.upgrade() {
                drop(service.take_peer(ticket));
                service.with_core(|core| core.handle_peer_cancel(ticket));
            }
        });
        if call.urgency == Urgency::Ahead {
            let promoter = Arc::downgrade(service);
            call.reply.on_promote(move || {
                if let Some(service) = promoter.upgrade() {
                    let now = service.now();
                    service.with_core(|core| core.handle_peer_promote(now, ticket));
                }
            });
        }
        let now = service.now();
        service.with_core(|core| {
            service.park_peer(ticket, call.reply);
            core.handle_peer(now, ticket, call.request, call.urgency, call.remaining);
        });
    }
}

/// Asks this node's own core, as a peer would. `None` only when the daemon ends.
pub(super) async fn ask_own(service: &Arc<Service>, request: Request) -> Option<PeerAnswer<Arc<Body>>> {
    let ticket = PeerTicket(NEXT_TICKET.fetch_add(1, Ordering::Relaxed));
    let now = service.now();
    let answered = service.with_core(|core| {
        let answered = service.park_own(ticket);
        core.handle_own(now, ticket, request);
        answered
    });
    answered.await.ok()
}

/// Answers a peer; nothing to do when it has gone.
pub(super) fn answer(service: &Arc<Service>, ticket: PeerTicket, answer: PeerAnswer<Arc<Body>>) {
    if let Some(own) = service.take_own(ticket) {
        // Whoever asked may have been given up.
        return drop(own.send(answer));
    }
    let Some(reply) = service.take_peer(ticket) else { return };
    match answer {
        PeerAnswer::Listing(listing) => reply.answer(Outcome::Listing, Some(Body::whole(listing.bytes().clone()))),
        PeerAnswer::Entries(records) => {
            reply.answer(Outcome::Entries, Some(Body::whole(Bytes::from(encode_entries(&records)))));
        }
        PeerAnswer::Body(body) => reply.answer(Outcome::Body, Some(body)),
        PeerAnswer::Parts(parts) => answer_parts(reply, parts),
        PeerAnswer::FileSystem(sizes) => reply.answer(Outcome::FileSystem(sizes), None),
        PeerAnswer::Failed(errno) => reply.answer(Outcome::Failed(errno), None),
        PeerAnswer::Fenced(epoch) => reply.answer(Outcome::Fenced { epoch }, None),
    }
}

/// Answers with the bytes of all parts when they are there; they are small.
fn answer_parts(reply: Replier, parts: Vec<Part<Arc<Body>>>) {
    let lacking = parts.iter().find(|part| part.body.filled_bytes() < part.offset_bytes + part.len_bytes);
    let Some(Part { body, offset_bytes, len_bytes }) = lacking else {
        let slices = parts.iter().flat_map(|part| part.body.slices(part.offset_bytes, part.len_bytes));
        let bytes = slices.collect::<Vec<_>>().concat();
        return reply.answer(Outcome::Body, Some(Body::whole(Bytes::from(bytes))));
    };
    let (body, end) = (Arc::clone(body), offset_bytes + len_bytes);
    body.when_filled(end, move |outcome| match outcome {
        Ok(()) => answer_parts(reply, parts),
        Err(errno) => reply.answer(Outcome::Failed(errno), None),
    });
}
