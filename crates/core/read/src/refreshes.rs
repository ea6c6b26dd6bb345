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
//!
//! Two nodes may lead concurrently while they see each other badly. A node that takes the second step of one refresh takes it
//! of every earlier one whose first step it has taken; each ends with its own third step. If the first step of the earlier one
//! comes too late for that, its leader is told, and leads it anew.

use std::time::Duration;

use forebay_cache::Key;
use forebay_dispatch::HoldId;
use forebay_types::{Epoch, Time, ViewPath};

/// How long a refresh may make nodes wait for its end; then they go on without it, because its leader is lost.
const HOLD_MAX: Duration = Duration::from_secs(10);

/// How long a refresh may keep a kernel from remembering: all its steps, and the hold that nobody ends.
pub const QUIET_MAX: Duration = Duration::from_secs(40);

/// How far above the last refresh that a node has met another may be, milliseconds: 279 years. Refreshes are numbered by the
/// time of day, so a node that has met none meets numbers like today's, whatever its own clock says. Beyond that no leader gave
/// the number, and a node that believed it would pass all real ones over.
const AHEAD_MAX_MS: u64 = 1 << 43;

/// Refreshes at their first step at once. A leader takes one at a time, and few nodes lead.
const QUIET_AT_ONCE_MAX: usize = 8;

/// How far this node has come.
#[derive(Default)]
pub(crate) struct Refreshes {
    /// The last refresh that was completed here.
    completed: Epoch,
    /// Whether that one was made up for, so that its hold may still come.
    was_missed: bool,
    /// By epoch.
    quiet: Vec<Quiet>,
    /// By epoch.
    holds: Vec<Hold>,
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
    /// The hold of requests about the paths.
    id: HoldId,
}

/// The effect of an epoch that another node has met.
pub(crate) enum Met {
    /// It has come as far, or no leader gave that number.
    Known,
    /// Its second step is to be taken.
    Holds,
    /// It was missed.
    Missed,
}

/// The way to take a second step.
pub(crate) enum MayHold {
    /// The refresh is older than one that was met here, or no leader gave its number.
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
        self.holds.last().map_or(self.completed, |hold| self.completed.max(hold.epoch))
    }

    /// The last that was completed here.
    pub fn completed(&self) -> Epoch {
        self.completed
    }

    /// Whether one is at its first or second step.
    pub fn are_under_way(&self, now: Time) -> bool {
        !self.holds.is_empty() || self.quiet.iter().any(|quiet| now < quiet.until)
    }

    /// The holds of a request for `key`.
    pub fn holds_of(&self, key: &Key) -> impl Iterator<Item = HoldId> {
        self.holds.iter().filter(|hold| is_name(key) && concerns(key, &hold.paths)).map(|hold| hold.id)
    }

    /// When the first hold ends that nobody ended.
    pub fn hold_ends(&self) -> Option<Time> {
        self.holds.iter().map(|hold| hold.until).min()
    }

    /// Whether a leader can have given this number.
    pub fn is_plausible(&self, epoch: Epoch) -> bool {
        epoch.0.saturating_sub(self.met().0) <= AHEAD_MAX_MS
    }

    /// The first step. `false` when this node has come further: the second could not be taken.
    pub fn be_quiet(&mut self, now: Time, epoch: Epoch, paths: Vec<ViewPath>) -> bool {
        if !self.is_plausible(epoch) {
            return false;
        }
        if epoch > self.met() {
            self.quiet.retain(|quiet| quiet.epoch != epoch && now < quiet.until);
            if self.quiet.len() == QUIET_AT_ONCE_MAX {
                self.quiet.remove(0);
            }
            let at = self.quiet.partition_point(|quiet| quiet.epoch < epoch);
            self.quiet.insert(at, Quiet { epoch, paths, until: now.after(QUIET_MAX) });
        }
        epoch >= self.met()
    }

    /// The first step has come to nothing.
    pub fn end_quiet(&mut self, epoch: Epoch) {
        self.quiet.retain(|quiet| quiet.epoch != epoch);
    }

    /// Whether the second step may be taken.
    pub fn may_hold(&self, now: Time, epoch: Epoch) -> MayHold {
        match epoch {
            _ if self.holds(epoch) => MayHold::Holds,
            _ if self.was_missed && epoch == self.completed => MayHold::Begins,
            _ if epoch <= self.met() || !self.is_plausible(epoch) => MayHold::Over,
            _ if self.is_quiet(now, epoch) => MayHold::Begins,
            _ => MayHold::Missed,
        }
    }

    /// Whether it was taken, perhaps by meeting a node that took it before.
    pub fn holds(&self, epoch: Epoch) -> bool {
        self.holds.iter().any(|hold| hold.epoch == epoch)
    }

    /// The refreshes up to `epoch` whose first step was taken: they come to their second with it.
    pub fn take_quiet(&mut self, now: Time, epoch: Epoch) -> Vec<(Epoch, Vec<ViewPath>)> {
        let due = self.quiet.drain(..self.quiet.partition_point(|quiet| quiet.epoch <= epoch));
        due.filter(|quiet| now < quiet.until).map(|quiet| (quiet.epoch, quiet.paths)).collect()
    }

    /// The second step. Returns the holds of earlier refreshes of the same paths, or of fewer: their leaders repeated those.
    pub fn hold(&mut self, now: Time, epoch: Epoch, paths: Vec<ViewPath>, id: HoldId) -> Vec<HoldId> {
        let is_replaced = |hold: &mut Hold| hold.epoch <= epoch && hold.paths.iter().all(|path| paths.contains(path));
        let replaced = self.holds.extract_if(.., is_replaced).map(|hold| hold.id).collect();
        let at = self.holds.partition_point(|hold| hold.epoch < epoch);
        self.holds.insert(at, Hold { epoch, paths, until: now.after(HOLD_MAX), id });
        replaced
    }

    /// The third step of a refresh that is held here. Returns its hold.
    pub fn release(&mut self, epoch: Epoch) -> Option<HoldId> {
        let at = self.holds.iter().position(|hold| hold.epoch == epoch)?;
        let hold = self.holds.remove(at);
        if hold.epoch >= self.completed {
            (self.completed, self.was_missed) = (hold.epoch, false);
        }
        Some(hold.id)
    }

    /// The refreshes whose end nobody has told in time.
    pub fn abandoned(&self, now: Time) -> Vec<Epoch> {
        self.holds.iter().filter(|hold| hold.until <= now).map(|hold| hold.epoch).collect()
    }

    /// Another node has met this refresh. One whose first step was taken here is at its second.
    pub fn meet(&self, now: Time, met: Epoch) -> Met {
        match met {
            _ if met <= self.met() || !self.is_plausible(met) => Met::Known,
            _ if self.is_quiet(now, met) => Met::Holds,
            _ => Met::Missed,
        }
    }

    /// A refresh was missed and has been made up for. Returns the holds of others.
    pub fn catch_up(&mut self, epoch: Epoch) -> Vec<HoldId> {
        (self.completed, self.was_missed) = (epoch, true);
        self.holds.drain(..).map(|hold| hold.id).collect()
    }

    fn is_quiet(&self, now: Time, epoch: Epoch) -> bool {
        self.quiet.iter().any(|quiet| quiet.epoch == epoch && now < quiet.until)
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
