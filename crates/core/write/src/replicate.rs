//! One replicated stream: the numbered entries of a leader that one other node, the follower, writes down too.
//!
//! The follower asks "from this index on", writes down the entries that come next and asks again, so each question says which entries are
//! safe. An index (`ReplicatedIndex`) is an incarnation of the leader and a count of entries. `Backlog` is the leader's part. It is the same for both
//! streams of a job, the history of the tree and the records of a node's log; `Entry` says in which they differ. The caller passes the time.
//!
//! A change of a name does not wait for the follower. `fsync` does, and so does each step that cannot be undone (landing, giving room
//! back). If the follower is silent, the leader goes on without it. The leader of a tree must not wait for it again before it has all
//! entries (`is_followed`), and the nodes that could let it take the tree over must know that it is not waited for (`LeaderLease`).

use std::collections::VecDeque;

use forebay_types::{LogPosition, Time};
use forebay_wire::write_message::{CONTENTS_BYTES_MAX, CONTENTS_PARTS_MAX, ReplicatedIndex};

use crate::lineage::Lineage;
use crate::timing::FOLLOWER_SILENT;

/// A part of a stream.
pub trait Entry: Clone {
    /// Bytes of entries that are kept for a follower that is behind; one that lacks more gets the whole instead (`Next::All`). `None` keeps
    /// each entry until the follower has it, so that entries alone lead on from everywhere.
    const KEPT_BYTES_MAX: Option<u64>;

    /// Bytes of entries that one answer has, unless it has one entry.
    const ANSWER_BYTES_MAX: u64;

    /// Entries that one answer has.
    const ANSWER_ENTRIES_MAX: usize;

    /// Its size.
    fn bytes(&self) -> u64;
}

/// A change of the tree, encoded.
impl Entry for Vec<u8> {
    const KEPT_BYTES_MAX: Option<u64> = Some(16 << 20);
    const ANSWER_BYTES_MAX: u64 = 1 << 20;
    const ANSWER_ENTRIES_MAX: usize = usize::MAX;

    fn bytes(&self) -> u64 {
        self.len() as u64
    }
}

/// A record of a node's log, with the bytes of its contents. The log that has them limits how many there are.
impl Entry for (LogPosition, u32) {
    const KEPT_BYTES_MAX: Option<u64> = None;
    const ANSWER_BYTES_MAX: u64 = CONTENTS_BYTES_MAX;
    const ANSWER_ENTRIES_MAX: usize = CONTENTS_PARTS_MAX;

    fn bytes(&self) -> u64 {
        self.1.into()
    }
}

/// The newest entries, oldest first.
#[derive(Debug)]
pub struct Entries<E> {
    entries: VecDeque<E>,
    bytes: u64,
}

impl<E> Default for Entries<E> {
    fn default() -> Self {
        Self { entries: VecDeque::new(), bytes: 0 }
    }
}

impl<E: Entry> Entries<E> {
    /// One more; those before it go as far as there is no room.
    pub fn note(&mut self, entry: E) {
        self.bytes += entry.bytes();
        self.entries.push_back(entry);
        while E::KEPT_BYTES_MAX.is_some_and(|most| self.bytes > most) {
            self.drop_oldest();
        }
    }

    /// All that are kept, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &E> {
        self.entries.iter()
    }

    fn drop_oldest(&mut self) {
        self.bytes -= self.entries.pop_front().map_or(0, |oldest| oldest.bytes());
    }

    fn len(&self) -> u64 {
        self.entries.len() as u64
    }
}

/// The leader's part. See the module.
#[derive(Debug)]
pub struct Backlog<E> {
    lineage: Lineage,
    recent: Entries<E>,
    follower: Option<Follower>,
    /// Until then it is waited for though it has not said anything.
    awaited_until: Time,
    /// It is not waited for.
    is_alone: bool,
    /// The highest count for which a caller waits at the follower.
    wanted: u64,
}

/// How far the follower is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Follower {
    /// The entries that it has written down.
    pub have: ReplicatedIndex,
    /// When it said so.
    pub heard: Time,
}

/// The answer to the follower's question.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Next<E> {
    /// These come next.
    Entries {
        /// Its index with them.
        have: ReplicatedIndex,
        /// None where it has all, or only hears of a new incarnation.
        entries: Vec<E>,
    },
    /// Entries alone do not lead on from what it has.
    All,
}

impl<E: Entry> Backlog<E> {
    /// One whose follower is to come, as the leader's daemon begins: `recent` are the newest entries of those that `lineage` counts.
    #[must_use]
    pub fn new(lineage: Lineage, recent: Entries<E>, now: Time) -> Self {
        let awaited_until = now.after(FOLLOWER_SILENT);
        Self { lineage, recent, follower: None, awaited_until, is_alone: false, wanted: 0 }
    }

    /// One of an incarnation that begins with these entries.
    #[must_use]
    pub fn begin(incarnation: u64, entries: impl IntoIterator<Item = E>, now: Time) -> Self {
        let mut lineage = Lineage::default();
        lineage.begin(incarnation);
        let mut backlog = Self::new(lineage, Entries::default(), now);
        entries.into_iter().for_each(|entry| backlog.note(entry));
        backlog
    }

    /// One more entry.
    pub fn note(&mut self, entry: E) {
        self.lineage.note();
        self.recent.note(entry);
    }

    /// The same where nobody follows: it is counted, and not kept.
    pub fn count(&mut self) {
        self.lineage.note();
    }

    /// The leader's own index.
    #[must_use]
    pub fn have(&self) -> ReplicatedIndex {
        self.lineage.have()
    }

    /// The same, with the incarnations before.
    #[must_use]
    pub fn lineage(&self) -> &Lineage {
        &self.lineage
    }

    /// The follower says what it has.
    pub fn heard(&mut self, now: Time, have: Option<ReplicatedIndex>) {
        let have = have.filter(|have| self.lineage.covers(*have));
        let have = match E::KEPT_BYTES_MAX {
            Some(_) => have,
            None => Some(self.drop_until(have)),
        };
        self.follower = have.map(|have| Follower { have, heard: now });
        self.is_alone &= self.follower.is_none_or(|follower| follower.have.count < self.have().count);
    }

    /// Entries that the follower has are not needed any more. Where it is then: one that says less than it said before begins with the
    /// first entry that is kept.
    fn drop_until(&mut self, have: Option<ReplicatedIndex>) -> ReplicatedIndex {
        let all = self.have().count;
        let first = all - self.recent.len();
        let count = have.map_or(first, |have| have.count.max(first));
        while self.recent.len() > all - count {
            self.recent.drop_oldest();
        }
        self.lineage.at(count)
    }

    /// Whether entries alone lead from `have` to what the leader has.
    #[must_use]
    pub fn leads_on_from(&self, have: ReplicatedIndex) -> bool {
        self.lineage.covers(have) && self.have().count - have.count <= self.recent.len()
    }

    /// The next answer to the follower.
    #[must_use]
    pub fn next(&self) -> Next<E> {
        let Some(count) = self.next_count() else { return Next::All };
        let entries = self.lacking().take(self.fitting()).cloned().collect();
        Next::Entries { have: self.lineage.at(count), entries }
    }

    /// Whether the next answer has nothing in it.
    #[must_use]
    pub fn has_all(&self) -> bool {
        self.follower.is_some_and(|follower| follower.have == self.have())
    }

    /// Whether there is one that has anything, silent or not.
    #[must_use]
    pub fn has_follower(&self) -> bool {
        self.follower.is_some()
    }

    /// Whether the next answer has no room for more, or a caller waits for it.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.is_wanted() || self.next_count().is_none_or(|count| count < self.have().count)
    }

    /// The count that the follower has with the next answer; `None` where entries alone do not lead on.
    fn next_count(&self) -> Option<u64> {
        let follower = self.follower.filter(|follower| self.leads_on_from(follower.have))?;
        Some(follower.have.count + self.fitting() as u64)
    }

    /// How many of the entries that the follower lacks one answer has.
    fn fitting(&self) -> usize {
        let mut bytes = 0;
        let fits = |entry: &&E| {
            let is_first = bytes == 0;
            bytes += entry.bytes();
            is_first || bytes <= E::ANSWER_BYTES_MAX
        };
        self.lacking().take(E::ANSWER_ENTRIES_MAX).take_while(fits).count()
    }

    /// The entries that the follower lacks, as far as they are kept.
    fn lacking(&self) -> impl Iterator<Item = &E> {
        let behind = self.have().count - self.follower.map_or(0, |follower| follower.have.count);
        self.recent.entries.iter().skip(self.recent.len().saturating_sub(behind) as usize)
    }

    /// Whether the follower has said nothing for long.
    #[must_use]
    pub fn is_silent(&self, now: Time) -> bool {
        self.follower(now).is_none() && now >= self.awaited_until
    }

    /// Whether the follower is waited for: it follows, or may be about to. One that was silent is waited for again when it has everything.
    pub fn is_followed(&mut self, now: Time) -> bool {
        self.is_alone |= self.is_silent(now);
        !self.is_alone
    }

    /// Whether the follower has so many entries.
    #[must_use]
    pub fn has(&self, count: u64) -> bool {
        self.follower.is_some_and(|follower| follower.have.count >= count)
    }

    /// Whether nobody has to wait any more until the follower has so many entries: it has them, or is not waited for, and those know
    /// that who might let it take over.
    #[must_use]
    pub fn is_safe(&mut self, now: Time, count: u64, alone_is_known: bool) -> bool {
        self.has(count) || (!self.is_followed(now) && alone_is_known)
    }

    /// As much as the follower has, by the incarnation that has made the last of it.
    #[must_use]
    pub fn safe(&self) -> Option<ReplicatedIndex> {
        Some(self.lineage.at(self.follower?.have.count))
    }

    /// Notes that a caller waits until the follower has so many.
    pub fn want(&mut self, count: u64) {
        self.wanted = self.wanted.max(count);
    }

    /// Whether a caller waits for an entry that the follower does not have.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        self.follower.map_or(0, |follower| follower.have.count) < self.wanted
    }

    /// How far the follower is, if there is one that answers.
    #[must_use]
    pub fn follower(&self, now: Time) -> Option<Follower> {
        self.follower.filter(|follower| now.since(follower.heard) < FOLLOWER_SILENT)
    }

    /// The entries that are kept, oldest first.
    pub fn kept(&self) -> impl Iterator<Item = &E> {
        self.recent.entries.iter()
    }

    /// How much that is, bytes.
    #[must_use]
    pub fn kept_bytes(&self) -> u64 {
        self.recent.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type History = Backlog<Vec<u8>>;
    type Records = Backlog<(LogPosition, u32)>;

    fn have(count: u64) -> Option<ReplicatedIndex> {
        Some(ReplicatedIndex { incarnation: 7, count })
    }

    fn at(seconds: u64) -> Time {
        Time(seconds * 1_000_000_000)
    }

    fn asked<E: Entry>(backlog: &mut Backlog<E>, seconds: u64, have: Option<ReplicatedIndex>) -> Next<E> {
        backlog.heard(at(seconds), have);
        backlog.next()
    }

    /// The leader's daemon that begins after `lineage`, with the changes of it that it has found.
    fn begun(mut lineage: Lineage, incarnation: u64, recent: &[u8]) -> History {
        lineage.begin(incarnation);
        let mut found = Entries::default();
        recent.iter().for_each(|change| found.note(vec![*change]));
        History::new(lineage, found, at(0))
    }

    fn changes(incarnation: u64, count: u64, changes: &[u8]) -> Next<Vec<u8>> {
        Next::Entries {
            have: ReplicatedIndex { incarnation, count },
            entries: changes.iter().map(|change| vec![*change]).collect(),
        }
    }

    #[test]
    fn a_follower_gets_missing_changes_and_is_waited_for() {
        let mut history = begun(Lineage::default(), 7, &[]);
        history.note(vec![1]);
        assert!(!history.is_safe(at(4), 1, true), "who is to follow has not asked yet");
        assert_eq!(asked(&mut history, 0, None), Next::All);
        let all = history.have();
        assert_eq!(asked(&mut history, 0, Some(all)), changes(7, 1, &[]));
        assert!(history.has_all());
        history.note(vec![2]);
        history.note(vec![3]);
        assert!(history.is_safe(at(0), 1, true) && !history.is_safe(at(0), 2, true) && !history.is_wanted());
        assert!(!history.has_all() && !history.is_due(), "there is room for more");
        history.want(2);
        assert!(history.is_wanted() && history.is_due());
        assert_eq!(asked(&mut history, 1, have(1)), changes(7, 3, &[2, 3]));
        assert!(!history.is_safe(at(1), 2, true));
        assert_eq!(asked(&mut history, 1, have(2)), changes(7, 3, &[3]));
        assert!(history.is_safe(at(1), 2, true) && !history.is_safe(at(1), 3, true) && !history.is_wanted());
        assert_eq!((history.follower(at(6)), history.follower(at(2)).map(|follower| follower.have)), (None, have(2)));
        assert_eq!(history.safe(), have(2));
    }

    #[test]
    fn a_silent_follower_is_not_waited_for_until_it_has_all_changes() {
        let mut history = begun(Lineage::default(), 7, &[]);
        history.note(vec![1]);
        assert!(!history.is_safe(at(5), 1, false) && history.is_safe(at(5), 1, true), "nobody follows");
        assert!(!history.is_followed(at(5)));
        let _ = asked(&mut history, 6, have(0));
        assert!(history.is_safe(at(6), 1, true) && !history.is_followed(at(6)), "he does not have it yet");
        assert!(!history.is_silent(at(6)));
        let _ = asked(&mut history, 7, have(1));
        history.note(vec![2]);
        assert!(!history.is_safe(at(7), 2, true) && history.is_followed(at(7)));
    }

    #[test]
    fn a_follower_too_far_behind_or_elsewhere_gets_the_tree() {
        let mut history = begun(Lineage::default(), 7, &[]);
        for _ in 0..20 {
            history.note(vec![0; 1 << 20]);
        }
        assert_eq!(asked(&mut history, 0, have(0)), Next::All);
        assert_eq!(asked(&mut history, 0, have(21)), Next::All);
        assert_eq!(asked(&mut history, 0, Some(ReplicatedIndex { incarnation: 8, count: 20 })), Next::All);
        assert!(history.is_due(), "nothing is added to it");
        let Next::Entries { entries, .. } = asked(&mut history, 0, have(10)) else { panic!("they are kept") };
        assert_eq!(entries.len(), 1, "an answer has its limit");
        assert!(history.is_due(), "it is full");
    }

    #[test]
    fn the_leaders_next_daemon_goes_on_with_who_has_no_more_than_it_found() {
        let mut first = begun(Lineage::default(), 7, &[]);
        (1..=5).for_each(|change| first.note(vec![change]));
        let mut next = begun(first.lineage().clone(), 8, &[3, 4, 5]);
        assert_eq!(next.have(), ReplicatedIndex { incarnation: 8, count: 5 });
        assert_eq!(asked(&mut next, 0, have(1)), Next::All, "what comes next is not kept");
        assert_eq!(asked(&mut next, 0, have(3)), changes(8, 5, &[4, 5]));
        assert_eq!(next.safe(), have(3), "what it lacks was made by the daemon before");
        assert_eq!(asked(&mut next, 0, have(5)), changes(8, 5, &[]), "it hears of the new line");
        assert_eq!(asked(&mut next, 0, Some(ReplicatedIndex { incarnation: 8, count: 5 })), changes(8, 5, &[]));
        next.note(vec![6]);
        assert_eq!(asked(&mut next, 0, have(4)), changes(8, 6, &[5, 6]));
        assert_eq!(asked(&mut next, 0, have(6)), Next::All, "power has taken what it has");
    }

    #[test]
    fn more_daemons_than_are_remembered_are_not_taken_for_others() {
        let mut history = begun(Lineage::default(), 1, &[]);
        for incarnation in 2..=20 {
            history.note(vec![incarnation as u8]);
            history = begun(history.lineage().clone(), incarnation, &[]);
        }
        assert_eq!(asked(&mut history, 0, Some(ReplicatedIndex { incarnation: 2, count: 1 })), Next::All);
        assert!(history.lineage().covers(ReplicatedIndex { incarnation: 19, count: 18 }));
        assert!(!history.lineage().covers(ReplicatedIndex { incarnation: 19, count: 20 }));
    }

    fn record(offset: u32, len: u32) -> (LogPosition, u32) {
        (LogPosition { segment: 3, offset }, len)
    }

    fn records(count: u64, offsets: &[(u32, u32)]) -> Next<(LogPosition, u32)> {
        let entries = offsets.iter().map(|(offset, len)| record(*offset, *len)).collect();
        Next::Entries { have: ReplicatedIndex { incarnation: 7, count }, entries }
    }

    #[test]
    fn records_are_handed_again_until_they_are_said_to_be_there() {
        let mut backlog = Records::begin(7, [record(0, 10)], at(0));
        assert!(!backlog.is_silent(at(4)) && backlog.is_silent(at(5)), "nobody has asked");
        assert_eq!(asked(&mut backlog, 1, None), records(1, &[(0, 10)]));
        assert!(!backlog.is_silent(at(5)) && backlog.is_silent(at(6)));
        backlog.note(record(100, 20));
        assert_eq!((backlog.kept_bytes(), backlog.has(1)), (30, false));
        assert_eq!(asked(&mut backlog, 1, None), records(2, &[(0, 10), (100, 20)]));
        let of_another = Some(ReplicatedIndex { incarnation: 6, count: 2 });
        assert_eq!(asked(&mut backlog, 2, of_another), records(2, &[(0, 10), (100, 20)]), "of another daemon");
        assert_eq!(asked(&mut backlog, 2, have(3)), records(2, &[(0, 10), (100, 20)]), "there are not so many");
        assert_eq!((backlog.kept_bytes(), backlog.has(1)), (30, false));
        assert_eq!(asked(&mut backlog, 3, have(1)), records(2, &[(100, 20)]));
        assert!(backlog.has(1) && !backlog.has(2));
        assert_eq!(asked(&mut backlog, 3, None), records(2, &[(100, 20)]), "what was there is not kept");
        assert_eq!(asked(&mut backlog, 3, have(2)), records(2, &[]));
        assert_eq!((backlog.kept_bytes(), backlog.kept().count()), (0, 0));
    }

    #[test]
    fn an_answer_with_records_has_its_limits() {
        let mut backlog = Records::begin(7, (0..10).map(|index| record(index, 1 << 20)), at(0));
        let Next::Entries { have, entries } = asked(&mut backlog, 0, None) else { panic!("all are kept") };
        assert_eq!((have.count, entries.len()), (4, 4));
        assert!(backlog.is_due());
        let _ = asked(&mut backlog, 0, Some(have));
        assert!(backlog.has(4) && !backlog.has(5));
        let mut backlog = Records::begin(7, (0..2000).map(|index| record(index, 1)), at(0));
        let Next::Entries { entries, .. } = asked(&mut backlog, 0, None) else { panic!("all are kept") };
        assert_eq!(entries.len(), CONTENTS_PARTS_MAX);
    }

    /// A partner that was silent is waited for as soon as it asks, however much it lacks.
    #[test]
    fn a_partner_that_asks_again_is_waited_for() {
        let mut backlog = Records::begin(7, [record(0, 10), record(10, 10)], at(0));
        assert!(backlog.is_silent(at(5)));
        let _ = asked(&mut backlog, 6, None);
        assert!(!backlog.is_silent(at(6)) && !backlog.has(2));
    }
}
