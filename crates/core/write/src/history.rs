//! The owner's backlog of recent changes for the tree's second home, and the second home's progress.
//!
//! The second home asks for changes after those that it has written down, so each question says which are safe. If it has
//! fallen too far behind, it gets the tree instead. The caller passes the time.
//!
//! A change of a name does not wait for the second home. `fsync` does, and so does each step that cannot be undone (landing, giving room
//! back). If the second home is silent, the owner goes on without it until it has all changes again. Before that, the nodes that could
//! let it take the tree over must know (`Tenure`).

use std::collections::VecDeque;

use forebay_types::Time;
use forebay_wire::write_message::Have;
use serde::{Deserialize, Serialize};

use crate::timing::SECOND_HOME_SILENT;

/// Bytes of changes that are kept for a second home that is behind.
const KEPT_BYTES_MAX: usize = 16 << 20;

/// Bytes of changes that one answer has.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// Lines that are known before the newest.
const LINES_MAX: usize = 16;

/// The changes that have made a tree, by the daemons of its owner that carried them out. Each daemon has a line, since a loss of
/// power may have taken the end of the line before it. A node with a line up to the start of the next one lacks only the changes
/// after that.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Lineage {
    have: Have,
    /// How far the lines before it count, oldest first.
    before: Vec<Have>,
}

impl Lineage {
    /// All changes so far.
    #[must_use]
    pub fn have(&self) -> Have {
        self.have
    }

    /// Another daemon goes on from here.
    pub fn begin(&mut self, line: u64) {
        if self.have.count > 0 {
            self.before.push(self.have);
        }
        if self.before.len() > LINES_MAX {
            self.before.remove(0);
        }
        self.have.line = line;
    }

    /// One more change.
    pub fn note(&mut self) {
        self.have.count += 1;
    }

    /// Whether a node with this history has no other changes.
    #[must_use]
    pub fn covers(&self, have: Have) -> bool {
        let mut lines = self.before.iter().chain([&self.have]);
        lines.any(|line| line.line == have.line && have.count <= line.count)
    }

    /// The first `count` changes, by the line that has made the last of them.
    #[must_use]
    pub fn at(&self, count: u64) -> Have {
        let line = self.before.iter().find(|line| count <= line.count && count < self.have.count);
        Have { line: line.unwrap_or(&self.have).line, count }
    }
}

/// See the module.
#[derive(Debug)]
pub struct History {
    lineage: Lineage,
    recent: Recent,
    follower: Option<Follower>,
    /// Until then it is waited for though it has not said anything.
    awaited_until: Time,
    /// It is not waited for.
    is_alone: bool,
    /// The highest count for which a caller waits at the follower.
    wanted: u64,
}

/// The newest changes, encoded, oldest first.
#[derive(Debug, Default)]
pub struct Recent {
    changes: VecDeque<Vec<u8>>,
    bytes: usize,
}

impl Recent {
    /// One more; those before it go as far as there is no room.
    pub fn note(&mut self, change: Vec<u8>) {
        self.bytes += change.len();
        self.changes.push_back(change);
        while self.bytes > KEPT_BYTES_MAX {
            let Some(oldest) = self.changes.pop_front() else { break };
            self.bytes -= oldest.len();
        }
    }
}

/// How far the second home is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Follower {
    /// The changes that it has written down.
    pub have: Have,
    /// When it said so.
    pub heard: Time,
}

/// The answer to the follower's question.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Sent {
    /// It has everything.
    Nothing,
    /// These come next.
    Changes {
        /// Its history with them.
        have: Have,
        /// Encoded; none where it only hears of a new line.
        changes: Vec<Vec<u8>>,
    },
    /// The tree.
    Tree,
}

impl History {
    /// One whose follower is to come, as the owner's daemon begins: `recent` are the newest changes of those that `lineage` counts.
    #[must_use]
    pub fn new(lineage: Lineage, recent: Recent, now: Time) -> Self {
        let awaited_until = now.after(SECOND_HOME_SILENT);
        Self { lineage, recent, follower: None, awaited_until, is_alone: false, wanted: 0 }
    }

    /// Something has happened.
    pub fn note(&mut self, change: Vec<u8>) {
        self.lineage.note();
        self.recent.note(change);
    }

    /// The same where nobody follows: it is counted, and not kept.
    pub fn count(&mut self) {
        self.lineage.note();
    }

    /// The owner's own history.
    #[must_use]
    pub fn have(&self) -> Have {
        self.lineage.have()
    }

    /// The same, with the lines before.
    #[must_use]
    pub fn lineage(&self) -> &Lineage {
        &self.lineage
    }

    /// The follower says what it has.
    pub fn heard(&mut self, now: Time, have: Option<Have>) {
        let have = have.filter(|have| self.lineage.covers(*have));
        self.follower = have.map(|have| Follower { have, heard: now });
        self.is_alone &= self.follower.is_none_or(|follower| follower.have.count < self.have().count);
    }

    /// Whether changes alone lead from `have` to what the owner has.
    #[must_use]
    pub fn leads_on_from(&self, have: Have) -> bool {
        self.lineage.covers(have) && self.have().count - have.count <= self.recent.changes.len() as u64
    }

    /// The next answer to the follower.
    #[must_use]
    pub fn sent(&self) -> Sent {
        let Some(Follower { have, .. }) = self.follower.filter(|follower| self.leads_on_from(follower.have)) else {
            return Sent::Tree;
        };
        if have == self.have() {
            return Sent::Nothing;
        }
        let mut bytes = 0;
        let fits = |change: &&Vec<u8>| {
            let is_first = bytes == 0;
            bytes += change.len();
            is_first || bytes <= ANSWER_BYTES_MAX
        };
        let known = self.recent.changes.len() - (self.have().count - have.count) as usize;
        let changes: Vec<Vec<u8>> = self.recent.changes.iter().skip(known).take_while(fits).cloned().collect();
        Sent::Changes { have: self.lineage.at(have.count + changes.len() as u64), changes }
    }

    /// Whether the second home is waited for: it follows, or may be about to.
    pub fn is_followed(&mut self, now: Time) -> bool {
        self.is_alone |= self.follower(now).is_none() && now >= self.awaited_until;
        !self.is_alone
    }

    /// Whether nobody has to wait any more until the follower has so many changes: it has them, or is not waited for, and those know
    /// that who might let it take over.
    #[must_use]
    pub fn is_safe(&mut self, now: Time, count: u64, alone_is_known: bool) -> bool {
        let has_it = self.follower.is_some_and(|follower| follower.have.count >= count);
        has_it || (!self.is_followed(now) && alone_is_known)
    }

    /// As much as the follower has, by the line that has made the last of it.
    #[must_use]
    pub fn safe(&self) -> Option<Have> {
        Some(self.lineage.at(self.follower?.have.count))
    }

    /// Notes that a caller waits for `is_safe`.
    pub fn want(&mut self, count: u64) {
        self.wanted = self.wanted.max(count);
    }

    /// Whether a caller waits for a change that the follower does not have.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        self.follower.map_or(0, |follower| follower.have.count) < self.wanted
    }

    /// How far the follower is, if there is one that answers.
    #[must_use]
    pub fn follower(&self, now: Time) -> Option<Follower> {
        self.follower.filter(|follower| now.since(follower.heard) < SECOND_HOME_SILENT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn have(count: u64) -> Option<Have> {
        Some(Have { line: 7, count })
    }

    fn at(seconds: u64) -> Time {
        Time(seconds * 1_000_000_000)
    }

    fn asked(history: &mut History, seconds: u64, have: Option<Have>) -> Sent {
        history.heard(at(seconds), have);
        history.sent()
    }

    /// The owner's daemon that begins after `lineage`, with the changes of it that it has found.
    fn begun(mut lineage: Lineage, line: u64, recent: &[u8]) -> History {
        lineage.begin(line);
        let mut found = Recent::default();
        recent.iter().for_each(|change| found.note(vec![*change]));
        History::new(lineage, found, at(0))
    }

    fn changes(line: u64, count: u64, changes: &[u8]) -> Sent {
        Sent::Changes { have: Have { line, count }, changes: changes.iter().map(|change| vec![*change]).collect() }
    }

    #[test]
    fn who_follows_gets_what_he_does_not_have_and_is_waited_for() {
        let mut history = begun(Lineage::default(), 7, &[]);
        history.note(vec![1]);
        assert!(!history.is_safe(at(4), 1, true), "who is to follow has not asked yet");
        assert_eq!(asked(&mut history, 0, None), Sent::Tree);
        let all = history.have();
        assert_eq!(asked(&mut history, 0, Some(all)), Sent::Nothing);
        history.note(vec![2]);
        history.note(vec![3]);
        assert!(history.is_safe(at(0), 1, true) && !history.is_safe(at(0), 2, true) && !history.is_wanted());
        history.want(2);
        assert!(history.is_wanted());
        assert_eq!(asked(&mut history, 1, have(1)), changes(7, 3, &[2, 3]));
        assert!(!history.is_safe(at(1), 2, true));
        assert_eq!(asked(&mut history, 1, have(2)), changes(7, 3, &[3]));
        assert!(history.is_safe(at(1), 2, true) && !history.is_safe(at(1), 3, true) && !history.is_wanted());
        assert_eq!((history.follower(at(6)), history.follower(at(2)).map(|follower| follower.have)), (None, have(2)));
        assert_eq!(history.safe(), have(2));
    }

    #[test]
    fn who_says_nothing_is_not_waited_for_once_that_is_known_until_he_has_everything() {
        let mut history = begun(Lineage::default(), 7, &[]);
        history.note(vec![1]);
        assert!(!history.is_safe(at(5), 1, false) && history.is_safe(at(5), 1, true), "nobody follows");
        assert!(!history.is_followed(at(5)));
        let _ = asked(&mut history, 6, have(0));
        assert!(history.is_safe(at(6), 1, true) && !history.is_followed(at(6)), "he does not have it yet");
        let _ = asked(&mut history, 7, have(1));
        history.note(vec![2]);
        assert!(!history.is_safe(at(7), 2, true) && history.is_followed(at(7)));
    }

    #[test]
    fn who_is_too_far_behind_or_elsewhere_gets_the_tree() {
        let mut history = begun(Lineage::default(), 7, &[]);
        for _ in 0..20 {
            history.note(vec![0; 1 << 20]);
        }
        assert_eq!(asked(&mut history, 0, have(0)), Sent::Tree);
        assert_eq!(asked(&mut history, 0, have(21)), Sent::Tree);
        assert_eq!(asked(&mut history, 0, Some(Have { line: 8, count: 20 })), Sent::Tree);
        let Sent::Changes { changes, .. } = asked(&mut history, 0, have(10)) else { panic!("they are kept") };
        assert_eq!(changes.len(), 1, "an answer has its limit");
    }

    #[test]
    fn the_owners_next_daemon_goes_on_with_who_has_no_more_than_it_found() {
        let mut first = begun(Lineage::default(), 7, &[]);
        (1..=5).for_each(|change| first.note(vec![change]));
        let mut next = begun(first.lineage().clone(), 8, &[3, 4, 5]);
        assert_eq!(next.have(), Have { line: 8, count: 5 });
        assert_eq!(asked(&mut next, 0, have(1)), Sent::Tree, "what comes next is not kept");
        assert_eq!(asked(&mut next, 0, have(3)), changes(8, 5, &[4, 5]));
        assert_eq!(next.safe(), have(3), "what it lacks was made by the daemon before");
        assert_eq!(asked(&mut next, 0, have(5)), changes(8, 5, &[]), "it hears of the new line");
        assert_eq!(asked(&mut next, 0, Some(Have { line: 8, count: 5 })), Sent::Nothing);
        next.note(vec![6]);
        assert_eq!(asked(&mut next, 0, have(4)), changes(8, 6, &[5, 6]));
        assert_eq!(asked(&mut next, 0, have(6)), Sent::Tree, "power has taken what it has");
    }

    #[test]
    fn more_daemons_than_are_remembered_are_not_taken_for_others() {
        let mut history = begun(Lineage::default(), 1, &[]);
        for line in 2..=20 {
            history.note(vec![line as u8]);
            history = begun(history.lineage().clone(), line, &[]);
        }
        assert_eq!(asked(&mut history, 0, Some(Have { line: 2, count: 1 })), Sent::Tree);
        assert!(history.lineage().covers(Have { line: 19, count: 18 }));
        assert!(!history.lineage().covers(Have { line: 19, count: 20 }));
    }
}
