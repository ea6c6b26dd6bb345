//! `cargo xtask test`: every test of the workspace, and one line at the end that says how it went.
//!
//! A test that cannot run here (no root, no /dev/fuse, a package missing) prints `skipped: reason` and returns; the
//! harness counts it as passed, and hides what it printed. This reads the harness's output, takes the skipped ones out
//! of the passed ones, and names them. The tests of commands need the command, those of MPI programs the Rust part of
//! the library: both are built first, and found by `FOREBAY_BIN` and beside it. A test that does not end is named and counts
//! as failed (`limited`).

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use crate::tree::root;

/// What a run of tests has come to so far.
#[derive(Default)]
struct Summary {
    passed: usize,
    failed: usize,
    skipped: Vec<String>,
    ignored: usize,
    /// The output of a passed test is being read, and this is its name.
    hidden: Option<String>,
}

/// Where random tests begin. A run is like the one before; who looks for more sets another.
const SEED: &str = "PROPTEST_RNG_SEED";

/// Builds the command, runs every test with `arguments` for cargo, prints the summary.
pub fn run(arguments: &[&str]) -> Result<bool, String> {
    let library = ["rustc", "--package", "forebay-mpiio", "--lib", "--crate-type", "staticlib"];
    for arguments in [&["build", "--package", "forebay"][..], &library] {
        if !cargo(arguments).status().map_err(|error| cannot_run(&error))?.success() {
            return Err(format!("`cargo {}` fails: the tests need what it builds", arguments.join(" ")));
        }
    }
    let runner = runner(&std::env::current_exe().map_err(|error| cannot_run(&error))?);
    let mut child = cargo(&["test", "--config", &runner, "--workspace", "--no-fail-fast"])
        .args(arguments)
        .args(["--", "--show-output"])
        .env("FOREBAY_BIN", target_directory().join("debug/forebay"))
        .env(SEED, std::env::var_os(SEED).unwrap_or_else(|| "1".into()))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| cannot_run(&error))?;
    let mut summary = Summary::default();
    for line in child.stdout.take().map(BufReader::new).into_iter().flat_map(|output| output.split(b'\n')) {
        let line = line.map_err(|error| format!("the tests' output cannot be read: {error}"))?;
        let line = String::from_utf8_lossy(&line);
        if summary.take(&line) {
            println!("{line}");
        }
    }
    let status = child.wait().map_err(|error| cannot_run(&error))?;
    Ok(summary.finish(status))
}

/// The setting by which cargo starts every program of tests within the time limit.
fn runner(xtask: &Path) -> String {
    let words = [xtask.to_string_lossy(), "limited".into()].map(|word| toml::Value::String(word.into_owned()));
    format!("target.'cfg(all())'.runner={}", toml::Value::Array(words.into()))
}

fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root());
    command
}

fn cannot_run(error: &std::io::Error) -> String {
    format!("cargo cannot be run: {error}")
}

/// This program lies in `TARGET/debug/`, wherever cargo was told to build.
fn target_directory() -> PathBuf {
    let own = std::env::current_exe().ok().and_then(|path| Some(path.parent()?.parent()?.to_owned()));
    own.unwrap_or_else(|| root().join("target"))
}

impl Summary {
    /// Reads a line of the harness and says whether it is worth showing.
    fn take(&mut self, line: &str) -> bool {
        if let Some(counts) = line.strip_prefix("test result: ") {
            self.hidden = None;
            self.passed += count(counts, "passed");
            self.failed += count(counts, "failed");
            self.ignored += count(counts, "ignored");
            return true;
        }
        match line {
            "successes:" => self.hidden = Some(String::new()),
            "failures:" => self.hidden = None,
            _ => {}
        }
        let Some(test) = &mut self.hidden else {
            return !line.ends_with(" ... ok");
        };
        if let Some(name) = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----")) {
            *test = name.to_owned();
        } else if let Some(reason) = line.strip_prefix("skipped: ") {
            let skipped = format!("{test}: {reason}");
            if !self.skipped.iter().any(|known| known.starts_with(&format!("{test}: "))) {
                self.skipped.push(skipped);
            }
        }
        false
    }

    /// Names the skipped tests and prints the line that everything else can be read from.
    fn finish(mut self, status: ExitStatus) -> bool {
        if !status.success() && self.failed == 0 {
            println!("cargo test ended with {status}, and no test says why: a test did not build, or its process died");
            self.failed = 1;
        }
        for skipped in &self.skipped {
            println!("skipped {skipped}");
        }
        println!("{}", self.line());
        self.failed == 0
    }

    fn line(&self) -> String {
        let passed = self.passed.saturating_sub(self.skipped.len());
        format!("{passed} passed, {} failed, {} skipped", self.failed, self.skipped.len() + self.ignored)
    }
}

/// The number before `what` in `ok. 3 passed; 0 failed; 1 ignored; ...`.
fn count(counts: &str, what: &str) -> usize {
    let number = |part: &str| part.strip_suffix(what)?.split_whitespace().next_back()?.parse().ok();
    counts.split(';').find_map(number).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
running 3 tests
test mount ... ok
test plain ... ok
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

test result: FAILED. 2 passed; 1 failed; 4 ignored; 0 measured; 0 filtered out; finished in 0.01s
test result: ok. 10 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s";

    #[test]
    fn counts_and_takes_skipped_out_of_passed() {
        let mut summary = Summary::default();
        let shown: Vec<_> = OUTPUT.lines().filter(|line| summary.take(line)).collect();
        assert_eq!(summary.line(), "11 passed, 1 failed, 5 skipped");
        assert_eq!(summary.skipped, ["mount: no /dev/fuse"]);
        assert!(shown.contains(&"the reason") && shown.contains(&"test wrong ... FAILED"), "{shown:?}");
        assert!(!shown.contains(&"chatter") && !shown.contains(&"test plain ... ok"), "{shown:?}");
    }

    #[test]
    fn a_death_without_a_word_is_a_failure() {
        use std::os::unix::process::ExitStatusExt;
        assert!(!Summary::default().finish(ExitStatus::from_raw(9)));
        assert!(Summary::default().finish(ExitStatus::from_raw(0)));
    }
}
