//! Carrying out what the core decides: each decision goes to the part that can do it.

use std::sync::Arc;

use forebay_body::Body;
use forebay_node::{Effect, Source};

use crate::entry::EntryTtl;
use crate::notify::invalidate;
use crate::service::Service;
use crate::{fetch, kernel, peers};

/// Carries out one decision; returns at once.
pub(super) fn carry_out(service: &Arc<Service>, effect: Effect<Arc<Body>>, ttl: &EntryTtl) {
    match effect {
        Effect::Fetch { call, source: Source::Peer(peer), request, urgency, deadline } => {
            fetch::from_peer(service, call, peer, request, urgency, deadline);
        }
        Effect::Fetch { call, source: Source::Backing, request, urgency, .. } => {
            fetch::from_backing(service, call, request, urgency);
        }
        Effect::Promote { call, source: Source::Peer(_) } => service.promote_fetch(call),
        Effect::Promote { call, source: Source::Backing } => service.turns.promote(call.0),
        Effect::Ping { peer, epoch, deadline } => fetch::ping(service, peer, epoch, deadline),
        Effect::OpenParcel { index, body } => service.prefill().open(index, body),
        Effect::Cancel { call } => service.cancel_fetch(call),
        Effect::AnswerKernel { ticket, answer } => kernel::answer_parked(service, ticket, answer, ttl),
        Effect::AnswerPeer { ticket, answer } => peers::answer(service, ticket, answer),
        Effect::Stale(stale) => {
            if let Some(session) = service.session() {
                let notifier = session.notifier();
                service.runtime.spawn_blocking(move || stale.iter().for_each(|stale| invalidate(&notifier, stale)));
            }
        }
    }
}
