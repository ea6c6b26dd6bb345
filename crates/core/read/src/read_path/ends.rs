//! The ends of requests and of waits, and the hand-out of chunks.

use forebay_cache::Key;
use forebay_dispatch::{RequestId, Waiting};
use forebay_types::{Errno, Referral};

use super::state::ReadPath;
use crate::chunk::Chunk;
use crate::effect::{KernelAnswer, PeerAnswer, PeerTicket};
use crate::waiter::{Asker, Reader, Waiter};

impl<B: Clone> ReadPath<B> {
    /// A request has ended, and the body that answers it too.
    pub(super) fn on_end(&mut self, request: RequestId) {
        if let Some(hold) = self.rechecks.end(request) {
            self.let_go(hold);
        }
        if self.prefetches.end(request) {
            self.prefetch_candidates();
        }
    }

    /// Takes a waiter out of its read and out of all requests. Returns whether it waited for any.
    pub(super) fn withdraw(&mut self, reader: Reader) -> bool {
        let waited = match reader {
            Reader::Kernel(ticket) => self.reads.remove(ticket),
            Reader::Peer(ticket) => self.bundles.remove(ticket),
        };
        let ended = self.dispatch.withdraw(reader);
        let waited = waited || ended.is_some();
        ended.into_iter().flatten().for_each(|request| self.on_end(request));
        waited
    }

    /// Hands a chunk to all its waiters, or refers them to each other.
    pub(super) fn hand_out(&mut self, key: &Key, waiters: Vec<Waiting<Waiter>>, chunk: &Chunk<B>) {
        for Waiting { who, .. } in waiters {
            match who {
                Waiter::ReadPart { ticket, slot } => {
                    if let Some(parts) = self.reads.fill(ticket, slot, chunk) {
                        self.tell_kernel(ticket, KernelAnswer::Read(parts));
                    }
                }
                Waiter::BundleFile { ticket, slot } => self.fill_bundle(ticket, slot, Ok(chunk.body.clone())),
                Waiter::Peer(asker) => self.send_chunk(key, asker, chunk.body.clone()),
                Waiter::Prefill(_) => {}
                Waiter::Kernel { ticket, .. } => self.tell_kernel(ticket, KernelAnswer::Failed(Errno::EPROTO)),
            }
        }
    }

    /// Sends a chunk to a node, or names one of those that it is being sent to.
    pub(super) fn send_chunk(&mut self, key: &Key, asker: Asker, body: B) {
        let sent_to_max = match asker.referral {
            Referral::Refused | Referral::Alone => None,
            Referral::Open => Some(self.routing().chains(key)),
            Referral::Followed => Some(1),
        };
        let detector = self.dispatch.detector();
        let is_there = |peer| !detector.is_suspect(peer);
        let referred = sent_to_max.and_then(|max| self.referrals.refer(self.now, key, asker.rank, max, is_there));
        let answer = referred.map_or(PeerAnswer::Body(body), |to| PeerAnswer::Referred(Some(to)));
        self.tell_peer(asker.ticket, answer);
    }

    /// A file of a peer's bundle is here, or will not come.
    pub(super) fn fill_bundle(&mut self, ticket: PeerTicket, slot: usize, file: Result<B, Errno>) {
        self.bundles.fill(ticket, slot, file);
        self.answer_bundle(ticket);
    }

    pub(super) fn answer_bundle(&mut self, ticket: PeerTicket) {
        if let Some(files) = self.bundles.take_complete(ticket) {
            self.tell_peer(ticket, PeerAnswer::Bundle(files));
        }
    }
}
