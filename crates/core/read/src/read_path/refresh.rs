//! Refreshes: forgetting a part of the snapshot, on all nodes at once.
//!
//! A refresh has three steps, and no node takes the next before all have taken the last. `Quiet`: the kernel is told to
//! forget, and what it is told from now on holds for one answer only; nodes still answer from what they know. `Hold`:
//! that is forgotten, and who asks for it waits. `Release`: it is asked for anew. So nobody is told what was before once
//! anybody has been told what is now.
//!
//! Refreshes are numbered by epochs, and requests about names carry the one that the asking node has met. A node may meet
//! an epoch before it is told to hold, by a request of a node that was: if it has taken the first step of that refresh, it
//! takes the second. If it has not, it has missed it (it was cut off or stopped): it is told nothing before it has
//! forgotten everything that has a name; chunks may stay, because they name their version. A chunk's request is therefore
//! never held: an open file goes on with the bytes of its version, or gets `ESTALE`.

use std::time::Duration;

use forebay_cache::Key;
use forebay_dispatch::{AttemptId, HoldId, RequestId};
use forebay_types::{Epoch, Time, ViewPath};
use forebay_wire::{ReadMessage, Request};

use super::entries::Known;
use super::{ReadPath, Waiter};
use crate::{Effect, PeerAnswer, PeerTicket, StaleInode};

/// How long a refresh may make nodes wait for its end; then they go on without it, because whoever leads it is lost.
const HOLD_MAX: Duration = Duration::from_secs(10);

/// How long a refresh may keep a kernel from remembering: all its steps, and the hold that nobody ends.
pub const QUIET_MAX: Duration = Duration::from_secs(40);

/// How far this node has come.
#[derive(Default)]
pub(super) struct Refreshes {
    /// The last refresh that was completed here.
    completed: Epoch,
    /// Whether that one was made up for, so that its hold may still come.
    was_missed: bool,
    quiet: Option<Quiet>,
    hold: Option<Hold>,
}

/// A refresh whose first step was taken.
struct Quiet {
    epoch: Epoch,
    paths: Vec<ViewPath>,
    until: Time,
}

/// One whose second step was taken.
struct Hold {
    epoch: Epoch,
    paths: Vec<ViewPath>,
    until: Time,
    /// What the requests about the paths wait for.
    id: HoldId,
}

impl Refreshes {
    /// The refresh that this node's requests carry.
    pub fn met(&self) -> Epoch {
        self.hold.as_ref().map_or(self.completed, |hold| hold.epoch)
    }

    /// What a request for `key` has to wait for.
    pub fn hold_of(&self, key: &Key) -> Option<HoldId> {
        self.hold.as_ref().filter(|hold| is_name(key) && concerns(key, &hold.paths)).map(|hold| hold.id)
    }
}

impl<B: Clone> ReadPath<B> {
    /// Up to which refresh this node has forgotten.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.refreshes.completed
    }

    /// The first step begins: another node that has taken the second may be met before this one is told to.
    pub fn handle_quiet(&mut self, now: Time, epoch: Epoch, paths: Vec<ViewPath>) {
        self.now = now;
        if epoch > self.refreshes.met() {
            self.refreshes.quiet = Some(Quiet { epoch, paths, until: now.after(QUIET_MAX) });
        }
    }

    /// What the kernel is to forget in the first step. It must not remember what it is told until `handle_release`.
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

    /// The first step was begun and has come to nothing: the kernel may remember what was before.
    pub fn handle_quiet_failed(&mut self, epoch: Epoch) {
        self.refreshes.quiet.take_if(|quiet| quiet.epoch == epoch);
    }

    /// The second step: forgets what is known of `paths`, and lets whoever asks for it wait until the third. `false` for a
    /// refresh that is older than one that was completed here, and for one whose first step was not taken: that is made up
    /// for, because nobody has told the kernel.
    pub fn handle_hold(&mut self, now: Time, epoch: Epoch, paths: Vec<ViewPath>) -> bool {
        self.now = now;
        let is_made_up_for = self.refreshes.was_missed && epoch == self.refreshes.completed;
        if epoch < self.refreshes.met() || (epoch == self.refreshes.completed && !is_made_up_for) {
            return false;
        }
        // Begun by meeting a node that took it before, of which nothing has changed since.
        if self.refreshes.hold.as_ref().is_some_and(|hold| hold.epoch == epoch) {
            return true;
        }
        let is_quiet = self.refreshes.quiet.as_ref().is_some_and(|quiet| quiet.epoch == epoch && now < quiet.until);
        match is_quiet || is_made_up_for {
            true => self.begin_hold(epoch, paths),
            false => self.catch_up(epoch),
        }
        is_quiet || is_made_up_for
    }

    fn begin_hold(&mut self, epoch: Epoch, paths: Vec<ViewPath>) {
        self.end_parcels();
        self.objects.remove_where(|key| concerns(key, &paths));
        self.inodes.forget_attributes(|path| paths.iter().any(|refreshed| path.is_within(refreshed)));
        let id = self.new_hold();
        for request in self.requests_where(|key| is_name(key) && concerns(key, &paths)) {
            self.hold(request, id);
        }
        let until = self.now.after(HOLD_MAX);
        let earlier = self.refreshes.hold.replace(Hold { epoch, paths, until, id });
        self.refreshes.quiet = None;
        self.tell_epoch();
        if let Some(earlier) = earlier {
            self.let_go(earlier.id);
        }
    }

    /// The third step. Whether this node has completed that refresh.
    pub fn handle_release(&mut self, now: Time, epoch: Epoch) -> bool {
        self.now = now;
        if self.refreshes.hold.as_ref().is_some_and(|hold| hold.epoch == epoch) {
            self.release();
        }
        self.refreshes.completed >= epoch
    }

    /// Whether a refresh is at its second step here.
    #[must_use]
    pub fn is_holding(&self) -> bool {
        self.refreshes.hold.is_some()
    }

    /// Another node has met this refresh. One whose first step was taken here is at its second; one that was missed is made
    /// up for. Which one this node has completed.
    pub fn handle_epoch(&mut self, now: Time, met: Epoch) -> Epoch {
        self.now = now;
        if met > self.refreshes.met() {
            match self.refreshes.quiet.take_if(|quiet| quiet.epoch == met && now < quiet.until) {
                Some(quiet) => self.begin_hold(met, quiet.paths),
                None => self.catch_up(met),
            }
        }
        self.refreshes.completed
    }

    /// When a hold ends that nobody ended.
    pub(super) fn hold_ends(&self) -> Option<Time> {
        self.refreshes.hold.as_ref().map(|hold| hold.until)
    }

    pub(super) fn end_late_hold(&mut self) {
        if self.hold_ends().is_some_and(|until| until <= self.now) {
            self.release();
        }
    }

    /// Compares the epoch of a peer's request. `false`: the peer has been told to make up for a refresh.
    pub(super) fn is_in_epoch(&mut self, ticket: PeerTicket, request: &Request<ReadMessage>) -> bool {
        if !request.message.is_fenced() || request.epoch >= self.handle_epoch(self.now, request.epoch) {
            return true;
        }
        self.tell_peer(ticket, PeerAnswer::Fenced(self.refreshes.completed));
        false
    }

    /// A node that was asked has come further: what was missed is made up for, and asked again.
    pub(super) fn fenced(&mut self, attempt: AttemptId, epoch: Epoch) {
        let now = self.now;
        let request = self.dispatching(|dispatch| dispatch.fenced(now, attempt, epoch));
        self.handle_epoch(now, epoch);
        if let Some(request) = request {
            self.dispatching(|dispatch| dispatch.go_on(now, request));
        }
    }

    /// Forgets all names, because it is not known which of them were refreshed.
    fn catch_up(&mut self, epoch: Epoch) {
        self.counters.refreshes_missed += 1;
        self.end_parcels();
        self.objects.remove_where(is_name);
        let stale = self.inodes.make_stale();
        let stale = self.name_stale(stale);
        self.effects.push_back(Effect::Stale(stale));
        let hold = self.refreshes.hold.take();
        (self.refreshes.completed, self.refreshes.was_missed) = (epoch, true);
        self.tell_epoch();
        for request in self.requests_where(is_name) {
            self.ask_anew(request);
        }
        // What was held has not been asked by that.
        if let Some(hold) = hold {
            self.let_go(hold.id);
        }
    }

    fn release(&mut self) {
        let Some(hold) = self.refreshes.hold.take() else { return };
        (self.refreshes.completed, self.refreshes.was_missed) = (hold.epoch, false);
        self.tell_epoch();
        self.let_go(hold.id);
    }

    fn tell_epoch(&mut self) {
        let epoch = self.refreshes.met();
        self.dispatching(|dispatch| dispatch.set_epoch(epoch));
    }

    pub(super) fn let_go(&mut self, hold: HoldId) {
        let now = self.now;
        self.dispatching(|dispatch| dispatch.release(now, hold));
    }

    /// A request has to wait, and what was found before is forgotten.
    pub(super) fn hold(&mut self, request: RequestId, hold: HoldId) {
        self.forget_found(request);
        self.dispatching(|dispatch| dispatch.hold(request, hold));
    }

    /// A request is asked again, and what was found before is forgotten.
    pub(super) fn ask_anew(&mut self, request: RequestId) {
        let now = self.now;
        self.forget_found(request);
        self.dispatching(|dispatch| dispatch.ask_anew(now, request));
    }

    fn forget_found(&mut self, request: RequestId) {
        for waiter in self.dispatch.waiters_mut(request) {
            if let Waiter::Kernel { known, .. } = waiter {
                *known = Known { unlistable: known.unlistable, ..Known::default() };
            }
        }
    }

    /// The requests under way for such keys, in the order they began.
    pub(super) fn requests_where(&self, is_one: impl Fn(&Key) -> bool) -> Vec<RequestId> {
        self.dispatch.requests().filter(|(_, key)| is_one(key)).map(|(request, _)| request).collect()
    }

    pub(super) fn name_stale(&self, stale: Vec<(crate::InodeId, ViewPath)>) -> Vec<StaleInode> {
        let entry_of = |path: &ViewPath| {
            let (dir, name) = path.split()?;
            Some((self.inodes.id_of(&dir)?, name.to_vec()))
        };
        stale.iter().map(|(inode, path)| StaleInode { inode: *inode, entry: entry_of(path) }).collect()
    }
}

/// Whether an answer to `key` may be another one after a refresh. Chunks name their versions.
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
