//! Refreshes: forgetting a part of the snapshot, on all nodes at once; how far this node has come.
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
use forebay_dispatch::HoldId;
use forebay_types::{Epoch, Time, ViewPath};

/// How long a refresh may make nodes wait for its end; then they go on without it, because whoever leads it is lost.
const HOLD_MAX: Duration = Duration::from_secs(10);

/// How long a refresh may keep a kernel from remembering: all its steps, and the hold that nobody ends.
pub const QUIET_MAX: Duration = Duration::from_secs(40);

/// How far this node has come.
#[derive(Default)]
pub(crate) struct Refreshes {
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

/// What an epoch that another node has met makes of this one.
pub(crate) enum Met {
    /// It has come as far.
    Known,
    /// Its second step is to be taken, for these paths.
    Holds(Vec<ViewPath>),
    /// It was missed.
    Missed,
}

/// What to do when this node is to take a second step.
pub(crate) enum MayHold {
    /// The refresh is older than one that was completed here.
    Over,
    /// It was taken.
    Holds,
    Begins,
    /// The first step was not taken.
    Missed,
}

impl Refreshes {
    /// The refresh that this node's requests carry.
    pub fn met(&self) -> Epoch {
        self.hold.as_ref().map_or(self.completed, |hold| hold.epoch)
    }

    /// The last that was completed here.
    pub fn completed(&self) -> Epoch {
        self.completed
    }

    pub fn is_holding(&self) -> bool {
        self.hold.is_some()
    }

    /// What a request for `key` has to wait for.
    pub fn hold_of(&self, key: &Key) -> Option<HoldId> {
        self.hold.as_ref().filter(|hold| is_name(key) && concerns(key, &hold.paths)).map(|hold| hold.id)
    }

    /// When a hold ends that nobody ended.
    pub fn hold_ends(&self) -> Option<Time> {
        self.hold.as_ref().map(|hold| hold.until)
    }

    /// The first step.
    pub fn be_quiet(&mut self, now: Time, epoch: Epoch, paths: Vec<ViewPath>) {
        if epoch > self.met() {
            self.quiet = Some(Quiet { epoch, paths, until: now.after(QUIET_MAX) });
        }
    }

    /// The first step has come to nothing.
    pub fn end_quiet(&mut self, epoch: Epoch) {
        self.quiet.take_if(|quiet| quiet.epoch == epoch);
    }

    /// Whether the second step may be taken.
    pub fn may_hold(&self, now: Time, epoch: Epoch) -> MayHold {
        let is_made_up_for = self.was_missed && epoch == self.completed;
        let is_quiet = self.quiet.as_ref().is_some_and(|quiet| quiet.epoch == epoch && now < quiet.until);
        match epoch {
            _ if epoch < self.met() || (epoch == self.completed && !is_made_up_for) => MayHold::Over,
            _ if self.holds(epoch) => MayHold::Holds,
            _ if is_quiet || is_made_up_for => MayHold::Begins,
            _ => MayHold::Missed,
        }
    }

    /// Whether it was taken, perhaps by meeting a node that took it before.
    pub fn holds(&self, epoch: Epoch) -> bool {
        self.hold.as_ref().is_some_and(|hold| hold.epoch == epoch)
    }

    /// The second step. What waited for an earlier one.
    pub fn hold(&mut self, now: Time, epoch: Epoch, paths: Vec<ViewPath>, id: HoldId) -> Option<HoldId> {
        self.quiet = None;
        let until = now.after(HOLD_MAX);
        self.hold.replace(Hold { epoch, paths, until, id }).map(|earlier| earlier.id)
    }

    /// The third step of what is held here. What waited for it.
    pub fn release(&mut self) -> Option<HoldId> {
        let hold = self.hold.take()?;
        (self.completed, self.was_missed) = (hold.epoch, false);
        Some(hold.id)
    }

    /// Another node has met this refresh. One whose first step was taken here is at its second.
    pub fn meet(&mut self, now: Time, met: Epoch) -> Met {
        if met <= self.met() {
            return Met::Known;
        }
        match self.quiet.take_if(|quiet| quiet.epoch == met && now < quiet.until) {
            Some(quiet) => Met::Holds(quiet.paths),
            None => Met::Missed,
        }
    }

    /// A refresh was missed and has been made up for. What waited for another.
    pub fn catch_up(&mut self, epoch: Epoch) -> Option<HoldId> {
        (self.completed, self.was_missed) = (epoch, true);
        self.hold.take().map(|hold| hold.id)
    }
}

/// Whether an answer to `key` may be another one after a refresh. Chunks name their versions.
pub(crate) fn is_name(key: &Key) -> bool {
    matches!(key, Key::Listing { .. } | Key::Page { .. } | Key::Name { .. } | Key::Recheck { .. } | Key::Parcel { .. })
}

/// Whether `key` is about something at or below one of `paths`; its own attributes stand in its directory's listing.
pub(crate) fn concerns(key: &Key, paths: &[ViewPath]) -> bool {
    let about = key.path();
    paths
        .iter()
        .any(|path| about.is_within(path) || (is_name(key) && path.split().is_some_and(|(dir, _)| dir == *about)))
}
