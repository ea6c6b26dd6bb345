//! `cargo xtask limited PROGRAM [ARGUMENT]...`: runs a program of tests, and ends it when one of them does not come to an
//! end. `suite` starts every program of tests by it.
//!
//! Tests get surroundings that are the same however the run was started: no signal is ignored (as a script's `make test &`
//! and `nohup` have it), and files are made with the usual mode. `SIGTERM` ends the tests as a time limit does.
//!
//! Processes that tests start end with them: whatever loses its parent becomes a child of this process, so all of them are found. Memory that
//! a test holds by a pipe is given back when its process ends, keepers unmount on `SIGTERM`, and the rest is killed.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, ExitCode, Stdio};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, set_child_subreaper, umask, wait};

use crate::progress::{Outcome, Progress, UNNAMED};
use crate::signals;

/// How long a test may take: several times as long as the longest on a machine that does nothing else.
const LIMIT: Duration = Duration::from_secs(600);

/// Another time limit, in seconds. Below a minute it holds only where tests run one after the other.
const LIMIT_VARIABLE: &str = "FOREBAY_TEST_LIMIT";

/// Causes of an early end: a time limit, or a signal.
enum End {
    /// These tests took too long.
    Late(Vec<String>),
    /// A signal asked for the end.
    Asked,
}

/// The mode bits that files of tests lack, and programs that they start.
pub const UMASK: u32 = 0o022;

/// How often is looked for a test that takes too long.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// How long what was printed may be on its way when the program has ended. Its children may hold the pipe for ever.
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
    umask(UMASK.into());
    let asked = signals::flag().map_err(|error| format!("cannot watch for signals: {error}"))?;
    let mut child = Command::new("env");
    child.arg(signals::DEFAULT).arg(program).args(arguments).stdout(Stdio::piped());
    let mut child = child.spawn().map_err(|error| format!("{program}: {error}"))?;
    let progress = Arc::new(Mutex::new(Progress::new(Instant::now())));
    let printed = child.stdout.take().map(|output| pass_on(output, Arc::clone(&progress)));
    let tests = Pid::from_child(&child);
    let ended = reap(tests);
    let end = loop {
        match ended.recv_timeout(LOOK_EVERY) {
            Ok(code) => {
                let _ = printed.map(|printed| printed.recv_timeout(PRINTED));
                // A test that ends by itself takes along what it has made. One that is killed does not.
                if code != 0 {
                    tell_left(end_all(tests));
                    remove_sandboxes(tests);
                }
                return Ok(ExitCode::from(code));
            }
            Err(RecvTimeoutError::Disconnected) => return Err(format!("{program} is no child any more")),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if let Some(late) = lock(&progress).late(Instant::now(), limit) {
            break End::Late(late);
        }
        if asked.load(Ordering::Relaxed) {
            break End::Asked;
        }
    };
    let started = descendants().into_iter().filter(|process| process.pid != tests).collect();
    let left = end_all(tests);
    remove_sandboxes(tests);
    tell(program, limit, &lock(&progress), &end, started, left);
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

/// A process below this one.
struct Process {
    pid: Pid,
    command: String,
}

/// All processes below this one that have not ended.
fn descendants() -> Vec<Process> {
    let parent = |pid: i32| {
        // A name that is cut off within a character is no text.
        let stat = String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/stat")).ok()?).into_owned();
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
    let command = fs::read(format!("/proc/{raw}/comm")).unwrap_or_default();
    Process { pid, command: String::from_utf8_lossy(&command).trim_end().to_owned() }
}

/// Ends the tests and all that they have started. Returns those that are left all the same.
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

/// Removes the directories of tests that were killed, with what is still mounted below them.
fn remove_sandboxes(tests: Pid) {
    let prefix = format!("forebay-test-{}-", tests.as_raw_nonzero());
    let entries = fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix)) {
        if let Err(error) = remove_sandbox(&entry.path()) {
            println!("{} is left: {error}", entry.path().display());
        }
    }
}

fn remove_sandbox(path: &Path) -> io::Result<()> {
    // The innermost mount was made last.
    mounts_below(path)?.iter().rev().for_each(|mount| unmount(mount));
    // A mount that stays would be emptied, too.
    if !mounts_below(path)?.is_empty() {
        return Err(io::Error::other("something is mounted below it"));
    }
    fs::remove_dir_all(path)
}

/// Mount points at or below `path`, in the order of mounting.
fn mounts_below(path: &Path) -> io::Result<Vec<PathBuf>> {
    let table = fs::read("/proc/self/mounts")?;
    let points = table.split(|byte| *byte == b'\n').filter_map(|line| line.split(|byte| *byte == b' ').nth(1));
    Ok(points.map(unescaped).filter(|point| point.starts_with(path)).collect())
}

/// A path as the kernel's tables write it: blanks, tabs, line ends and backslashes as a backslash and three octal digits.
fn unescaped(field: &[u8]) -> PathBuf {
    let (mut path, mut rest) = (Vec::with_capacity(field.len()), field);
    while let Some((byte, behind)) = rest.split_first() {
        let digits = behind.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()).filter(|_| *byte == b'\\') {
            Some(escaped) => {
                path.push(escaped);
                rest = &behind[3..];
            }
            None => {
                path.push(*byte);
                rest = behind;
            }
        }
    }
    PathBuf::from(OsString::from_vec(path))
}

fn unmount(mount: &Path) {
    if rustix::mount::unmount(mount, rustix::mount::UnmountFlags::DETACH).is_err() {
        let _ = Command::new("fusermount3").arg("-uz").arg(mount).status();
    }
}

/// Names processes that could not be ended.
fn tell_left(left: Vec<Process>) {
    if !left.is_empty() {
        println!("what could not be ended: {}", shown(left));
    }
}

fn shown(processes: Vec<Process>) -> String {
    let one = |process: &Process| format!("{} ({})", process.command, process.pid.as_raw_nonzero());
    processes.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Says so as the test harness says of a test that failed.
fn tell(program: &str, limit: Duration, progress: &Progress, end: &End, started: Vec<Process>, left: Vec<Process>) {
    println!();
    let failed = match end {
        End::Asked => {
            println!("{program} was ended by a signal");
            0
        }
        End::Late(late) => {
            for name in late {
                println!(
                    "test {name} ... FAILED: it has not ended within {} s, and {program} was ended",
                    limit.as_secs()
                );
            }
            if late.is_empty() {
                println!("{program} has printed nothing for {} s and was ended", (limit + UNNAMED).as_secs());
            }
            late.len().max(1)
        }
    };
    if !started.is_empty() {
        println!("what it had started was ended too: {}", shown(started));
    }
    tell_left(left);
    println!("tests of it that had not begun were not run");
    let [passed, ignored] = [Outcome::Passed, Outcome::Ignored].map(|outcome| progress.count(outcome));
    let failed = progress.count(Outcome::Failed) + failed;
    println!("test result: FAILED. {passed} passed; {failed} failed; {ignored} ignored; the program was ended");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_the_mount_table_are_read_whole() {
        let path = |field: &[u8]| unescaped(field).into_os_string().into_vec();
        assert_eq!(path(b"/a\\040b\\134c\\011"), b"/a b\\c\t");
        assert_eq!(path(b"/u\xff\\04"), b"/u\xff\\04");
        assert!(mounts_below(Path::new("/")).unwrap().contains(&PathBuf::from("/proc")));
        assert!(mounts_below(Path::new("/no/such/place")).unwrap().is_empty());
    }
}
