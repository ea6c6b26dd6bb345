//! What sources bring: kept if it is true for the job, handed to everybody who waits, errors passed on as they are.
//!
//! An error is never kept: the next one who asks makes the question be asked again. The one absence that is kept is a
//! name that the backing file system itself said does not exist. A file that turns out to be another version is rechecked
//! (`recheck`).

use std::sync::Arc;

use forebay_cache::{CallId, Flight, Key, Object, Waiting};
use forebay_types::{Errno, FileSystem, Time};

use super::entries::Known;
use super::{ReadPath, Waiter};
use crate::{Answered, KernelAnswer, PeerAnswer, Source};

impl<B: Clone> ReadPath<B> {
    /// Takes the answer to a question other than a chunk's, or any question's failure.
    pub fn handle_answer(&mut self, now: Time, call: CallId, answered: Answered) {
        self.ways.now = now;
        let Some(attempt) = self.ways.end_attempt(call) else {
            return;
        };
        match (attempt.source, &answered) {
            (Source::Peer(peer), Answered::Lost) => self.lose(peer),
            // The shell's own clock says so too: no sign that the peer is there.
            (_, Answered::Failed(Errno::ETIMEDOUT)) => {}
            (source, _) => self.ways.heard_of(source),
        }
        let flight = attempt.flight;
        let Some(Flight { key, deadline, .. }) = self.in_flight.get(flight) else {
            return;
        };
        let (key, is_over) = (key.clone(), *deadline <= now);
        match (&key, answered) {
            (Key::Listing { .. }, Answered::Listing(listing)) => {
                self.keep(&key, Object::Listing(listing.clone()));
                self.note_listing(key.path(), &listing);
                let known = Known { listing: Some(listing.clone()), ..Known::default() };
                self.deliver(flight, known, PeerAnswer::Listing(listing));
            }
            (Key::Page { .. } | Key::Name { .. }, Answered::Entries(records)) => {
                let records: Arc<[_]> = records.into();
                self.keep(&key, Object::Entries(Arc::clone(&records)));
                let known = Known { entries: Some((key, Arc::clone(&records))), ..Known::default() };
                self.deliver(flight, known, PeerAnswer::Entries(records));
            }
            (Key::Recheck { file, generation }, Answered::Entries(records)) => {
                self.forget_version(file, generation);
                self.deliver(flight, Known::default(), PeerAnswer::Entries(records.into()));
            }
            (Key::FileSystem { .. }, Answered::FileSystem(sizes)) => self.deliver_file_system(flight, sizes),
            (_, Answered::Lost | Answered::Failed(Errno::WAY_LOST)) => self.try_elsewhere(attempt),
            (_, Answered::Fenced(epoch)) => self.fenced(attempt, epoch),
            // The shell keeps the time too, and may be first.
            (_, Answered::Failed(Errno::ETIMEDOUT)) if is_over => self.give_up(flight),
            // Another thing stands at the file's path now, or nothing.
            (Key::Chunk { .. }, Answered::Failed(Errno::ENOENT | Errno::ENOTDIR | Errno::EISDIR)) => {
                self.end_flight(flight, Errno::ESTALE);
            }
            (_, Answered::Failed(errno)) => self.end_flight(flight, errno),
            // A source that answers something else than it was asked is broken; its answer is not used.
            _ => self.try_elsewhere(attempt),
        }
    }

    /// Ends a flight with an error that everybody who waits is told. A directory that may not be listed may still be
    /// searched, so its lookups go on by name.
    pub(super) fn end_flight(&mut self, call: CallId, errno: Errno) {
        let Some(flight) = self.end(call, None) else { return };
        self.note_ended(call);
        if errno == Errno::ESTALE {
            self.start_over(&flight.key);
        }
        // One file's error is not the others'.
        if let Some(members) = self.bundles.remove(&call) {
            self.note_broken(flight.key);
            return self.ask_one_by_one(&members, flight.waiters);
        }
        let try_by_name = errno == Errno::EACCES && matches!(flight.key, Key::Listing { .. });
        for Waiting { who, until } in flight.waiters {
            match who {
                Waiter::Kernel { ticket, operation, known } if try_by_name && operation.can_go_by_name() => {
                    self.resume(until, ticket, operation, Known { unlistable: true, ..known });
                }
                waiter => self.tell_failed(waiter, errno),
            }
        }
    }

    pub(super) fn keep(&mut self, key: &Key, object: Object<super::chunks::Chunk<B>>) {
        self.objects.insert(self.ways.now, key.clone(), object, 0);
        self.pin_if_wanted(key);
    }

    pub(super) fn deliver(&mut self, call: CallId, arrived: Known, answer: PeerAnswer<B>) {
        let Some(flight) = self.end(call, None) else { return };
        self.note_ended(call);
        for Waiting { who, until } in flight.waiters {
            match who {
                Waiter::Kernel { ticket, operation, known } => {
                    self.resume(until, ticket, operation, known.with(&arrived));
                }
                Waiter::Peer(ticket) => self.tell_peer(ticket, answer.clone()),
                waiter => self.tell_failed(waiter, Errno::EPROTO),
            }
        }
    }

    fn deliver_file_system(&mut self, call: CallId, sizes: FileSystem) {
        let Some(flight) = self.end(call, None) else { return };
        for Waiting { who, .. } in flight.waiters {
            match who {
                Waiter::Kernel { ticket, .. } => self.tell_kernel(ticket, KernelAnswer::FileSystem(sizes)),
                Waiter::Peer(ticket) => self.tell_peer(ticket, PeerAnswer::FileSystem(sizes)),
                waiter => self.tell_failed(waiter, Errno::EPROTO),
            }
        }
    }
}

impl Known {
    /// What is known with what has arrived.
    fn with(self, arrived: &Self) -> Self {
        Self {
            listing: arrived.listing.clone().or(self.listing),
            entries: arrived.entries.clone().or(self.entries),
            unlistable: self.unlistable,
        }
    }
}

impl super::kernel::Operation {
    fn can_go_by_name(&self) -> bool {
        !matches!(self, Self::Directory { .. } | Self::FileSystem)
    }
}
