//! Faults, their places and times: the errors and waits that they explain, and no others.

use std::time::Duration;

use forebay_overlay::Tree;
use forebay_types::{NodeRank, Time, ViewPath};

use crate::NodeIndex;
use crate::faults::Fault;
use crate::promised_order::may_ask;

/// How long nodes may take to find out what works again, or who is lost: silence is noticed and asked about, and what is being
/// tried by then may be tried in vain.
const AFTERMATH: Duration = Duration::from_secs(2);

/// How long it takes to find out that a node does not answer, twice: the one that is asked instead may be lost too.
const NOTICED_WITHIN: Duration = Duration::from_secs(4);

/// The longest that a request is held by a refresh that nobody ends (`forebay_read`).
const HOLD_MAX: Duration = Duration::from_secs(10);

/// All that went wrong so far.
#[derive(Default)]
pub(crate) struct Troubles {
    breaks: Vec<Break>,
    failures: Vec<Failure>,
    hangs: Vec<Hang>,
    /// From when until when refreshes were led.
    refreshes: Vec<(Time, Option<Time>)>,
}

/// Something that keeps nodes from hearing each other.
struct Break {
    fault: Fault,
    from: Time,
    until: Option<Time>,
}

/// An operation at the backing file system that was made to fail.
pub(crate) struct Failure {
    /// When.
    pub at: Time,
    /// Which node asked.
    pub reader: NodeIndex,
    /// Its path: a directory whose names were asked for, or a file that was read.
    pub about: ViewPath,
    /// The tree that it belongs to.
    pub tree: Tree,
}

/// A time in which the backing file system answers nothing.
struct Hang {
    /// About what; everything if none is given.
    about: Option<ViewPath>,
    from: Time,
    until: Time,
}

impl Troubles {
    /// A fault begins, or ends another.
    pub fn add(&mut self, fault: &Fault, now: Time) {
        match fault {
            Fault::Restart(node) => self.end(now, |other| *other == Fault::Crash(*node)),
            Fault::Resume(node) => self.end(now, |other| *other == Fault::Pause(*node)),
            Fault::Mend(from, to) => self.end(now, |other| *other == Fault::Cut(*from, *to)),
            Fault::Slow(node, by) if by.is_zero() => {
                self.end(now, |other| matches!(other, Fault::Slow(slow, _) if slow == node));
            }
            Fault::Join => self.end(now, |other| matches!(other, Fault::Partition(_) | Fault::Cut(..))),
            fault if fault.breaks_the_overlay() => {
                self.breaks.push(Break { fault: fault.clone(), from: now, until: None });
            }
            _ => {}
        }
    }

    fn end(&mut self, now: Time, ends: impl Fn(&Fault) -> bool) {
        let ended = self.breaks.iter_mut().filter(|one| one.until.is_none() && ends(&one.fault));
        ended.for_each(|one| one.until = Some(now));
    }

    /// An operation was made to fail.
    pub fn add_failure(&mut self, failure: Failure) {
        self.failures.push(failure);
    }

    /// The backing file system hangs.
    pub fn add_hang(&mut self, about: Option<ViewPath>, from: Time, until: Time) {
        self.hangs.push(Hang { about, from, until });
    }

    /// Until when an operation about a path has to wait.
    pub fn hangs_until(&self, about: &ViewPath) -> Time {
        let is_one = |hang: &&Hang| hang.about.as_ref().is_none_or(|hung| about == hung);
        self.hangs.iter().filter(is_one).map(|hang| hang.until).max().unwrap_or_default()
    }

    /// Whether a node may be told of an error about a path that it asked for from `began` to `now`: it, or a node that it may
    /// have asked, was refused that very thing meanwhile, or so shortly before that the answer was on its way.
    pub fn explain_error(
        &self,
        (node, about): (NodeIndex, &ViewPath),
        (began, now): (Time, Time),
        way: Duration,
    ) -> bool {
        let may_have_asked = |failure: &Failure| {
            let asked = NodeRank(failure.reader as u32);
            failure.reader == node || may_ask(&failure.tree, NodeRank(node as u32)).any(|other| other == asked)
        };
        let is_in_time = |failure: &Failure| {
            let on_its_way = way + self.broken(failure.at, began);
            failure.at <= now && failure.at.after(on_its_way) >= began
        };
        self.failures.iter().any(|failure| failure.about == *about && may_have_asked(failure) && is_in_time(failure))
    }

    /// How much of a time something kept nodes from hearing each other, or had until just before. A daemon that is dead is
    /// noticed at once.
    pub fn broken(&self, from: Time, to: Time) -> Duration {
        let aftermath = |one: &Break| match one.fault {
            Fault::Crash(_) | Fault::Die(..) => one.from.after(AFTERMATH),
            _ => one.until.unwrap_or(to).after(AFTERMATH),
        };
        union(self.breaks.iter().map(|one| (one.from, aftermath(one))), from, to)
    }

    /// A refresh begins; its number.
    pub fn begin_refresh(&mut self, now: Time) -> usize {
        self.refreshes.push((now, None));
        self.refreshes.len() - 1
    }

    /// It has ended.
    pub fn end_refresh(&mut self, number: usize, now: Time) {
        self.refreshes[number].1 = Some(now);
    }

    /// How much of a time requests may have been held by refreshes that something broke: their steps wait for nodes that do not
    /// answer, and what nobody ends ends by itself.
    pub fn held(&self, from: Time, to: Time) -> Duration {
        let lasts = |begin: Time, end: Option<Time>| end.unwrap_or(to).max(begin).after(HOLD_MAX);
        let disturbed = self.refreshes.iter().filter(|(begin, end)| !self.broken(*begin, end.unwrap_or(to)).is_zero());
        union(disturbed.map(|(begin, end)| (*begin, lasts(*begin, *end))), from, to).min(HOLD_MAX)
    }

    /// How long what kept nodes from hearing each other may hold a request up in a time: each of these only until others are asked
    /// instead, however long it lasts.
    pub fn noticed_after(&self, from: Time, to: Time) -> Duration {
        let overlap = |one: &Break| {
            let until = one.until.unwrap_or(to).after(AFTERMATH).min(to);
            until.since(one.from.max(from)).min(NOTICED_WITHIN)
        };
        self.breaks.iter().map(overlap).sum()
    }

    /// How much of a time the backing file system answered nothing about a path, or about anything.
    pub fn hung(&self, about: Option<&ViewPath>, from: Time, to: Time) -> Duration {
        let is_one = |hang: &&Hang| hang.about.as_ref().zip(about).is_none_or(|(hung, about)| hung == about);
        union(self.hangs.iter().filter(is_one).map(|hang| (hang.from, hang.until)), from, to)
    }
}

/// How much of a time is in any of these.
fn union(parts: impl Iterator<Item = (Time, Time)>, from: Time, to: Time) -> Duration {
    let mut parts: Vec<(Time, Time)> = parts.map(|(begin, end)| (begin.max(from), end.min(to))).collect();
    parts.retain(|(begin, end)| begin < end);
    parts.sort_unstable();
    let (mut sum, mut seen) = (Duration::ZERO, from);
    for (begin, end) in parts {
        let begin = begin.max(seen);
        if end > begin {
            sum += end.since(begin);
            seen = end;
        }
    }
    sum
}
