//! `cargo xtask test [WORD...]`: every test of the workspace, or those whose names contain a word, and one line at the end
//! that says how it went.
//!
//! Each test is in a group (`xtask/tests.toml`): most of those that start daemons wait more than they compute, and run
//! several at a time; those that measure have the machine to themselves. A batch is what runs in one process
//! (`programs`); `schedule` says which is next, `running` starts it by `limited`, which ends a test that takes too long,
//! `summary` reads what came of it. The tests of commands find the command by `FOREBAY_BIN` and the library for MPI
//! programs beside it; both are built first (`build`). A signal ends what runs.

mod build;
mod groups;
mod programs;
mod quiet;
mod running;
mod schedule;
mod summary;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use rustix::process::umask;

use crate::limited::UMASK;
use crate::signals;
use crate::tree::root;
use build::Program;
use groups::Group;
use programs::Times;
use running::{Done, Running, Surroundings};
use schedule::Schedule;
use summary::Summary;

/// Where random tests begin. A run is like the one before; who looks for more sets another.
const SEED: &str = "PROPTEST_RNG_SEED";

/// Where temporary files go, and where they usually do.
const TEMPORARY: &str = "TMPDIR";
const USUAL: &str = "/tmp";

/// How often is looked for a signal.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// How often is said how far the run is.
const TELL_EVERY: Duration = Duration::from_secs(30);

/// So many of the running batches are named then.
const NAMED: usize = 3;

/// Runs the tests whose names contain one of `words`, all if there are none; whether none failed.
pub fn run(words: &[&str]) -> Result<bool, String> {
    let start = Instant::now();
    // Other users than this one run some of what is built.
    umask(UMASK.into());
    let programs = build::all()?;
    println!("Built {} programs of tests in {} s.", programs.len(), start.elapsed().as_secs());
    let times = Times::read(target_directory().join("test-times"));
    let batches = programs::batches(&programs, words, &times)?;
    if batches.is_empty() {
        return Err(format!("no test's name contains {}", words.join(" or ")));
    }
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let (sender, ended) = mpsc::channel();
    let suite = Suite {
        schedule: Schedule::new(batches, processors),
        surroundings: surroundings()?,
        programs,
        times,
        running: BTreeMap::new(),
        summary: Summary::default(),
        quiet: quiet::PATIENCE,
        started: 0,
        sender,
    };
    let asked = signals::flag().map_err(|error| format!("cannot watch for signals: {error}"))?;
    suite.run(&ended, &asked)
}

/// A run of tests.
struct Suite {
    programs: Vec<Program>,
    schedule: Schedule,
    surroundings: Surroundings,
    times: Times,
    running: BTreeMap<usize, Running>,
    summary: Summary,
    /// How long may still be waited for a quiet machine.
    quiet: Duration,
    started: usize,
    sender: Sender<Done>,
}

impl Suite {
    fn run(mut self, ended: &Receiver<Done>, asked: &Arc<AtomicBool>) -> Result<bool, String> {
        let (start, mut told) = (Instant::now(), Instant::now());
        loop {
            self.start_what_fits(asked);
            if self.running.is_empty() {
                break;
            }
            match ended.recv_timeout(LOOK_EVERY) {
                Ok(done) => self.take(&done),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err("the threads that follow the tests are gone".to_owned());
                }
            }
            if asked.load(Ordering::Relaxed) && !self.summary.is_ending {
                self.end();
            }
            if told.elapsed() >= TELL_EVERY {
                told = Instant::now();
                self.tell(start.elapsed());
            }
        }
        println!("Ran {} processes of tests in {} s.", self.started, start.elapsed().as_secs());
        self.times.write();
        let _ = std::fs::remove_dir(&self.surroundings.outputs);
        let is_ending = self.summary.is_ending;
        let is_good = self.summary.finish();
        if is_ending {
            Err("ended by a signal; the tests that had not begun were not run".to_owned())
        } else {
            Ok(is_good)
        }
    }

    fn start_what_fits(&mut self, asked: &AtomicBool) {
        while let Some(batch) = self.schedule.next() {
            let is_asked = || asked.load(Ordering::Relaxed);
            if batch.group == Group::Alone && !self.quiet.is_zero() && !quiet::wait(&mut self.quiet, is_asked) {
                if is_asked() {
                    return self.end();
                }
                println!("This machine does not become quiet: tests that measure run beside other work.");
            }
            let number = self.started;
            self.started += 1;
            let program = &self.programs[batch.program];
            let group = batch.group;
            match running::start(batch, number, program, &self.surroundings, self.sender.clone()) {
                Ok(running) => drop(self.running.insert(number, running)),
                Err(error) => {
                    self.schedule.ended(group);
                    self.summary.failed.push(error);
                }
            }
        }
    }

    fn take(&mut self, done: &Done) {
        self.running.remove(&done.number);
        self.schedule.ended(done.batch.group);
        let program = &self.programs[done.batch.program];
        let shown = self.summary.take(done, program);
        if !shown.is_empty() {
            println!("--- {}, after {:.1} s:\n{shown}", program.name, done.took.as_secs_f64());
        }
        for ended in done.progress.ended() {
            self.times.note(&programs::full_name(program, &ended.name), ended.took);
        }
    }

    /// Asks whatever runs to end, and starts nothing more.
    fn end(&mut self) {
        println!("Ending {} processes of tests.", self.running.len());
        self.summary.is_ending = true;
        self.schedule.clear();
        self.running.values().for_each(Running::end);
    }

    fn tell(&self, elapsed: Duration) {
        let mut running: Vec<&Running> = self.running.values().collect();
        running.sort_by_key(|running| running.since);
        let named: Vec<String> = running
            .iter()
            .take(NAMED)
            .map(|one| format!("{} ({} s)", one.name, one.since.elapsed().as_secs()))
            .collect();
        println!(
            "{} s: {} passed, {} failed; {} processes to come; running the longest: {}",
            elapsed.as_secs(),
            self.summary.passed,
            self.summary.failed.len(),
            self.schedule.left(),
            named.join(", ")
        );
    }
}

fn surroundings() -> Result<Surroundings, String> {
    let xtask = std::env::current_exe().map_err(|error| format!("this program has no path: {error}"))?;
    let outputs = target_directory().join(format!("test-output-{}", std::process::id()));
    std::fs::create_dir_all(&outputs).map_err(|error| format!("{}: {error}", outputs.display()))?;
    let mut variables = vec![
        (
            "FOREBAY_BIN",
            std::env::var_os("FOREBAY_BIN").unwrap_or_else(|| target_directory().join("debug/forebay").into()),
        ),
        (SEED, std::env::var_os(SEED).unwrap_or_else(|| "1".into())),
    ];
    if let Some(unusable) = std::env::var_os(TEMPORARY).filter(|path| is_divided(path)) {
        println!("{TEMPORARY}={}: shells, Slurm and the loader divide it: tests use {USUAL}.", unusable.display());
        variables.push((TEMPORARY, USUAL.into()));
    }
    Ok(Surroundings { xtask, variables, outputs })
}

/// Whether scripts and configurations of tests would take a path for several words.
fn is_divided(path: &OsStr) -> bool {
    path.as_bytes().iter().any(|byte| byte.is_ascii_whitespace() || b":,;=\"'\\$".contains(byte))
}

/// This program lies in `TARGET/debug/`, wherever cargo was told to build.
fn target_directory() -> PathBuf {
    let own = std::env::current_exe().ok().and_then(|path| Some(path.parent()?.parent()?.to_owned()));
    own.unwrap_or_else(|| root().join("target"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_one_word_is_used() {
        assert!(!is_divided(OsStr::new("/local/job-7/tmp.d_1")));
        assert!(["/my tmp", "/a:b", "/a\nb", "/$HOME"].iter().all(|path| is_divided(OsStr::new(path))));
    }
}
