//! The steps of a refresh, and files that turn out to be another version than they were listed as.
//!
//! The next open of such a file must get the new version. Objects that list the old one are dropped here. The node that served the chunk
//! knows that the version is old. But with more than one tree other nodes serve the listing, and would serve the old one. They learn it
//! first, by a request that takes the listing's way. Each node on it drops its copy when the answer comes back, the reader of the
//! backing file system before the others. Until then this node requests nothing about the directory.

use forebay_cache::Key;
use forebay_dispatch::{AttemptId, HoldId, RequestId, Source};
use forebay_types::{Epoch, Generation, Priority, Time, ViewPath};
use forebay_wire::{ReadMessage, Request};

use super::state::ReadPath;
use crate::effect::{Effect, PeerAnswer, PeerTicket, StaleInode};
use crate::names::source_of_generation;
use crate::rechecks::listed_in;
use crate::refreshes::{MayHold, Met, concerns, is_name};
use crate::waiter::Waiter;

impl<B: Clone> ReadPath<B> {
    /// Up to which refresh this node has forgotten.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.refreshes.completed()
    }

    /// The latest refresh that this node has heard of: its second step was taken here, or made up for.
    #[must_use]
    pub fn met_epoch(&self) -> Epoch {
        self.refreshes.met()
    }

    /// The first step begins: another node that has taken the second may be met before this one is told to. `false` for a
    /// refresh that is older than one that was met here; it has to be led anew.
    pub fn handle_quiet(&mut self, now: Time, epoch: Epoch, paths: Vec<ViewPath>) -> bool {
        self.now = now;
        self.refreshes.be_quiet(now, epoch, paths)
    }

    /// Inodes that the kernel is to forget in the first step. It must not remember any answer until `handle_release`.
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
        self.refreshes.end_quiet(epoch);
    }

    /// The second step: forgets all that is known of `paths`, and lets requests for it wait until the third. `false` for a
    /// refresh that is older than one that was completed here. Also `false` for one whose first step was not taken: that
    /// is made up for, because the kernel has not been told.
    pub fn handle_hold(&mut self, now: Time, epoch: Epoch, paths: Vec<ViewPath>) -> bool {
        self.now = now;
        let next = self.refreshes.may_hold(now, epoch);
        match next {
            // Begun by meeting a node that took it before, of which nothing has changed since.
            MayHold::Over | MayHold::Holds => {}
            MayHold::Begins => self.begin_holds(epoch, Some(paths)),
            MayHold::Missed => self.catch_up(epoch),
        }
        matches!(next, MayHold::Holds | MayHold::Begins)
    }

    /// The second step of a refresh, and of every earlier one whose first step was taken; `paths` where that one's was not.
    fn begin_holds(&mut self, epoch: Epoch, paths: Option<Vec<ViewPath>>) {
        let mut due = self.refreshes.take_quiet(self.now, epoch);
        if due.last().is_none_or(|(last, _)| *last != epoch) {
            due.extend(paths.map(|paths| (epoch, paths)));
        }
        due.into_iter().for_each(|(epoch, paths)| self.begin_hold(epoch, paths));
    }

    fn begin_hold(&mut self, epoch: Epoch, paths: Vec<ViewPath>) {
        self.end_parcels();
        self.kept.remove_where(|key| concerns(key, &paths));
        self.inodes.forget_attributes(|path| paths.iter().any(|refreshed| path.is_within(refreshed)));
        let id = self.dispatch.new_hold();
        for request in self.requests_where(|key| is_name(key) && concerns(key, &paths)) {
            self.hold(request, id);
        }
        let replaced = self.refreshes.hold(self.now, epoch, paths, id);
        self.tell_epoch();
        replaced.into_iter().for_each(|hold| self.let_go(hold));
    }

    /// The third step. Whether this node has forgotten what that refresh concerns, for it or for a later one of the same paths.
    pub fn handle_release(&mut self, now: Time, epoch: Epoch) -> bool {
        self.now = now;
        self.release(epoch);
        self.refreshes.met() >= epoch
    }

    /// Whether a refresh is at its first or second step here: the kernel must not remember what it is told.
    #[must_use]
    pub fn is_refreshing(&self, now: Time) -> bool {
        self.refreshes.are_under_way(now)
    }

    /// Another node has met this refresh. One whose first step was taken here is at its second; one that was missed is made
    /// up for. Which one this node has completed.
    pub fn handle_epoch(&mut self, now: Time, met: Epoch) -> Epoch {
        self.now = now;
        match self.refreshes.meet(now, met) {
            Met::Known => {}
            Met::Holds => self.begin_holds(met, None),
            Met::Missed => self.catch_up(met),
        }
        self.refreshes.completed()
    }

    /// Compares the epoch of a peer's request. `false`: the peer has been told to make up for a refresh.
    pub(super) fn is_in_epoch(&mut self, ticket: PeerTicket, request: &Request<ReadMessage>) -> bool {
        if !request.message.is_fenced() || request.epoch >= self.handle_epoch(self.now, request.epoch) {
            return true;
        }
        self.tell_peer(ticket, PeerAnswer::Fenced(self.refreshes.completed()));
        false
    }

    /// A node that was asked has come further: what was missed is made up for, and asked again. One that says so by a number
    /// that no leader gave has answered nothing.
    pub(super) fn fenced(&mut self, attempt: AttemptId, epoch: Epoch) {
        let epoch = if self.refreshes.is_plausible(epoch) { epoch } else { Epoch::START };
        let request = self.dispatch.fenced(self.now, attempt, epoch);
        self.handle_epoch(self.now, epoch);
        if let Some(request) = request {
            self.dispatch.go_on(self.now, request);
        }
    }

    /// Forgets all names, because it is not known which of them were refreshed.
    fn catch_up(&mut self, epoch: Epoch) {
        self.counters.refreshes_missed += 1;
        self.end_parcels();
        self.kept.remove_where(is_name);
        let stale = self.inodes.make_stale();
        let stale = self.name_stale(stale);
        self.effects.push_back(Effect::Stale(stale));
        let held = self.refreshes.catch_up(epoch);
        self.tell_epoch();
        for request in self.requests_where(is_name) {
            self.ask_anew(request);
        }
        // Held requests have not been sent by that.
        held.into_iter().for_each(|hold| self.let_go(hold));
    }

    /// Ends the holds whose end nobody has told in time.
    pub(super) fn end_abandoned_holds(&mut self) {
        self.refreshes.abandoned(self.now).into_iter().for_each(|epoch| self.release(epoch));
    }

    fn release(&mut self, epoch: Epoch) {
        if let Some(hold) = self.refreshes.release(epoch) {
            self.tell_epoch();
            self.let_go(hold);
        }
    }

    fn tell_epoch(&mut self) {
        let epoch = self.refreshes.met();
        self.dispatch.set_epoch(epoch);
    }

    /// The backing file system holds another version of a file than the one that was asked for.
    pub(super) fn start_over(&mut self, key: &Key) {
        let Key::Chunk { file, generation, .. } = key else { return };
        let is_known = self.forget_version(file, generation);
        // A chunk of the listing's own tree was requested from the same nodes, and they have dropped the listing.
        if is_known && (self.routing().is_direct(key) || self.routing().is_bulk(key)) {
            self.recheck(file, generation);
        }
    }

    /// Drops what says that a file is of this version, and lets the kernel forget it. Whether this node had been told so. A
    /// listing that says another already stays.
    pub(super) fn forget_version(&mut self, file: &ViewPath, generation: &Generation) -> bool {
        let Some((dir, name)) = file.split() else { return false };
        let source = source_of_generation(&self.kept, &dir, name, generation);
        source.iter().for_each(|source| self.kept.remove(source));
        for request in self.requests_about(&dir) {
            self.ask_anew(request);
        }
        let inode = self.inodes.id_of(file);
        let inode = inode.filter(|id| self.inodes.get(*id).is_some_and(|known| known.generation == *generation));
        if let Some(inode) = inode {
            let entry = self.inodes.id_of(&dir).map(|dir| (dir, name.to_vec()));
            self.effects.push_back(Effect::Stale(vec![StaleInode { inode, entry }]));
        }
        source.is_some() || inode.is_some()
    }

    /// Tells those whom the directory is asked of; what is asked of it waits.
    fn recheck(&mut self, file: &ViewPath, generation: &Generation) {
        let key = Key::Recheck { file: file.clone(), generation: *generation };
        let Some((dir, _)) = file.split().filter(|_| self.dispatch.source_of(self.now, &key) != Source::Backing) else {
            return;
        };
        let message = ReadMessage::Recheck { file: file.clone(), generation: *generation };
        if let Some(recheck) = self.ask(key, message, Priority::Demand, self.deadline(), None) {
            let hold = self.dispatch.new_hold();
            for request in self.requests_about(&dir) {
                self.hold(request, hold);
            }
            self.rechecks.begin(recheck, dir, hold);
        }
    }

    /// The requests under way whose answers list what is in `dir`.
    fn requests_about(&self, dir: &ViewPath) -> Vec<RequestId> {
        self.requests_where(|key| listed_in(key) == Some(dir))
    }

    /// A request has to wait, and what was found before is forgotten.
    fn hold(&mut self, request: RequestId, hold: HoldId) {
        self.forget_found(request);
        self.dispatch.hold(request, hold);
    }

    /// A request is asked again, and what was found before is forgotten.
    fn ask_anew(&mut self, request: RequestId) {
        self.forget_found(request);
        self.dispatch.ask_anew(self.now, request);
    }

    fn forget_found(&mut self, request: RequestId) {
        for waiter in self.dispatch.waiters_mut(request) {
            if let Waiter::Kernel { known, .. } = waiter {
                known.forget();
            }
        }
    }
}
