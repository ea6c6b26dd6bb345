//! When a daemon that died is started again, and when no more.
//!
//! A daemon is restarted immediately as a rule: programs wait. If daemons die repeatedly, they are started more slowly,
//! so that a defect which every daemon meets does not use up a processor. After too many deaths the keeper gives up,
//! because an error that programs see is better than a view that never answers.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Daemons that a keeper starts within `RESTARTS_WINDOW` before it gives up: one that dies repeatedly is of no use, and
/// programs must learn it within a minute.
const RESTARTS_MAX: usize = 80;

/// The time in which deaths of daemons are counted together.
const RESTARTS_WINDOW: Duration = Duration::from_secs(60);

/// Deaths within `RESTARTS_WINDOW` that are followed by a start at once; a daemon that dies as often has a defect that
/// the next one meets too.
const RESTARTS_AT_ONCE: usize = 60;

/// How long a keeper waits before it starts one more daemon after that.
const RESTARTS_PAUSE: Duration = Duration::from_millis(500);

/// Daemons in a row that die before they serve, after which a keeper gives up: what keeps one from starting (a lost
/// export, a broken program) keeps all.
const RESTARTS_FAILED_MAX: u32 = 5;

/// The deaths of late.
#[derive(Default, Debug)]
pub struct Restarts {
    /// How many there were in all.
    pub count: u32,
    recent: VecDeque<Instant>,
    /// Daemons in a row that died before they served.
    failed_starts: u32,
}

/// The reaction to a death.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum VoteReply {
    /// Start another after that time.
    After(Duration),
    /// Start none any more.
    GiveUp(String),
}

impl Restarts {
    /// A daemon serves.
    pub fn served(&mut self) {
        self.failed_starts = 0;
    }

    /// A daemon died at `now`, after it had served or before.
    pub fn died(&mut self, now: Instant, had_served: bool) -> VoteReply {
        self.count += 1;
        self.failed_starts = if had_served { 0 } else { self.failed_starts + 1 };
        while self.recent.front().is_some_and(|then| now.duration_since(*then) >= RESTARTS_WINDOW) {
            self.recent.pop_front();
        }
        self.recent.push_back(now);
        let recent = self.recent.len();
        if self.failed_starts >= RESTARTS_FAILED_MAX {
            return VoteReply::GiveUp(format!("{} daemons in a row died before they served", self.failed_starts));
        }
        if recent > RESTARTS_MAX {
            let window = RESTARTS_WINDOW;
            return VoteReply::GiveUp(format!("{recent} daemons died within {window:?}"));
        }
        let is_first = recent <= RESTARTS_AT_ONCE && self.failed_starts == 0;
        VoteReply::After(if is_first { Duration::ZERO } else { RESTARTS_PAUSE })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_deaths_cost_no_time_and_many_cost_the_view() {
        let (mut restarts, now) = (Restarts::default(), Instant::now());
        let verdicts: Vec<VoteReply> = (0..=RESTARTS_MAX).map(|_| restarts.died(now, true)).collect();
        let at_once = verdicts.iter().filter(|verdict| **verdict == VoteReply::After(Duration::ZERO)).count();
        assert_eq!(at_once, RESTARTS_AT_ONCE);
        assert_eq!(verdicts[RESTARTS_MAX - 1], VoteReply::After(RESTARTS_PAUSE));
        assert!(matches!(verdicts.last(), Some(VoteReply::GiveUp(_))));
    }

    #[test]
    fn deaths_of_long_ago_are_forgotten() {
        let (mut restarts, mut now) = (Restarts::default(), Instant::now());
        for _ in 0..4 * RESTARTS_MAX {
            now += RESTARTS_WINDOW / u32::try_from(RESTARTS_AT_ONCE).unwrap();
            assert_eq!(restarts.died(now, true), VoteReply::After(Duration::ZERO));
        }
        assert_eq!(restarts.count as usize, 4 * RESTARTS_MAX);
    }

    #[test]
    fn a_daemon_that_cannot_start_is_given_up_soon() {
        let (mut restarts, now) = (Restarts::default(), Instant::now());
        for _ in 1..RESTARTS_FAILED_MAX {
            assert_eq!(restarts.died(now, false), VoteReply::After(RESTARTS_PAUSE));
        }
        restarts.served();
        assert!(matches!(restarts.died(now, false), VoteReply::After(_)));
        (2..RESTARTS_FAILED_MAX).for_each(|_| drop(restarts.died(now, false)));
        assert!(matches!(restarts.died(now, false), VoteReply::GiveUp(_)));
    }
}
