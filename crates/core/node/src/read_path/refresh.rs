//! Refreshes: forgetting a part of the snapshot, on all nodes at once.
//!
//! A refresh has three steps, and no node takes the next before all have taken the last. `Quiet`: the kernel is told to
//! forget, and what it is told from now on holds for one answer only; nodes still answer from what they know. `Hold`:
//! that is forgotten, and who asks for it waits. `Release`: it is asked for anew. So nobody is told what was before once
//! anybody has been told what is now.
//!
//! Refreshes are numbered, and questions about names carry the number that the asking node has come to. A node that
//! missed one (it was cut off or stopped) is told nothing before it has forgotten everything that has a name; chunks
//! may stay, because they name their version. A chunk's question is therefore never held: an open file goes on with the
//! bytes of its version, or gets `ESTALE`.

use forebay_cache::{CallId, Key};
use forebay_types::{Time, ViewPath, limits};

use super::entries::Known;
use super::ways::Attempt;
use super::{ReadPath, StaleInode, Waiter};
use crate::{Effect, PeerAnswer, PeerTicket};

/// How far this node has come.
#[derive(Default)]
pub(super) struct Epoch {
    /// The last refresh that was completed here.
    number: u64,
    hold: Option<Hold>,
}

struct Hold {
    number: u64,
    paths: Vec<ViewPath>,
    /// The questions that wait for its end.
    flights: Vec<CallId>,
    until: Time,
}

impl Epoch {
    /// The number that this node's questions carry.
    pub fn to_tell(&self) -> u64 {
        self.hold.as_ref().map_or(self.number, |hold| hold.number)
    }
}

impl<B: Clone> ReadPath<B> {
    /// Up to which refresh this node has forgotten.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch.number
    }

    /// The first step: what the kernel is to forget. It must not remember what it is told until `handle_release`.
    #[must_use]
    pub fn stale_within(&self, paths: &[ViewPath]) -> Vec<StaleInode> {
        let stale = self.inodes.within(|path| paths.iter().any(|refreshed| path.is_within(refreshed)));
        let mut stale = self.name_stale(stale);
        // A name that was absent has no inode; the kernel may remember its absence.
        for path in paths {
            if let Some((dir, name)) = path.split()
                && self.inodes.id_of(path).is_none()
                && let Some(parent) = self.inodes.id_of(&dir)
            {
                stale.push(StaleInode { inode: parent, entry: Some((parent, name.to_vec())) });
            }
        }
        stale
    }

    /// The second step: forgets what is known of `paths`, and lets whoever asks for it wait until the third. `false` for a
    /// refresh that is older than one that was completed here.
    pub fn handle_hold(&mut self, now: Time, number: u64, paths: Vec<ViewPath>) -> bool {
        self.ways.now = now;
        if number <= self.epoch.number {
            return false;
        }
        self.end_parcels();
        self.objects.remove_where(|key| concerns(key, &paths));
        self.inodes.forget_attributes(|path| paths.iter().any(|refreshed| path.is_within(refreshed)));
        let mut flights = self.epoch.hold.take().map(|earlier| earlier.flights).unwrap_or_default();
        for flight in self.in_flight.calls() {
            let is_held =
                self.in_flight.get(flight).is_some_and(|known| is_name(&known.key) && concerns(&known.key, &paths));
            if is_held && !flights.contains(&flight) {
                self.call_back(flight);
                flights.push(flight);
            }
        }
        let until = now.after(limits::REFRESH_HOLD_MAX);
        self.epoch.hold = Some(Hold { number, paths, flights, until });
        true
    }

    /// The third step.
    pub fn handle_release(&mut self, now: Time, number: u64) {
        self.ways.now = now;
        if self.epoch.hold.as_ref().is_some_and(|hold| hold.number == number) {
            self.release();
        }
    }

    /// Another node has come to this refresh: one that was missed here is made up for. Which one this node has come to.
    pub fn handle_epoch(&mut self, now: Time, number: u64) -> u64 {
        self.ways.now = now;
        let is_held = self.epoch.hold.as_ref().is_some_and(|hold| hold.number >= number);
        if number > self.epoch.number && !is_held {
            self.catch_up(number);
        }
        self.epoch.number
    }

    /// When a hold ends that nobody ended.
    pub(super) fn hold_ends(&self) -> Option<Time> {
        self.epoch.hold.as_ref().map(|hold| hold.until)
    }

    pub(super) fn end_late_hold(&mut self) {
        if self.hold_ends().is_some_and(|until| until <= self.ways.now) {
            self.release();
        }
    }

    /// Whether a flight has to wait for the end of a refresh; it is sent then.
    pub(super) fn is_held(&mut self, flight: CallId, key: &Key) -> bool {
        let Some(hold) = self.epoch.hold.as_mut().filter(|hold| is_name(key) && concerns(key, &hold.paths)) else {
            return false;
        };
        if !hold.flights.contains(&flight) {
            hold.flights.push(flight);
        }
        true
    }

    /// Whether a flight waits for the end of a refresh.
    pub(super) fn holds(&self, flight: CallId) -> bool {
        self.epoch.hold.as_ref().is_some_and(|hold| hold.flights.contains(&flight))
    }

    /// Checks the number that a peer's question carries. `false`: the peer has been told to make up for a refresh.
    pub(super) fn is_in_epoch(&mut self, ticket: PeerTicket, number: Option<u64>) -> bool {
        let Some(number) = number else { return true };
        let now = self.ways.now;
        if number >= self.handle_epoch(now, number) {
            return true;
        }
        self.tell_peer(ticket, PeerAnswer::Fenced(self.epoch.number));
        false
    }

    /// A node that was asked has come further: what was missed is made up for, and the question asked again.
    pub(super) fn fenced(&mut self, attempt: Attempt, number: u64) {
        self.handle_epoch(self.ways.now, number);
        // What has been missed may just have been made up for, and all asked again.
        if !self.ways.is_under_way(attempt.flight) {
            self.send_anew(attempt.flight);
        }
    }

    /// Forgets all names, because it is not known which of them were refreshed.
    fn catch_up(&mut self, number: u64) {
        self.end_parcels();
        self.objects.remove_where(is_name);
        let stale = self.inodes.make_stale();
        let stale = self.name_stale(stale);
        self.effects.push_back(Effect::Stale(stale));
        let flights: Vec<CallId> = self
            .in_flight
            .calls()
            .into_iter()
            .filter(|flight| self.in_flight.get(*flight).is_some_and(|known| is_name(&known.key)))
            .collect();
        let held = self.epoch.hold.take().map(|hold| hold.flights).unwrap_or_default();
        self.epoch.number = number;
        for flight in flights {
            if !held.contains(&flight) {
                self.call_back(flight);
            }
            self.send_anew(flight);
        }
    }

    fn release(&mut self) {
        let Some(hold) = self.epoch.hold.take() else { return };
        self.epoch.number = hold.number;
        hold.flights.into_iter().for_each(|flight| self.send_anew(flight));
    }

    /// Takes a flight's attempts back; who waits for it forgets what it had found before.
    pub(super) fn call_back(&mut self, flight: CallId) {
        self.cancel_attempts(flight, |_| true);
        for waiter in self.in_flight.waiters_mut(flight) {
            if let Waiter::Kernel { known, .. } = waiter {
                *known = Known { unlistable: known.unlistable, ..Known::default() };
            }
        }
    }

    pub(super) fn name_stale(&self, stale: Vec<(crate::InodeId, ViewPath)>) -> Vec<StaleInode> {
        let entry_of = |path: &ViewPath| {
            let (dir, name) = path.split()?;
            Some((self.inodes.id_of(&dir)?, name.to_vec()))
        };
        stale.iter().map(|(inode, path)| StaleInode { inode: *inode, entry: entry_of(path) }).collect()
    }
}

/// Whether an answer to `key` may be another one after a refresh. Chunks and bundles name their versions.
fn is_name(key: &Key) -> bool {
    matches!(key, Key::Listing { .. } | Key::Page { .. } | Key::Name { .. } | Key::Recheck { .. } | Key::Parcel { .. })
}

/// Whether `key` is about something at or below one of `paths`; its own attributes stand in its directory's listing.
fn concerns(key: &Key, paths: &[ViewPath]) -> bool {
    let about = key.path();
    paths
        .iter()
        .any(|path| about.is_within(path) || (is_name(key) && path.split().is_some_and(|(dir, _)| dir == *about)))
}
