//! Requests of other nodes: answered from what is kept, joined with what is under way, passed on otherwise.

use std::time::Duration;

use forebay_cache::{Key, Object, ObjectKind};
use forebay_types::{Errno, Time, Urgency};
use forebay_wire::Request;

use super::chunks::Chunk;
use super::reads::Reader;
use super::{ReadPath, Waiter};
use crate::bundle::Bundle;
use crate::{PeerAnswer, PeerTicket};

impl<B: Clone> ReadPath<B> {
    /// Takes a request of a peer, who waits `remaining` at most. The answer comes as an effect.
    pub fn handle_peer(
        &mut self,
        now: Time,
        ticket: PeerTicket,
        request: Request,
        urgency: Urgency,
        remaining: Duration,
    ) {
        self.counters.served_peers += 1;
        let deadline = now.after(remaining.min(self.options.deadline));
        if let Some(key) = self.serve(now, ticket, request, urgency, deadline) {
            self.note_wanted(&key);
        }
    }

    /// A program waits now for what a peer asked ahead.
    pub fn handle_peer_promote(&mut self, now: Time, ticket: PeerTicket) {
        self.ways.now = now;
        let reader = Reader::Peer(ticket);
        self.promote_read(reader);
        let flights = self.in_flight.calls_of(|waiter| match waiter {
            Waiter::Peer(other) => *other == ticket,
            Waiter::ReadPart { reader: other, .. } => *other == reader,
            Waiter::Kernel { .. } | Waiter::Prefill(_) => false,
        });
        flights.into_iter().for_each(|flight| self.promote(flight));
    }

    /// Takes a request of this node's shell, answered like a peer's; no program wants it yet.
    pub fn handle_own(&mut self, now: Time, ticket: PeerTicket, request: Request) {
        let request = request.in_epoch(self.epoch.to_tell());
        self.serve(now, ticket, request, Urgency::Ahead, now.after(self.options.deadline));
    }

    /// Answers from what is kept, or asks. What was wanted, for a request that wants one thing.
    fn serve(
        &mut self,
        now: Time,
        ticket: PeerTicket,
        request: Request,
        urgency: Urgency,
        deadline: Time,
    ) -> Option<Key> {
        self.ways.now = now;
        let Some(key) = Key::of(&request) else {
            self.tell_peer(ticket, PeerAnswer::Failed(Errno::EINVAL));
            return None;
        };
        if !self.is_in_epoch(ticket, request.epoch()) {
            return None;
        }
        if matches!(key, Key::Parcel { .. }) && self.epoch.to_tell() > 0 {
            self.tell_peer(ticket, PeerAnswer::Failed(Errno::ENODATA));
            return None;
        }
        if let Some(bundle) = Bundle::of(&request) {
            self.read_bundle(deadline, ticket, bundle, urgency);
            return None;
        }
        match self.kept_for_peer(&key) {
            Some(answer) => self.tell_peer(ticket, answer),
            None => drop(self.ask(key.clone(), request, urgency, deadline, Some(Waiter::Peer(ticket)))),
        }
        Some(key)
    }

    /// The peer does not want its answer any more.
    pub fn handle_peer_cancel(&mut self, ticket: PeerTicket) {
        let reader = Reader::Peer(ticket);
        self.pending_reads.remove(&reader);
        self.withdraw(|waiter| match waiter {
            Waiter::Peer(other) => *other == ticket,
            Waiter::ReadPart { reader: other, .. } => *other == reader,
            Waiter::Kernel { .. } | Waiter::Prefill(_) => false,
        });
    }

    fn kept_for_peer(&mut self, key: &Key) -> Option<PeerAnswer<B>> {
        let kind = match key {
            Key::Listing { .. } => ObjectKind::Listings,
            Key::Page { .. } | Key::Name { .. } => ObjectKind::Attributes,
            Key::Chunk { .. } | Key::Parcel { .. } => return self.find_chunk_for_peer(key).map(Chunk::into_answer),
            Key::Bundle { .. } | Key::FileSystem { .. } | Key::Recheck { .. } => return None,
        };
        self.drop_if_old(key);
        match self.objects.get(key, kind)? {
            Object::Listing(listing) => Some(PeerAnswer::Listing(listing)),
            Object::Entries(records) => Some(PeerAnswer::Entries(records)),
            Object::Chunk(chunk) => Some(chunk.into_answer()),
        }
    }
}
