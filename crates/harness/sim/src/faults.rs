//! Faults, and their times.

use std::time::Duration;

use forebay_random::Random;
use forebay_types::Time;

use crate::NodeIndex;

/// One thing that goes wrong, or is mended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fault {
    /// A node dies with all it knew; its programs with it.
    Crash(NodeIndex),
    /// A node's daemon dies with all it knew; its programs live, and its keeper starts the next after so long.
    Die(NodeIndex, Duration),
    /// It is started anew and knows nothing.
    Restart(NodeIndex),
    /// A node stops: nothing is taken, answered or timed there; its connections stay.
    Pause(NodeIndex),
    /// It goes on; for it the clock has jumped.
    Resume(NodeIndex),
    /// Everything that a node sends comes later.
    Slow(NodeIndex, Duration),
    /// No message gets from the first node to the second, until the route is mended.
    Cut(NodeIndex, NodeIndex),
    /// It does again; what was on its way arrives.
    Mend(NodeIndex, NodeIndex),
    /// Nodes below this index and the others cannot reach each other.
    Partition(NodeIndex),
    /// They can again.
    Join,
    /// The backing file system answers nothing for so long.
    BackingHangs(Duration),
    /// The backing file system answers nothing about the directory or file of a number for so long.
    PathHangs(u64, Duration),
    /// A file changes on the backing file system: the one of this number, among all files.
    Change(u64),
    /// The backing file system's tree changes otherwise.
    Alter(Alteration, u64),
    /// The whole job forgets what it knows of the subtrees of this number, led by the first node that runs.
    Refresh(u64),
    /// So many requests in a hundred to the backing file system fail, for so long.
    BackingFails(u64, Duration),
    /// A node's time of day is set back by so much.
    SetBack(NodeIndex, Duration),
}

impl Fault {
    /// Whether nodes may not hear each other because of it.
    #[must_use]
    pub fn breaks_the_overlay(&self) -> bool {
        !matches!(
            self,
            Self::Change(_)
                | Self::Alter(..)
                | Self::Refresh(_)
                | Self::BackingHangs(_)
                | Self::PathHangs(..)
                | Self::BackingFails(..)
                | Self::SetBack(..)
        )
    }
}

/// How a tree changes, where a number says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Alteration {
    /// A file has another size.
    Resize,
    /// A file, directory or symbolic link appears.
    Create,
    /// Something is gone, with all below.
    Remove,
    /// Something is found under another name.
    Rename,
    /// A file has another name as well.
    Link,
}

/// The faults of a seed for a job of `nodes` nodes, in order of time, within `span`. Faults are mended within about
/// 20 seconds, so that a deadline of 30 seconds is never an excuse.
#[must_use]
pub fn schedule(random: &mut Random, nodes: usize, span: Duration) -> Vec<(Time, Fault)> {
    let mut schedule = Vec::new();
    let mut has_hung = false;
    for _ in 0..random.below(7) {
        let at = Time(random.below(span.as_nanos() as u64));
        let lasts = Duration::from_millis(100 + random.below(18_000));
        let until = at.after(lasts);
        let node = victim(random, nodes);
        let (fault, mended) = match random.below(9) {
            0 | 1 => (Fault::Crash(node), Some(Fault::Restart(node))),
            2 => (Fault::Pause(node), Some(Fault::Resume(node))),
            3 => (Fault::Slow(node, Duration::from_millis(random.below(400))), Some(Fault::Slow(node, Duration::ZERO))),
            4 => {
                let other = victim(random, nodes);
                (Fault::Cut(node, other), Some(Fault::Mend(node, other)))
            }
            5 => (Fault::Partition(1 + random.below(nodes as u64) as usize), Some(Fault::Join)),
            6 if !std::mem::replace(&mut has_hung, true) => {
                (Fault::BackingHangs(lasts.min(Duration::from_secs(10))), None)
            }
            7 => (Fault::BackingFails(1 + random.below(20), lasts), None),
            _ => (Fault::Crash(node), None),
        };
        schedule.push((at, fault));
        schedule.extend(mended.map(|mended| (until, mended)));
    }
    for _ in 0..random.below(6) {
        schedule.push((Time(random.below(span.as_nanos() as u64)), Fault::Change(random.next())));
    }
    for _ in 0..random.below(4) {
        refresh(random, nodes, span, &mut schedule);
    }
    schedule.sort_by_key(|(at, _)| *at);
    schedule
}

/// A refresh, with files that changed just before, and often a node that does not hear of it.
fn refresh(random: &mut Random, nodes: usize, span: Duration, schedule: &mut Vec<(Time, Fault)>) {
    let at = Time(random.below(span.as_nanos() as u64));
    let later = |ms| at.after(Duration::from_millis(ms));
    (0..40).for_each(|_| schedule.push((later(random.below(30)), Fault::Change(random.next()))));
    if random.below(2) == 0 {
        let deaf = victim(random, nodes);
        schedule.push((at, Fault::Cut(0, deaf)));
        schedule.push((later(1500 + random.below(3000)), Fault::Mend(0, deaf)));
    }
    schedule.push((later(30), Fault::Refresh(random.next())));
    for _ in 0..random.below(3) {
        // One that waits for the first, or follows it closely; of the same files or of others.
        schedule.push((later(30 + random.below(60)), Fault::Refresh(random.next())));
    }
}

/// In every second seed, clocks that are set back, by less than the time between two refreshes or by much more. They have a
/// source of chance of their own: what else goes wrong in a seed does not depend on them.
#[must_use]
pub fn clocks_set_back(seed: u64, nodes: usize, span: Duration) -> Vec<(Time, Fault)> {
    let mut random = Random::new(!seed);
    let count = if random.below(2) == 0 { 0 } else { 1 + random.below(2) };
    let mut one = || {
        let at = Time(random.below(span.as_nanos() as u64));
        let by_max_ms = if random.below(2) == 0 { 2000 } else { 3_600_000 };
        let by = Duration::from_millis(1 + random.below(by_max_ms));
        (at, Fault::SetBack(victim(&mut random, nodes), by))
    };
    (0..count).map(|_| one()).collect()
}

/// Other events of a seed: the tree changes, daemons die under living programs, one path hangs. From a source of chance
/// of its own, too.
#[must_use]
pub fn unrest(seed: u64, nodes: usize, span: Duration) -> Vec<(Time, Fault)> {
    let mut random = Random::new(seed.wrapping_add(1 << 40));
    let mut unrest = Vec::new();
    let at = |random: &mut Random| Time(random.below(span.as_nanos() as u64));
    if random.below(2) == 0 {
        for _ in 0..10 + random.below(40) {
            use Alteration::{Create, Link, Remove, Rename, Resize};
            let what = [Resize, Resize, Create, Create, Remove, Rename, Link][random.below(7) as usize];
            unrest.push((at(&mut random), Fault::Alter(what, random.next())));
        }
    }
    if random.below(3) == 0 {
        for _ in 0..1 + random.below(4) {
            let away = Duration::from_millis(1 + random.below(400));
            unrest.push((at(&mut random), Fault::Die(victim(&mut random, nodes), away)));
        }
    }
    if random.below(3) == 0 {
        let lasts = Duration::from_millis(500 + random.below(9500));
        unrest.push((at(&mut random), Fault::PathHangs(random.next(), lasts)));
    }
    unrest
}

/// Mostly one of the first nodes, on which the others depend.
fn victim(random: &mut Random, nodes: usize) -> NodeIndex {
    let among = if random.below(3) == 0 { nodes as u64 } else { (nodes as u64).min(7) };
    random.below(among) as usize
}
