//! Requests of other nodes: answered from what is kept, joined with what is under way, passed on otherwise.

use std::time::Duration;

use forebay_cache::{Key, Object, ObjectKind};
use forebay_types::{Epoch, Errno, Priority, Time};
use forebay_wire::{ReadMessage, Request};

use super::reads::Reader;
use super::{ReadPath, Waiter};
use crate::{PeerAnswer, PeerTicket};

impl<B: Clone> ReadPath<B> {
    /// Takes a request of a peer, who waits `remaining` at most. The answer comes as an effect.
    pub fn handle_peer(&mut self, now: Time, ticket: PeerTicket, request: Request<ReadMessage>, remaining: Duration) {
        self.counters.served_peers += 1;
        let deadline = now.after(remaining.min(self.options.deadline));
        if let Some(key) = self.serve(now, ticket, request, deadline) {
            self.note_wanted(&key);
        }
    }

    /// A program waits now for what a peer asked ahead.
    pub fn handle_peer_promote(&mut self, now: Time, ticket: PeerTicket) {
        self.now = now;
        self.dispatching(|dispatch| dispatch.promote_waiter(Reader::Peer(ticket)));
    }

    /// Takes a request of this node's shell, answered like a peer's; no program wants it yet.
    pub fn handle_own(&mut self, now: Time, ticket: PeerTicket, message: ReadMessage) {
        let request = Request::new(message).at(Priority::Prefetch).in_epoch(self.refreshes.met());
        self.serve(now, ticket, request, now.after(self.options.deadline));
    }

    /// Answers from what is kept, or asks. What was wanted, for a request that wants one thing.
    fn serve(&mut self, now: Time, ticket: PeerTicket, request: Request<ReadMessage>, deadline: Time) -> Option<Key> {
        self.now = now;
        if !self.is_in_epoch(ticket, &request) {
            return None;
        }
        let Request { priority, message, .. } = request;
        let Some(key) = Key::of(&message) else {
            self.serve_bundle(deadline, ticket, &message, priority);
            return None;
        };
        if matches!(key, Key::Parcel { .. }) && self.refreshes.met() > Epoch::START {
            self.tell_peer(ticket, PeerAnswer::Failed(Errno::ENODATA));
            return None;
        }
        match self.kept_for_peer(&key) {
            Some(answer) => self.tell_peer(ticket, answer),
            None => _ = self.ask(key.clone(), message, priority, deadline, Some(Waiter::Peer(ticket))),
        }
        Some(key)
    }

    /// The peer does not want its answer any more.
    pub fn handle_peer_cancel(&mut self, ticket: PeerTicket) {
        self.withdraw(Reader::Peer(ticket));
    }

    fn kept_for_peer(&mut self, key: &Key) -> Option<PeerAnswer<B>> {
        let kind = match key {
            Key::Listing { .. } => ObjectKind::Listings,
            Key::Page { .. } | Key::Name { .. } => ObjectKind::Attributes,
            Key::Chunk { .. } | Key::Parcel { .. } => {
                return self.find_chunk_for_peer(key).map(|chunk| PeerAnswer::Body(chunk.body));
            }
            Key::FileSystem { .. } | Key::Recheck { .. } => return None,
        };
        self.drop_if_old(key);
        match self.objects.get(key, kind)? {
            Object::Listing(listing) => Some(PeerAnswer::Listing(listing)),
            Object::Entries(records) => Some(PeerAnswer::Entries(records)),
            Object::Chunk(chunk) => Some(PeerAnswer::Body(chunk.body)),
        }
    }
}
