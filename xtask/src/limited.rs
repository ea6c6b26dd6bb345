//! `cargo xtask limited PROGRAM [ARGUMENT]...`: runs a program of tests, and ends it when one of them does not come to an
//! end. `suite` has cargo start every program of tests by it.
//!
//! Which test runs is taken from what the test harness prints: with one thread the name of each before it starts, with
//! several those that have run for a minute. Tests of a program may wait for each other's turn, so the time of a test
//! counts from the last end of another one, too.
//!
//! What tests start ends with them: whatever loses its parent becomes a child of this process, so all of it is found. What
//! a test holds by a pipe is given back when its process ends, keepers unmount on `SIGTERM`, and the rest is killed.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::process::{ChildStdout, Command, ExitCode, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, set_child_subreaper, wait};

/// How long a test may take: several times as long as the longest on a machine that does nothing else.
const LIMIT: Duration = Duration::from_secs(600);

/// Another time limit, in seconds. Below a minute it holds only where tests run one after the other.
const LIMIT_VARIABLE: &str = "FOREBAY_TEST_LIMIT";

/// How long nothing may be printed beyond the time limit: tests that run at once are not named before a minute is over.
const UNNAMED: Duration = Duration::from_secs(60);

/// How often is looked for a test that takes too long.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// How long what was printed may be on its way when the program has ended. What it started may hold the pipe for ever.
const PRINTED: Duration = Duration::from_secs(2);

/// How long what a test has started may take to end by itself when the test has, on `SIGTERM`, and when it is killed. A
/// test bed unmounts its file systems.
const ENDS: [(Option<Signal>, Duration); 3] = [
    (None, Duration::from_secs(10)),
    (Some(Signal::TERM), Duration::from_secs(5)),
    (Some(Signal::KILL), Duration::from_secs(5)),
];

/// Runs the program to its end, or until a test of it takes too long.
pub fn run(words: &[&str]) -> Result<ExitCode, String> {
    let (program, arguments) = words.split_first().ok_or("limited: no program is named")?;
    let limit = match std::env::var(LIMIT_VARIABLE) {
        Ok(seconds) => seconds.parse().map(Duration::from_secs).map_err(|_| format!("{LIMIT_VARIABLE}={seconds}"))?,
        Err(_) => LIMIT,
    };
    set_child_subreaper(Some(rustix::process::getpid())).map_err(|error| format!("prctl: {error}"))?;
    let mut child = Command::new(program);
    let mut child =
        child.args(arguments).stdout(Stdio::piped()).spawn().map_err(|error| format!("{program}: {error}"))?;
    let progress = Arc::new(Mutex::new(Progress::new(Instant::now())));
    let printed = child.stdout.take().map(|output| pass_on(output, Arc::clone(&progress)));
    let tests = Pid::from_child(&child);
    let ended = reap(tests);
    let late = loop {
        match ended.recv_timeout(LOOK_EVERY) {
            Ok(code) => {
                let _ = printed.map(|printed| printed.recv_timeout(PRINTED));
                return Ok(ExitCode::from(code));
            }
            Err(RecvTimeoutError::Disconnected) => return Err(format!("{program} is no child any more")),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if let Some(late) = lock(&progress).late(Instant::now(), limit) {
            break late;
        }
    };
    let started = descendants().into_iter().filter(|process| process.pid != tests).collect();
    let left = end_all(tests);
    tell(program, limit, &lock(&progress), &late, started, left);
    Ok(ExitCode::FAILURE)
}

fn lock(progress: &Mutex<Progress>) -> MutexGuard<'_, Progress> {
    progress.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Passes on what the tests print, and notes which of them run. Tells when that is over.
fn pass_on(mut output: ChildStdout, progress: Arc<Mutex<Progress>>) -> Receiver<()> {
    let (over, is_over) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = [0; 8192];
        while let Ok(count @ 1..) = output.read(&mut bytes) {
            let mut own = io::stdout().lock();
            let _ = own.write_all(&bytes[..count]).and_then(|()| own.flush());
            lock(&progress).take(&bytes[..count], Instant::now());
        }
        let _ = over.send(());
    });
    is_over
}

/// Waits for all children, those that others have left too, and tells the exit status of this one.
fn reap(tests: Pid) -> Receiver<u8> {
    let (ended, has_ended) = mpsc::channel();
    thread::spawn(move || {
        loop {
            match wait(WaitOptions::empty()) {
                Ok(Some((pid, status))) if pid == tests => {
                    let by_signal = || status.terminating_signal().map_or(1, |signal| 128 + signal);
                    let _ = ended.send(status.exit_status().unwrap_or_else(by_signal) as u8);
                }
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
        }
    });
    has_ended
}

/// What the test harness has told so far.
struct Progress {
    /// Tests that are known to run, and since when.
    running: BTreeMap<String, Instant>,
    passed: usize,
    failed: usize,
    ignored: usize,
    /// When the last test ended.
    last_end: Instant,
    /// When anything was printed.
    last_print: Instant,
    line: Vec<u8>,
}

impl Progress {
    fn new(now: Instant) -> Self {
        let running = BTreeMap::new();
        Self { running, passed: 0, failed: 0, ignored: 0, last_end: now, last_print: now, line: Vec::new() }
    }

    fn take(&mut self, bytes: &[u8], now: Instant) {
        self.last_print = now;
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            let text = String::from_utf8_lossy(&self.line).into_owned();
            if let Some(test) = text.strip_prefix("test ") {
                self.take_test(test, now);
            }
            if text.ends_with('\n') {
                self.line.clear();
            }
        }
    }

    /// `NAME ... `, `NAME ... ok`, or `NAME has been running for over 60 seconds`.
    fn take_test(&mut self, text: &str, now: Instant) {
        if let Some((name, rest)) = text.split_once(" has been running for over ") {
            let seconds = rest.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0);
            let since = now.checked_sub(Duration::from_secs(seconds)).unwrap_or(now);
            self.running.insert(name.to_owned(), since);
        } else if let Some((name, outcome)) = text.split_once(" ... ") {
            let name = name.trim_end_matches(" - should panic");
            let count = match outcome.trim_end() {
                "" => {
                    self.running.entry(name.to_owned()).or_insert(now);
                    return;
                }
                _ if !outcome.ends_with('\n') => return,
                "ok" => &mut self.passed,
                text if text.starts_with("ignored") => &mut self.ignored,
                _ => &mut self.failed,
            };
            *count += 1;
            self.running.remove(name);
            self.last_end = now;
        }
    }

    /// The tests that take too long; none of them if nobody says which.
    fn late(&self, now: Instant, limit: Duration) -> Option<Vec<String>> {
        let is_late = |since: &Instant| now.duration_since(self.last_end.max(*since)) >= limit;
        let late = self.running.iter().filter(|(_, since)| is_late(since)).map(|(name, _)| name.clone());
        let late: Vec<String> = late.collect();
        let is_silent = now.duration_since(self.last_print) >= limit + UNNAMED;
        (!late.is_empty() || is_silent).then_some(late)
    }
}

/// A process below this one.
struct Process {
    pid: Pid,
    command: String,
}

/// All processes below this one that have not ended.
fn descendants() -> Vec<Process> {
    let parent = |pid: i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let mut fields = stat.rsplit_once(") ")?.1.split(' ');
        let is_dead = matches!(fields.next()?, "Z" | "X");
        Some((pid, (fields.next()?.parse::<i32>().ok()?, is_dead)))
    };
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    let parents: BTreeMap<i32, (i32, bool)> =
        pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter_map(parent).collect();
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let is_below = |pid: i32| {
        let mut line = std::iter::successors(Some(pid), |pid| parents.get(pid).map(|(parent, _)| *parent));
        line.any(|pid| pid == own)
    };
    let alive = parents.iter().filter(|(_, (_, is_dead))| !is_dead).map(|(pid, _)| *pid);
    alive.filter(|pid| *pid != own && is_below(*pid)).filter_map(|pid| Some(process(Pid::from_raw(pid)?))).collect()
}

fn process(pid: Pid) -> Process {
    let raw = pid.as_raw_nonzero();
    // Not the whole command line, which cannot be read of a process that waits for a file system that hangs.
    let command = fs::read_to_string(format!("/proc/{raw}/comm")).unwrap_or_default();
    Process { pid, command: command.trim_end().to_owned() }
}

/// Ends the tests and all that they have started. What is left all the same.
fn end_all(tests: Pid) -> Vec<Process> {
    let _ = kill_process(tests, Signal::KILL);
    for (signal, time) in ENDS {
        let until = Instant::now() + time;
        if let Some(signal) = signal {
            for process in descendants() {
                let _ = kill_process(process.pid, signal);
                // One that is stopped takes no other signal.
                let _ = kill_process(process.pid, Signal::CONT);
            }
        }
        while Instant::now() < until {
            if descendants().is_empty() {
                return Vec::new();
            }
            thread::sleep(LOOK_EVERY);
        }
    }
    descendants()
}

/// Says so as the test harness says of a test that failed.
fn tell(
    program: &str,
    limit: Duration,
    progress: &Progress,
    late: &[String],
    started: Vec<Process>,
    left: Vec<Process>,
) {
    let shown = |processes: Vec<Process>| {
        let one = |process: &Process| format!("{} ({})", process.command, process.pid.as_raw_nonzero());
        processes.iter().map(one).collect::<Vec<_>>().join(", ")
    };
    println!();
    for name in late {
        println!("test {name} ... FAILED: it has not ended within {} s, and {program} was ended", limit.as_secs());
    }
    if late.is_empty() {
        println!("{program} has printed nothing for {} s and was ended", (limit + UNNAMED).as_secs());
    }
    if !started.is_empty() {
        println!("what it had started was ended too: {}", shown(started));
    }
    if !left.is_empty() {
        println!("what could not be ended: {}", shown(left));
    }
    println!("tests of it that had not begun were not run");
    let (passed, failed, ignored) = (progress.passed, progress.failed + late.len().max(1), progress.ignored);
    println!("test result: FAILED. {passed} passed; {failed} failed; {ignored} ignored; a time limit was passed");
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
        assert_eq!((progress.passed, progress.failed), (2, 0));
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
        assert_eq!((progress.passed, progress.failed, progress.ignored), (0, 1, 1));
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
        assert_eq!((late(&progress, start + 10 * MINUTE), progress.passed), (None, 1));
    }

    #[test]
    fn a_program_that_says_nothing_is_late() {
        let start = Instant::now();
        let mut progress = Progress::new(start);
        progress.take(b"running 1 test\n", start);
        assert_eq!(late(&progress, start + 10 * MINUTE), None);
        assert_eq!(late(&progress, start + 11 * MINUTE), Some(vec![]));
    }
}
