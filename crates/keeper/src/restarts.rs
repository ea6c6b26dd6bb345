//! When a daemon that died is started again, and when no more.
//!
//! At once as a rule: programs wait. A daemon that dies again and again is started more slowly, so that a defect which
//! every daemon meets does not use up a processor; and after too many deaths the keeper gives up, because an error that
//! programs see is better than a view that never answers.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use forebay_types::limits;

/// The deaths of late.
#[derive(Default, Debug)]
pub struct Restarts {
    /// How many there were in all.
    pub count: u32,
    recent: VecDeque<Instant>,
    /// Daemons in a row that died before they served.
    failed_starts: u32,
}

/// What to do about a death.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
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
    pub fn died(&mut self, now: Instant, had_served: bool) -> Verdict {
        self.count += 1;
        self.failed_starts = if had_served { 0 } else { self.failed_starts + 1 };
        while self.recent.front().is_some_and(|then| now.duration_since(*then) >= limits::RESTARTS_WINDOW) {
            self.recent.pop_front();
        }
        self.recent.push_back(now);
        let recent = self.recent.len();
        if self.failed_starts >= limits::RESTARTS_FAILED_MAX {
            return Verdict::GiveUp(format!("{} daemons in a row died before they served", self.failed_starts));
        }
        if recent > limits::RESTARTS_MAX {
            let window = limits::RESTARTS_WINDOW;
            return Verdict::GiveUp(format!("{recent} daemons died within {window:?}"));
        }
        let is_first = recent <= limits::RESTARTS_AT_ONCE && self.failed_starts == 0;
        Verdict::After(if is_first { Duration::ZERO } else { limits::RESTARTS_PAUSE })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_deaths_cost_no_time_and_many_cost_the_view() {
        let (mut restarts, now) = (Restarts::default(), Instant::now());
        let verdicts: Vec<Verdict> = (0..=limits::RESTARTS_MAX).map(|_| restarts.died(now, true)).collect();
        let at_once = verdicts.iter().filter(|verdict| **verdict == Verdict::After(Duration::ZERO)).count();
        assert_eq!(at_once, limits::RESTARTS_AT_ONCE);
        assert_eq!(verdicts[limits::RESTARTS_MAX - 1], Verdict::After(limits::RESTARTS_PAUSE));
        assert!(matches!(verdicts.last(), Some(Verdict::GiveUp(_))));
    }

    #[test]
    fn deaths_of_long_ago_are_forgotten() {
        let (mut restarts, mut now) = (Restarts::default(), Instant::now());
        for _ in 0..4 * limits::RESTARTS_MAX {
            now += limits::RESTARTS_WINDOW / u32::try_from(limits::RESTARTS_AT_ONCE).unwrap();
            assert_eq!(restarts.died(now, true), Verdict::After(Duration::ZERO));
        }
        assert_eq!(restarts.count as usize, 4 * limits::RESTARTS_MAX);
    }

    #[test]
    fn a_daemon_that_cannot_start_is_given_up_soon() {
        let (mut restarts, now) = (Restarts::default(), Instant::now());
        for _ in 1..limits::RESTARTS_FAILED_MAX {
            assert_eq!(restarts.died(now, false), Verdict::After(limits::RESTARTS_PAUSE));
        }
        restarts.served();
        assert!(matches!(restarts.died(now, false), Verdict::After(_)));
        (2..limits::RESTARTS_FAILED_MAX).for_each(|_| drop(restarts.died(now, false)));
        assert!(matches!(restarts.died(now, false), Verdict::GiveUp(_)));
    }
}
