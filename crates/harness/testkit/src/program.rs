//! Other programs, run to their end with a deadline.

use std::fmt::Display;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long a program of a test may take. A view that hangs must fail the test, not stop the suite.
const DEADLINE: Duration = Duration::from_secs(120);

/// How often a running program is looked at.
const POLL: Duration = Duration::from_millis(5);

/// A program that has ended.
#[derive(Clone, Debug)]
pub struct Finished {
    /// How.
    pub status: ExitStatus,
    /// Its standard output.
    pub stdout: Vec<u8>,
    /// Its standard error.
    pub stderr: String,
}

impl Finished {
    /// Its standard output as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// The signal that ended it.
    #[must_use]
    pub fn signal(&self) -> Option<i32> {
        self.status.signal()
    }

    /// Itself, if it succeeded.
    ///
    /// # Panics
    /// If it did not, with what it said.
    #[must_use]
    #[track_caller]
    pub fn good(self) -> Self {
        assert!(self.status.success(), "{}: {}\n{}", self.status, self.stderr, self.text());
        self
    }
}

/// Where `name` below `tests/` lies in the checkout that is tested, which cargo runs tests in. Not where the tests were
/// built: build outputs are shared by checkouts that come and go.
///
/// # Panics
/// If there is no working directory.
#[must_use]
pub fn file_of_tests(name: &str) -> PathBuf {
    std::path::absolute(name).expect("a working directory")
}

/// Runs `command` to its end, without input.
///
/// # Panics
/// If it cannot be started or takes too long.
#[track_caller]
pub fn run(command: &mut Command) -> Finished {
    let named = format!("{command:?}");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{named} cannot be run: {error}"));
    let (stdout, stderr) = (drain(child.stdout.take()), drain(child.stderr.take()));
    let status = wait(&mut child).unwrap_or_else(|| panic!("{named} takes longer than {DEADLINE:?}"));
    // A daemon that holds the pipe after its starter has ended would hang the reader: it must not.
    let stdout = stdout.join().unwrap_or_default();
    let stderr = String::from_utf8_lossy(&stderr.join().unwrap_or_default()).into_owned();
    Finished { status, stdout, stderr }
}

/// Copies a program that is going to be run. Another process writes it: a child that some other test forks meanwhile
/// would hold this one's descriptor for a moment, and a program that is open for writing cannot be run (`ETXTBSY`). Every user
/// may run the copy, whatever the mode was with which the program was built.
///
/// # Panics
/// If it cannot be copied.
#[track_caller]
pub fn copy_program(from: &Path, to: &Path) {
    let copied = run(Command::new("install").args(["-m", "755", "--"]).arg(from).arg(to));
    assert!(copied.status.success(), "{}", copied.stderr);
}

/// Runs a Python program; its arguments are in `sys.argv[1:]`.
///
/// # Panics
/// If it cannot be started or takes too long.
#[track_caller]
pub fn python(code: &str, arguments: &[&Path]) -> Finished {
    run(Command::new("python3").args(["-I", "-c", code]).args(arguments))
}

fn drain(pipe: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = vec![];
        if let Some(mut pipe) = pipe {
            let _ = pipe.read_to_end(&mut bytes);
        }
        bytes
    })
}

fn wait(child: &mut Child) -> Option<ExitStatus> {
    let start = Instant::now();
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        if start.elapsed() > DEADLINE {
            let _ = child.kill();
            return None;
        }
        std::thread::sleep(POLL);
    }
}

/// Waits until `condition` holds.
///
/// # Panics
/// If it does not within `deadline`.
#[track_caller]
pub fn wait_until(what: &str, deadline: Duration, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < deadline, "{what}: not within {deadline:?}");
        std::thread::sleep(POLL);
    }
}

/// The same of a condition that says what it lacks.
///
/// # Panics
/// If it does not hold within `deadline`.
#[track_caller]
pub fn wait_until_or<E: Display>(what: &str, deadline: Duration, mut condition: impl FnMut() -> Result<(), E>) {
    let start = Instant::now();
    while let Err(lacks) = condition() {
        assert!(start.elapsed() < deadline, "{what}: not within {deadline:?} ({lacks})");
        std::thread::sleep(POLL);
    }
}
