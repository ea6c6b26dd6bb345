//! Answers of sources: kept if they are true for the job, handed to all waiters, errors passed on as they are. A body's
//! handle is handed on with its first bytes.
//!
//! An error is never kept: the next demand makes a new request. The one absence that is kept is a
//! name that the backing file system itself said does not exist. A file that turns out to be another version is rechecked
//! (`recheck`).

use std::sync::Arc;

use forebay_cache::{Key, Object};
use forebay_dispatch::{AttemptId, RequestId, Routing, Source, Waiting};
use forebay_types::{Errno, FileSystem, Time};

use super::state::ReadPath;
use crate::chunk::{Chunk, chunk_bytes_of};
use crate::effect::{Answered, KernelAnswer, PeerAnswer};
use crate::names::Known;
use crate::waiter::{Asker, ReadFinished, Waiter};

impl<B: Clone> ReadPath<B> {
    /// Takes the answer to an attempt at anything but a chunk, or any attempt's failure.
    pub fn handle_answer(&mut self, now: Time, attempt: AttemptId, answered: Answered) {
        self.now = now;
        let Some(key) = self.dispatch.asked(attempt) else { return };
        match (key.clone(), answered) {
            (key @ Key::Listing { .. }, Answered::Listing(listing)) => {
                self.kept.keep(now, &key, Object::Listing(listing.clone()));
                self.note_listing(key.path(), &listing);
                let known = Known { listing: Some(listing.clone()), ..Known::default() };
                self.answer(attempt, known, PeerAnswer::Listing(listing));
            }
            (key @ (Key::Page { .. } | Key::Name { .. }), Answered::Entries(records)) => {
                let records: Arc<[_]> = records.into();
                self.kept.keep(now, &key, Object::Entries(Arc::clone(&records)));
                let known = Known { entries: Some((key, Arc::clone(&records))), ..Known::default() };
                self.answer(attempt, known, PeerAnswer::Entries(records));
            }
            (Key::Recheck { file, generation }, Answered::Entries(records)) => {
                self.forget_version(&file, &generation);
                self.answer(attempt, Known::default(), PeerAnswer::Entries(records.into()));
            }
            (Key::FileSystem { .. }, Answered::FileSystem(sizes)) => self.deliver_file_system(attempt, sizes),
            (_, Answered::Lost) => self.dispatch.lost(now, attempt),
            (_, Answered::TimedOut) => self.dispatch.timed_out(now, attempt),
            (_, Answered::Fenced(epoch)) => self.fenced(attempt, epoch),
            // A node that names this one is broken.
            (_, Answered::Referred(to)) if to == Some(self.options.rank) => self.dispatch.spoilt(now, attempt),
            (_, Answered::Referred(to)) => self.dispatch.referred(now, attempt, to),
            (_, Answered::Failed(Errno::ETIMEDOUT)) if self.dispatch.given_up(now, attempt) => {}
            (_, Answered::Failed(Errno::WAY_LOST)) => self.dispatch.spoilt(now, attempt),
            // Another thing stands at the file's path now, or nothing.
            (Key::Chunk { .. }, Answered::Failed(Errno::ENOENT | Errno::ENOTDIR | Errno::EISDIR)) => {
                self.answer_failed(attempt, Errno::ESTALE);
            }
            (_, Answered::Failed(errno)) => self.answer_failed(attempt, errno),
            // A source that answers something else than it was asked is broken; its answer is not used.
            _ => self.dispatch.spoilt(now, attempt),
        }
    }

    fn answer(&mut self, attempt: AttemptId, arrived: Known, answer: PeerAnswer<B>) {
        let finished = self.finish_by(attempt);
        self.deliver(finished, arrived, answer);
    }

    fn answer_failed(&mut self, attempt: AttemptId, errno: Errno) {
        if let Some(finished) = self.finish_by(attempt) {
            self.on_end(finished.request);
            self.tell_all_failed(finished, errno);
        }
    }

    fn finish_by(&mut self, attempt: AttemptId) -> Option<ReadFinished> {
        self.dispatch.finish_by(self.now, attempt)
    }

    /// Tells an error to all waiters. A directory that may not be listed may still be searched, so its lookups go on by
    /// name.
    pub(super) fn tell_all_failed(&mut self, finished: ReadFinished, errno: Errno) {
        if errno == Errno::ESTALE {
            self.start_over(&finished.key);
        }
        let try_by_name = errno == Errno::EACCES && matches!(finished.key, Key::Listing { .. });
        for Waiting { who, until } in finished.waiters {
            match who {
                Waiter::Kernel { ticket, operation, known } if try_by_name && operation.can_go_by_name() => {
                    self.resume(until, ticket, operation, Known { unlistable: true, ..known });
                }
                waiter => self.tell_failed(waiter, errno),
            }
        }
    }

    pub(super) fn tell_failed(&mut self, waiter: Waiter, errno: Errno) {
        match waiter {
            Waiter::Kernel { ticket, .. } => self.tell_kernel(ticket, KernelAnswer::Failed(errno)),
            Waiter::ReadPart { ticket, .. } => {
                if self.reads.remove(ticket) {
                    self.tell_kernel(ticket, KernelAnswer::Failed(errno));
                }
            }
            Waiter::Peer(Asker { ticket, .. }) => self.tell_peer(ticket, PeerAnswer::Failed(errno)),
            Waiter::BundleFile { ticket, slot } => self.fill_bundle(ticket, slot, Err(errno)),
            Waiter::Prefill(index) => self.parcel_failed(index, errno),
        }
    }

    fn deliver_file_system(&mut self, attempt: AttemptId, sizes: FileSystem) {
        let Some(finished) = self.finish_by(attempt) else { return };
        self.sizes = Some((self.now, sizes));
        self.on_end(finished.request);
        for Waiting { who, .. } in finished.waiters {
            match who {
                Waiter::Kernel { ticket, .. } => self.tell_kernel(ticket, KernelAnswer::FileSystem(sizes)),
                Waiter::Peer(Asker { ticket, .. }) => self.tell_peer(ticket, PeerAnswer::FileSystem(sizes)),
                waiter => self.tell_failed(waiter, Errno::EPROTO),
            }
        }
    }

    /// The first bytes of a chunk's answer are known to come: all waiters get the handle now. `bytes` is the length
    /// announced; one that does not fit the file's size is an error of the source.
    ///
    /// `false` when the request has ended before: the shell may drop the body.
    pub fn handle_body_started(&mut self, now: Time, attempt: AttemptId, body: B, bytes: usize) -> bool {
        self.now = now;
        let Some(key) = self.dispatch.asked(attempt).cloned() else { return false };
        // A parcel says itself how long it is.
        let is_parcel = matches!(key, Key::Parcel { .. });
        if bytes == 0 || (!is_parcel && bytes != chunk_bytes_of(&key)) {
            self.dispatch.spoilt(now, attempt);
            return false;
        }
        let is_read_here = self.dispatch.source_of_attempt(attempt) == Some(Source::Backing);
        let is_for_others = is_read_here && !self.routing().is_direct(&key) && self.routing().may_be_root(&key);
        let Some(started) = self.dispatch.begin_filling(now, attempt) else {
            return false;
        };
        let chunk = Chunk::new(body, bytes, is_for_others);
        if self.dispatch.routing().may_be_referred(&key) {
            self.referrals.note_came(now, &key);
        }
        self.hand_out(&key, started.waiters, &chunk);
        self.kept.begin_filling(started.request, key, chunk);
        true
    }

    /// The first bytes of a chunk's body have come from another node, and others are to come.
    pub fn note_bytes(&mut self, now: Time, attempt: AttemptId) {
        self.dispatch.note_bytes(now, attempt);
    }

    /// A chunk's body is whole, or will never be. Only a whole one is kept.
    pub fn handle_body_ended(&mut self, now: Time, attempt: AttemptId, outcome: Result<(), Errno>) {
        self.now = now;
        if outcome == Err(Errno::WAY_LOST)
            && let Some(key) = self.dispatch.filling(attempt).and_then(|request| self.kept.filled_by(request).cloned())
        {
            // It may be what that node keeps in memory that is spoilt.
            self.dispatch.pass_over(self.now, attempt, key);
        }
        let Some(request) = self.dispatch.end_filling(now, attempt, outcome.is_ok()) else { return };
        if outcome == Err(Errno::ESTALE)
            && let Some(key) = self.kept.filled_by(request).cloned()
        {
            self.start_over(&key);
        }
        self.end_filling(request, outcome.is_ok());
    }

    /// A request's answer does not arrive any more.
    pub(super) fn end_filling(&mut self, request: RequestId, is_whole: bool) {
        if let Some((key, chunk)) = self.kept.end_filling(request) {
            let routing = self.dispatch.routing();
            match (&key, is_whole) {
                (Key::Parcel { index }, true) => {
                    let (index, body) = (*index, chunk.body.clone());
                    if !routing.is_leaf(&key) {
                        self.kept.keep_chunk(self.now, routing, key, chunk);
                    }
                    self.parcel_arrived(index, body);
                }
                (Key::Parcel { index }, false) => self.parcel_failed(*index, Errno::WAY_LOST),
                (_, true) => self.kept.keep_filled(self.now, routing, key, chunk),
                _ => {}
            }
        }
        self.on_end(request);
    }
}
