//! How far a program of tests is, by what the test harness prints.
//!
//! With one thread the harness prints each test's name before it starts, with several those that have run for a minute.
//! Tests of a program may wait for each other's turn, so the time of a test counts from the last end of another one, too.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long nothing may be printed beyond the time limit: tests that run at once are not named before a minute is over.
pub const UNNAMED: Duration = Duration::from_secs(60);

/// How a test ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    Passed,
    Failed,
    Ignored,
}

impl Outcome {
    /// Reads the outcome that the harness prints behind a test's name, to the end of the line.
    fn of(text: &str) -> Option<Self> {
        match text.strip_suffix('\n')? {
            "ok" => Some(Self::Passed),
            text if text.starts_with("FAILED") => Some(Self::Failed),
            text if text.starts_with("ignored") => Some(Self::Ignored),
            _ => None,
        }
    }
}

/// A test that has ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ended {
    pub name: String,
    pub outcome: Outcome,
    /// Since it began or another one ended, whichever was later.
    pub took: Duration,
}

/// Progress of a run, by the output of the test harness so far.
pub struct Progress {
    /// Tests that are known to run, and since when.
    running: BTreeMap<String, Instant>,
    ended: Vec<Ended>,
    /// When the last test ended.
    last_end: Instant,
    /// When anything was printed.
    last_print: Instant,
    line: Vec<u8>,
}

impl Progress {
    /// Of a program that starts now.
    pub fn new(now: Instant) -> Self {
        Self { running: BTreeMap::new(), ended: Vec::new(), last_end: now, last_print: now, line: Vec::new() }
    }

    /// Reads what was printed.
    pub fn take(&mut self, bytes: &[u8], now: Instant) {
        self.last_print = now;
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            let text = String::from_utf8_lossy(&self.line).into_owned();
            match text.strip_prefix("test ") {
                Some(test) => self.take_test(test, now),
                None => self.take_outcome(&text, now),
            }
            if text.ends_with('\n') {
                self.line.clear();
            }
        }
    }

    /// `NAME ... `, `NAME ... ok`, or `NAME has been running for over 60 seconds`. Output of a test's own child may come
    /// between a name and its outcome.
    fn take_test(&mut self, text: &str, now: Instant) {
        if let Some((name, rest)) = text.split_once(" has been running for over ") {
            let seconds = rest.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0);
            let since = now.checked_sub(Duration::from_secs(seconds)).unwrap_or(now);
            self.running.insert(name.to_owned(), since);
        } else if let Some((name, outcome)) = text.split_once(" ... ") {
            let name = name.trim_end_matches(" - should panic");
            match Outcome::of(outcome) {
                Some(outcome) => self.end(name, outcome, now),
                None => drop(self.running.entry(name.to_owned()).or_insert(now)),
            }
        }
    }

    /// An outcome on a line of its own is that of the one test that runs.
    fn take_outcome(&mut self, line: &str, now: Instant) {
        if let (Some(outcome), 1) = (Outcome::of(line), self.running.len())
            && let Some(name) = self.running.keys().next().cloned()
        {
            self.end(&name, outcome, now);
        }
    }

    fn end(&mut self, name: &str, outcome: Outcome, now: Instant) {
        let since = self.running.remove(name).map_or(self.last_end, |began| began.max(self.last_end));
        // A test's own child may have printed the same line.
        self.ended.retain(|ended| ended.name != name);
        self.ended.push(Ended { name: name.to_owned(), outcome, took: now.duration_since(since) });
        self.last_end = now;
    }

    /// The tests that have ended, in this order.
    pub fn ended(&self) -> &[Ended] {
        &self.ended
    }

    /// How many ended in this way.
    pub fn count(&self, outcome: Outcome) -> usize {
        self.ended.iter().filter(|ended| ended.outcome == outcome).count()
    }

    /// The tests that take too long; none of them if nobody says which.
    pub fn late(&self, now: Instant, limit: Duration) -> Option<Vec<String>> {
        let is_late = |since: &Instant| now.duration_since(self.last_end.max(*since)) >= limit;
        let late = self.running.iter().filter(|(_, since)| is_late(since)).map(|(name, _)| name.clone());
        let late: Vec<String> = late.collect();
        let is_silent = now.duration_since(self.last_print) >= limit + UNNAMED;
        (!late.is_empty() || is_silent).then_some(late)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const MINUTE: Duration = Duration::from_secs(60);

    fn late(progress: &Progress, now: Instant) -> Option<Vec<String>> {
        progress.late(now, 10 * MINUTE)
    }

    #[test]
    fn a_test_that_ends_in_time_is_not_late() {
        let start = Instant::now();
        let mut progress = Progress::new(start);
        progress.take(b"running 2 tests\ntest one ... ok\ntest two has been running", start + MINUTE);
        progress.take(b" for over 60 seconds\n", start + MINUTE);
        assert_eq!(late(&progress, start + 10 * MINUTE), None);
        progress.take(b"test two ... ok\n\ntest result: ok. 2 passed\n", start + 11 * MINUTE - SECOND);
        assert_eq!(late(&progress, start + 20 * MINUTE), None);
        assert_eq!((progress.count(Outcome::Passed), progress.count(Outcome::Failed)), (2, 0));
    }

    #[test]
    fn a_test_that_does_not_end_is_named() {
        let start = Instant::now();
        let mut progress = Progress::new(start);
        progress.take(b"running 3 tests\ntest one - should panic ... FAILED\n", start);
        progress.take(b"test two has been running for over 60 seconds\n", start + MINUTE);
        assert_eq!(late(&progress, start + 10 * MINUTE), Some(vec!["two".to_owned()]));
        progress.take(b"test three ... ignored, not here\n", start + 2 * MINUTE);
        assert_eq!(late(&progress, start + 11 * MINUTE), None, "it may have waited for the other");
        assert_eq!(late(&progress, start + 12 * MINUTE), Some(vec!["two".to_owned()]));
        let counts = [Outcome::Passed, Outcome::Failed, Outcome::Ignored].map(|outcome| progress.count(outcome));
        assert_eq!(counts, [0, 1, 1]);
    }

    /// With one thread.
    #[test]
    fn a_name_is_enough() {
        let start = Instant::now();
        let mut progress = Progress::new(start);
        progress.take(b"running 1 test\ntest on", start);
        progress.take(b"e ... ", start);
        assert_eq!(late(&progress, start + 10 * MINUTE), Some(vec!["one".to_owned()]));
        progress.take(b"o", start + MINUTE);
        progress.take(b"k\n", start + MINUTE);
        assert_eq!((late(&progress, start + 10 * MINUTE), progress.count(Outcome::Passed)), (None, 1));
    }

    /// With one thread, where the test starts a program of tests that prints to the same place.
    #[test]
    fn output_of_a_child_is_no_outcome() {
        let start = Instant::now();
        let mut progress = Progress::new(start);
        progress.take(b"test one ... some words\nrunning 1 test\n\ntest result: ok. 1 passed\n\n", start);
        assert!(progress.ended().is_empty());
        progress.take(b"ok\ntest two ... \nnoise\nFAILED\nok\n", start);
        let ended: Vec<_> = progress.ended().iter().map(|ended| (ended.name.as_str(), ended.outcome)).collect();
        assert_eq!(ended, [("one", Outcome::Passed), ("two", Outcome::Failed)]);
    }

    /// A test that runs its own program with itself as the only test.
    #[test]
    fn a_test_counts_once() {
        let start = Instant::now();
        let mut progress = Progress::new(start);
        progress.take(b"test one ... \nrunning 1 test\ntest one ... ok\n\ntest result: ok. 1 passed\n\nok\n", start);
        progress.take(b"test one ... FAILED\n", start);
        assert_eq!((progress.count(Outcome::Passed), progress.count(Outcome::Failed)), (0, 1));
    }

    #[test]
    fn a_program_that_says_nothing_is_late() {
        let start = Instant::now();
        let mut progress = Progress::new(start);
        progress.take(b"running 1 test\n", start);
        assert_eq!(late(&progress, start + 10 * MINUTE), None);
        assert_eq!(late(&progress, start + 11 * MINUTE), Some(vec![]));
    }

    #[test]
    fn the_time_of_a_test_begins_with_its_name_or_with_the_end_of_the_one_before() {
        let start = Instant::now();
        let mut progress = Progress::new(start);
        progress.take(b"test one ... ", start + SECOND);
        progress.take(b"ok\n", start + 3 * SECOND);
        progress.take(b"test two ... ok\n", start + 7 * SECOND);
        let took: Vec<_> = progress.ended().iter().map(|ended| (ended.name.as_str(), ended.took)).collect();
        assert_eq!(took, [("one", 2 * SECOND), ("two", 4 * SECOND)]);
    }
}
