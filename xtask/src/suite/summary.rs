//! The result of a run of tests: counts, those that failed and were skipped, and how long each took.
//!
//! A test that cannot run here (no root, no /dev/fuse, a package missing) prints `skipped: reason` and returns; the harness
//! counts it as passed, and hides what it printed. Skipped ones are taken out of the passed ones here, and named.

use std::time::Duration;

use super::build::Program;
use super::programs::full_name;
use super::running::Done;
use crate::progress::{Ended, Outcome};

/// So many of the slowest tests are listed.
const SLOWEST: usize = 20;

/// So many tests that did not run are named of each program.
const UNRUN_NAMED: usize = 5;

/// Results so far.
#[derive(Default)]
pub struct Summary {
    pub passed: usize,
    pub failed: Vec<String>,
    pub skipped: Vec<String>,
    pub ignored: usize,
    pub took: Vec<(Duration, String)>,
    /// A signal has asked for the end: that tests have not ended is no failure of theirs.
    pub is_ending: bool,
}

impl Summary {
    /// Takes what a batch has come to, and returns what is to be shown of it now.
    pub fn take(&mut self, done: &Done, program: &Program) -> String {
        let mut failed: Vec<String> = Vec::new();
        let printed = String::from_utf8_lossy(&done.printed);
        let skipped = skipped(&printed);
        let is_of_batch = |ended: &&Ended| done.batch.tests.is_empty() || done.batch.tests.contains(&ended.name);
        let all_ended: Vec<&Ended> = done.progress.ended().iter().filter(is_of_batch).collect();
        for ended in &all_ended {
            let name = full_name(program, &ended.name);
            let skip = skipped.iter().find(|(test, _)| *test == ended.name);
            match (ended.outcome, skip) {
                (Outcome::Passed, Some((_, reason))) => self.skipped.push(format!("{name}: {reason}")),
                (Outcome::Passed, None) => self.passed += 1,
                (Outcome::Ignored, _) => self.ignored += 1,
                (Outcome::Failed, _) => failed.push(name.clone()),
            }
            self.took.push((ended.took, name));
        }
        let ended = |test: &&String| all_ended.iter().any(|ended| ended.name == **test);
        let unrun: Vec<&str> = done.batch.tests.iter().filter(|test| !ended(test)).map(String::as_str).collect();
        let is_bad = !unrun.is_empty() || (!done.status.success() && failed.is_empty());
        if is_bad && !self.is_ending {
            failed.push(died(program, done, &unrun));
        } else if !(self.is_ending || program.lists_no_tests() || agrees(&printed, &all_ended)) {
            failed.push(format!("{}: its last line does not say the same as its tests' lines", program.name));
        }
        let shown = if failed.is_empty() { String::new() } else { text_of(done, &printed) };
        self.failed.append(&mut failed);
        shown
    }

    /// Names what was skipped, what failed and what took longest, and prints the line that everything else can be read from.
    pub fn finish(mut self) -> bool {
        self.took.sort();
        println!("The slowest tests:");
        for (took, name) in self.took.iter().rev().take(SLOWEST) {
            println!("{:8.2} s  {name}", took.as_secs_f64());
        }
        for skipped in &self.skipped {
            println!("skipped {skipped}");
        }
        for failed in &self.failed {
            println!("failed  {failed}");
        }
        println!("{}", self.line());
        self.failed.is_empty()
    }

    fn line(&self) -> String {
        let skipped = self.skipped.len() + self.ignored;
        format!("{} passed, {} failed, {skipped} skipped", self.passed, self.failed.len())
    }
}

/// Whether the harness counts, in its last line, the outcomes read of each test. Output of tests to the same place may look like an
/// outcome of theirs, and a test may end its program.
fn agrees(printed: &str, ended: &[&Ended]) -> bool {
    let last = printed.lines().rev().find_map(|line| line.strip_prefix("test result: "));
    let counted = |what: &str| {
        let words: Vec<&str> = last?.split([' ', ';']).filter(|word| !word.is_empty()).collect();
        let at = words.iter().position(|word| *word == what)?;
        words.get(at.checked_sub(1)?)?.parse::<usize>().ok()
    };
    let outcomes = [(Outcome::Passed, "passed"), (Outcome::Failed, "failed"), (Outcome::Ignored, "ignored")];
    let read = |outcome| ended.iter().filter(|ended| ended.outcome == outcome).count();
    outcomes.into_iter().all(|(outcome, what)| counted(what) == Some(read(outcome)))
}

/// That a program ended before all its tests had, or badly though none had failed.
fn died(program: &Program, done: &Done, unrun: &[&str]) -> String {
    let named = unrun.iter().take(UNRUN_NAMED).copied().collect::<Vec<_>>().join(", ");
    let more = if unrun.len() > UNRUN_NAMED { ", ..." } else { "" };
    let (name, status, count) = (&program.name, done.status, unrun.len());
    format!("{name}: its process ended ({status}) and {count} tests have not ended: {named}{more}")
}

/// The output of a program with failures, without the tests that passed and their output.
fn text_of(done: &Done, printed: &str) -> String {
    let mut shown = String::new();
    let mut is_hidden = false;
    for line in printed.lines() {
        match line {
            "successes:" => is_hidden = true,
            "failures:" => is_hidden = false,
            _ if line.starts_with("test result: ") => is_hidden = false,
            _ => {}
        }
        if !is_hidden && !line.ends_with(" ... ok") {
            shown.push_str(line);
            shown.push('\n');
        }
    }
    if !done.beside.is_empty() {
        shown.push_str("Printed past the test harness:\n");
        shown.push_str(&String::from_utf8_lossy(&done.beside));
    }
    shown
}

/// The tests that say that they were skipped, with the first reason of each.
fn skipped(printed: &str) -> Vec<(&str, &str)> {
    let mut skipped: Vec<(&str, &str)> = Vec::new();
    let mut test = None;
    for line in printed.lines() {
        match line {
            "successes:" => test = Some(""),
            "failures:" => test = None,
            _ => {}
        }
        let Some(name) = &mut test else { continue };
        if let Some(next) = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----")) {
            *name = next;
        } else if let Some(reason) = line.strip_prefix("skipped: ")
            && !skipped.iter().any(|(known, _)| known == name)
        {
            skipped.push((name, reason));
        }
    }
    skipped
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::path::PathBuf;
    use std::process::ExitStatus;
    use std::time::Instant;

    use super::super::groups::Group;
    use super::super::schedule::Batch;
    use super::*;
    use crate::progress::Progress;

    const OUTPUT: &str = "\
running 4 tests
test mount ... ok
test plain ... ok
test other ... ignored
test wrong ... FAILED

successes:

---- mount stdout ----
skipped: no /dev/fuse
skipped: no /dev/fuse

---- plain stdout ----
chatter

successes:
    mount
    plain

failures:

---- wrong stdout ----
skipped: never mind
the reason

failures:
    wrong

test result: FAILED. 2 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s
";

    fn program() -> Program {
        Program { name: "p".to_owned(), executable: PathBuf::new(), arguments: vec![], directory: PathBuf::new() }
    }

    fn done(printed: &str, tests: &[&str], code: i32) -> Done {
        let now = Instant::now();
        let mut progress = Progress::new(now);
        progress.take(printed.as_bytes(), now);
        let tests = tests.iter().map(|&test| test.to_owned()).collect();
        let batch = Batch { program: 0, tests, group: Group::Computes, expected_ms: 0 };
        let status = ExitStatus::from_raw(code << 8);
        Done {
            number: 0,
            batch,
            status,
            printed: printed.into(),
            beside: b"noise".to_vec(),
            progress,
            took: Duration::ZERO,
        }
    }

    #[test]
    fn skipped_tests_are_taken_out_of_the_passed_ones() {
        let mut summary = Summary::default();
        let shown = summary.take(&done(OUTPUT, &["mount", "plain", "other", "wrong"], 101), &program());
        assert_eq!(summary.line(), "1 passed, 1 failed, 2 skipped");
        assert_eq!(
            (&summary.skipped[..], &summary.failed[..]),
            (&["p::mount: no /dev/fuse".to_owned()][..], &["p::wrong".to_owned()][..])
        );
        assert!(
            shown.contains("the reason") && shown.contains("test wrong ... FAILED") && shown.contains("noise"),
            "{shown}"
        );
        assert!(!shown.contains("chatter") && !shown.contains("test plain ... ok"), "{shown}");
    }

    #[test]
    fn a_death_without_a_word_is_a_failure() {
        const GOOD: &str =
            "running 1 test\ntest one ... ok\n\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured\n";
        let mut summary = Summary::default();
        assert!(summary.take(&done(GOOD, &["one"], 0), &program()).is_empty());
        assert!(summary.failed.is_empty());
        let _ = summary.take(&done("running 2 tests\ntest one ... ok\ntest two ... ", &["one", "two"], 1), &program());
        assert!(summary.failed[0].contains("1 tests have not ended: two"), "{:?}", summary.failed);
        let _ = summary.take(&done("running 1 test\ntest one ... ok\n", &["one"], 1), &program());
        assert_eq!((summary.passed, summary.failed.len()), (3, 2));
    }

    /// Output of a test's own child may look like an outcome; the harness knows better.
    #[test]
    fn the_last_line_tells_an_outcome_from_its_likes() {
        let failed = |printed: &str| {
            let mut summary = Summary::default();
            let _ = summary.take(&done(printed, &["one"], 0), &program());
            summary.failed
        };
        let forged = "test one ... \nok\nFAILED\n\ntest result: FAILED. 0 passed; 1 failed; 0 ignored\n";
        assert!(failed(forged)[0].contains("last line"), "{:?}", failed(forged));
        assert!(failed("test one ... ok\n")[0].contains("last line"), "it ended before the harness");
    }

    #[test]
    fn a_test_that_was_never_run_is_a_failure() {
        let mut summary = Summary::default();
        let _ = summary.take(&done("running 0 tests\n\ntest result: ok. 0 passed\n", &["renamed"], 0), &program());
        assert_eq!(summary.line(), "0 passed, 1 failed, 0 skipped");
    }
}
