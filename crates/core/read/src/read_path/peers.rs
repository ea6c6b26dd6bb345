//! Requests of other nodes: answered from what is kept, joined with what is under way, passed on otherwise.

use std::time::Duration;

use forebay_cache::{Key, Object, ObjectKind};
use forebay_types::{Epoch, Errno, Generation, Name, NodeRank, Priority, Referral, Time, ViewPath};
use forebay_wire::{ReadMessage, Request};

use super::state::ReadPath;
use crate::bundles::files_of;
use crate::effect::{PeerAnswer, PeerTicket};
use crate::waiter::{Asker, Reader, Waiter};

impl<B: Clone> ReadPath<B> {
    /// Takes a request of the peer `rank`, who waits `remaining` at most. The answer comes as an effect.
    pub fn handle_peer(
        &mut self,
        now: Time,
        rank: NodeRank,
        ticket: PeerTicket,
        request: Request<ReadMessage>,
        remaining: Duration,
    ) {
        self.counters.served_peers += 1;
        let deadline = now.after(remaining.min(self.options.deadline));
        let asker = Asker { ticket, rank, referral: request.referral };
        if let Some(key) = self.serve(now, asker, request, deadline) {
            self.note_wanted(&key);
        }
    }

    /// A program waits now for what a peer asked ahead.
    pub fn handle_peer_promote(&mut self, now: Time, ticket: PeerTicket) {
        self.now = now;
        self.dispatch.promote_waiter(Reader::Peer(ticket));
    }

    /// Takes a request of this node's shell, answered like a peer's; no program wants it yet.
    pub fn handle_own(&mut self, now: Time, ticket: PeerTicket, message: ReadMessage) {
        let request = Request::new(message).at(Priority::Prefetch).in_epoch(self.refreshes.met());
        let asker = Asker { ticket, rank: self.options.rank, referral: request.referral };
        self.serve(now, asker, request, now.after(self.options.deadline));
    }

    /// Answers from kept objects, or asks. Returns the key, for a request of one object.
    fn serve(&mut self, now: Time, asker: Asker, request: Request<ReadMessage>, deadline: Time) -> Option<Key> {
        let ticket = asker.ticket;
        self.now = now;
        if !self.is_in_epoch(ticket, &request) {
            return None;
        }
        let Request { priority, message, .. } = request;
        if let ReadMessage::Bundle { dir, files } = &message {
            self.serve_bundle(deadline, ticket, dir, files, priority);
        }
        let key = Key::of(&message)?;
        if matches!(key, Key::Parcel { .. }) && self.refreshes.met() > Epoch::START {
            self.tell_peer(ticket, PeerAnswer::Failed(Errno::ENODATA));
            return None;
        }
        match self.kept_for_peer(&key) {
            Some(PeerAnswer::Body(body)) => self.send_chunk(&key, asker, body),
            Some(answer) => self.tell_peer(ticket, answer),
            // A node was named because it is being sent the chunk: others wait with it until that begins to arrive.
            None if asker.referral == Referral::Followed && !self.is_being_sent(&key) => {
                self.tell_peer(ticket, PeerAnswer::Referred(None));
            }
            None => {
                match (asker.referral, self.dispatch.find(&key)) {
                    (Referral::Refused, Some(request)) => self.dispatch.insist(now, request),
                    (Referral::Alone, Some(request)) => self.dispatch.ask_alone(now, request),
                    _ => {}
                }
                self.ask(key.clone(), message, priority, deadline, Some(Waiter::Peer(asker)));
            }
        }
        Some(key)
    }

    /// Whether a chunk that is asked for here may be on its way.
    fn is_being_sent(&mut self, key: &Key) -> bool {
        self.dispatch.find(key).is_some() && self.referrals.may_be_on_its_way(self.now, key)
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
                return self.kept.chunk(key).map(|chunk| PeerAnswer::Body(chunk.body));
            }
            Key::FileSystem { .. } | Key::Recheck { .. } => return None,
        };
        Some(match self.kept.name(self.now, key, kind)? {
            Object::Listing(listing) => PeerAnswer::Listing(listing),
            Object::Entries(records) => PeerAnswer::Entries(records),
            Object::Chunk(chunk) => PeerAnswer::Body(chunk.body),
        })
    }

    /// Answers a peer that asks for a bundle, from what is here and what is asked for.
    fn serve_bundle(
        &mut self,
        deadline: Time,
        ticket: PeerTicket,
        dir: &ViewPath,
        files: &[(Name, Generation)],
        priority: Priority,
    ) {
        let Some(keys) = files_of(dir, files) else {
            return self.tell_peer(ticket, PeerAnswer::Failed(Errno::ENAMETOOLONG));
        };
        let here = keys.iter().map(|key| self.kept.chunk(key).map(|chunk| chunk.body)).collect();
        keys.iter().for_each(|key| self.prefetches.note_used(key));
        for slot in self.bundles.begin(ticket, here) {
            let (key, waiter) = (keys[slot].clone(), Waiter::BundleFile { ticket, slot });
            if let Some(message) = key.message() {
                self.ask(key, message, priority, deadline, Some(waiter));
            }
        }
        self.answer_bundle(ticket);
    }
}
