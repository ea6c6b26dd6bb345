//! What the owner keeps for the tree's second home: the changes of lately, and how far the other is.
//!
//! The second home asks for what comes after what it has written down, so each question says what is safe. Where it has
//! fallen too far behind it gets the tree instead. Time is the caller's.
//!
//! Who changes a name does not wait for it; `fsync` does, and whatever is not to be undone (landing, giving room back). Where the second
//! home says nothing the owner goes on without it, once those know who might let it take the tree over (`Tenure`), until it has
//! everything again.

use std::collections::VecDeque;
use std::time::Duration;

use forebay_types::Time;
use forebay_wire::write_message::Have;

/// Bytes of changes that are kept for a second home that is behind.
const KEPT_BYTES_MAX: usize = 16 << 20;

/// Bytes of changes that one answer has.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// A second home that has said nothing for so long is not waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// See the module.
#[derive(Debug)]
pub struct History {
    /// Tells it from others.
    line: u64,
    /// The newest changes, encoded.
    recent: VecDeque<Vec<u8>>,
    recent_bytes: usize,
    /// How many there were ever.
    count: u64,
    follower: Option<Follower>,
    /// Until then it is waited for though it has not said anything.
    awaited_until: Time,
    /// It is not waited for.
    is_alone: bool,
    /// Somebody waits until the follower has so many.
    wanted: u64,
}

/// How far the second home is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Follower {
    /// The changes that it has written down.
    pub have: u64,
    /// When it said so.
    pub heard: Time,
}

/// What it is sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Sent {
    /// It has everything.
    Nothing,
    /// These come next.
    Changes(Vec<Vec<u8>>),
    /// The tree.
    Tree,
}

impl History {
    /// One that nothing has happened in, and whose follower is to come. `line` is random.
    #[must_use]
    pub fn new(line: u64, now: Time) -> Self {
        let awaited_until = now.after(PATIENCE);
        Self {
            line,
            recent: VecDeque::new(),
            recent_bytes: 0,
            count: 0,
            follower: None,
            awaited_until,
            is_alone: false,
            wanted: 0,
        }
    }

    /// Something has happened.
    pub fn note(&mut self, change: Vec<u8>) {
        self.count += 1;
        self.recent_bytes += change.len();
        self.recent.push_back(change);
        while self.recent_bytes > KEPT_BYTES_MAX {
            let Some(oldest) = self.recent.pop_front() else { break };
            self.recent_bytes -= oldest.len();
        }
    }

    /// What the owner has.
    #[must_use]
    pub fn have(&self) -> Have {
        Have { line: self.line, count: self.count }
    }

    /// The follower says what it has.
    pub fn heard(&mut self, now: Time, have: Option<Have>) {
        let have = have.filter(|have| have.line == self.line && have.count <= self.count);
        self.follower = have.map(|have| Follower { have: have.count, heard: now });
        self.is_alone &= self.follower.is_none_or(|follower| follower.have < self.count);
    }

    /// What the follower is to be sent.
    #[must_use]
    pub fn sent(&self) -> Sent {
        let Some(Follower { have, .. }) = self.follower else { return Sent::Tree };
        let behind = (self.count - have) as usize;
        match self.recent.len().checked_sub(behind) {
            None => Sent::Tree,
            Some(from) if from == self.recent.len() => Sent::Nothing,
            Some(from) => {
                let mut bytes = 0;
                let fits = |change: &&Vec<u8>| {
                    let is_first = bytes == 0;
                    bytes += change.len();
                    is_first || bytes <= ANSWER_BYTES_MAX
                };
                Sent::Changes(self.recent.iter().skip(from).take_while(fits).cloned().collect())
            }
        }
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
        let has_it = self.follower.is_some_and(|follower| follower.have >= count);
        has_it || (!self.is_followed(now) && alone_is_known)
    }

    /// As much as the follower has.
    #[must_use]
    pub fn safe(&self) -> Option<Have> {
        Some(Have { line: self.line, count: self.follower?.have })
    }

    /// Somebody waits for `is_safe`.
    pub fn want(&mut self, count: u64) {
        self.wanted = self.wanted.max(count);
    }

    /// Whether somebody waits for what the follower does not have.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        self.follower.map_or(0, |follower| follower.have) < self.wanted
    }

    /// How far the follower is, if there is one that answers.
    #[must_use]
    pub fn follower(&self, now: Time) -> Option<Follower> {
        self.follower.filter(|follower| now.since(follower.heard) < PATIENCE)
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

    #[test]
    fn who_follows_gets_what_he_does_not_have_and_is_waited_for() {
        let mut history = History::new(7, at(0));
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
        assert_eq!(asked(&mut history, 1, have(1)), Sent::Changes(vec![vec![2], vec![3]]));
        assert!(!history.is_safe(at(1), 2, true));
        assert_eq!(asked(&mut history, 1, have(2)), Sent::Changes(vec![vec![3]]));
        assert!(history.is_safe(at(1), 2, true) && !history.is_safe(at(1), 3, true) && !history.is_wanted());
        assert_eq!((history.follower(at(6)), history.follower(at(2)).map(|follower| follower.have)), (None, Some(2)));
        assert_eq!(history.safe(), have(2));
    }

    #[test]
    fn who_says_nothing_is_not_waited_for_once_that_is_known_until_he_has_everything() {
        let mut history = History::new(7, at(0));
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
        let mut history = History::new(7, at(0));
        for _ in 0..20 {
            history.note(vec![0; 1 << 20]);
        }
        assert_eq!(asked(&mut history, 0, have(0)), Sent::Tree);
        assert_eq!(asked(&mut history, 0, have(21)), Sent::Tree);
        assert_eq!(asked(&mut history, 0, Some(Have { line: 8, count: 20 })), Sent::Tree);
        let Sent::Changes(changes) = asked(&mut history, 0, have(10)) else { panic!("they are kept") };
        assert_eq!(changes.len(), 1, "an answer has its limit");
    }
}
