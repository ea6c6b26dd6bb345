//! A batch of tests while it runs: `xtask limited` in a process group of its own, its output kept until it has ended.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::build::Program;
use super::groups::Group;
use super::schedule::Batch;
use crate::progress::Progress;

/// Tests that share run so many at a time: what they share lives as long as one of them uses it.
const SHARING_THREADS: usize = 4;

/// Tests that take turns wait for each other; with a thread for each, all that wait are known.
const TURNS_THREADS: usize = 64;

/// The surroundings that every batch starts with.
pub struct Surroundings {
    /// This program.
    pub xtask: PathBuf,
    pub variables: Vec<(&'static str, OsString)>,
    /// For what tests and their programs print past the harness.
    pub outputs: PathBuf,
}

/// A batch that runs.
pub struct Running {
    pub pid: Pid,
    pub name: String,
    pub since: Instant,
}

/// A batch that has ended.
pub struct Done {
    pub number: usize,
    pub batch: Batch,
    pub status: ExitStatus,
    /// Output of the harness.
    pub printed: Vec<u8>,
    /// Output past it.
    pub beside: Vec<u8>,
    pub progress: Progress,
    pub took: Duration,
}

impl Running {
    /// Asks its tests to end.
    pub fn end(&self) {
        let _ = kill_process(self.pid, Signal::TERM);
    }
}

/// Starts a batch, whose end is sent to `done`.
pub fn start(
    batch: Batch,
    number: usize,
    program: &Program,
    surroundings: &Surroundings,
    done: Sender<Done>,
) -> Result<Running, String> {
    let beside = surroundings.outputs.join(format!("{number}.stderr"));
    let cannot = |error: std::io::Error| format!("{}: {error}", program.executable.display());
    let stderr = File::create(&beside).map_err(cannot)?;
    let child = command(&batch, program, surroundings).stdout(Stdio::piped()).stderr(stderr).spawn().map_err(cannot)?;
    let name = match &batch.tests[..] {
        [] => program.name.clone(),
        [test] => super::programs::full_name(program, test),
        tests => format!("{} ({} tests)", program.name, tests.len()),
    };
    let running = Running { pid: Pid::from_child(&child), name, since: Instant::now() };
    thread::spawn(move || {
        // The receiver waits for all that was started.
        let _ = done.send(follow(child, batch, number, &beside));
    });
    Ok(running)
}

fn command(batch: &Batch, program: &Program, surroundings: &Surroundings) -> Command {
    let threads = match batch.group {
        Group::Shares => SHARING_THREADS,
        Group::Turns => TURNS_THREADS,
        Group::Computes | Group::Fills | Group::Waits | Group::Alone => 1,
    };
    let mut command = Command::new(&surroundings.xtask);
    command.arg("limited").arg(&program.executable).args(&program.arguments);
    if !batch.tests.is_empty() {
        command.arg("--exact").args(&batch.tests);
    }
    command.args(["--show-output".to_owned(), format!("--test-threads={threads}")]);
    crate::cargo::forget_package(&mut command);
    command.current_dir(&program.directory);
    // As cargo does it for tests. One program is cargo, for the examples in documentation.
    if !program.lists_no_tests() {
        command.env("CARGO_MANIFEST_DIR", &program.directory);
    }
    command.envs(surroundings.variables.iter().map(|(name, value)| (name, value)));
    // A terminal's signals reach this program alone, which passes them on.
    command.stdin(Stdio::null()).process_group(0);
    command
}

fn follow(mut child: Child, batch: Batch, number: usize, beside: &Path) -> Done {
    let start = Instant::now();
    let (mut printed, mut progress) = (Vec::new(), Progress::new(start));
    if let Some(mut output) = child.stdout.take() {
        let mut bytes = [0; 8192];
        while let Ok(count @ 1..) = output.read(&mut bytes) {
            printed.extend_from_slice(&bytes[..count]);
            progress.take(&bytes[..count], Instant::now());
        }
    }
    let status = child.wait().unwrap_or_default();
    let kept = std::fs::read(beside).unwrap_or_default();
    let _ = std::fs::remove_file(beside);
    Done { number, batch, status, printed, beside: kept, progress, took: start.elapsed() }
}
